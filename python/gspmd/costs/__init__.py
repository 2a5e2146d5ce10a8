"""What a partitioned program costs on a device: communication, arithmetic, memory, time, and budgets of these."""

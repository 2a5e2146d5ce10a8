"""The cost of a partitioned program on a device: communication, compute, memory and time, and budgets of these."""

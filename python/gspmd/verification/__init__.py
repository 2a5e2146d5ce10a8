"""Whether a partitioned program computes the same as the program it was made of, for all inputs (docs/verify.md)."""

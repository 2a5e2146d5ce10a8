"""Whether a partitioned program computes what the program for one device does."""

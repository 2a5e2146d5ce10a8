"""What modules say, read into plain values: programs, operations, signatures, groups of devices."""

"""Writing the program of one device: StableHLO operations, collectives, and what operations share."""

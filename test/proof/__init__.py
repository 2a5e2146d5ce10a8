"""Programs made at random, run on many devices and on one, and compared: operations, loops, exchanges."""

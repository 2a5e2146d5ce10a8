"""Why each value is sharded as it is, in terms of the user's program."""

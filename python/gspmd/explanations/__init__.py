"""Why every value is sharded as it is, in the words of the user's program."""

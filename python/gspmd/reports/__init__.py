"""A program as one page: shardings and why, what they cost, when and where."""

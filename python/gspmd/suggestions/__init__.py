"""Annotations that would pay: tried one at a time, by partitioning the program with each."""

"""Comparisons: a program partitioned by gspmd and by XLA, or two versions of a program."""

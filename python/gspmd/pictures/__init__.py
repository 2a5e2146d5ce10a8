"""Shardings as pictures: which part of a value each device holds."""

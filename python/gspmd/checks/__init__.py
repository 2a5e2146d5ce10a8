"""Checks: run a partitioned program and the program for one device, and compare their results."""

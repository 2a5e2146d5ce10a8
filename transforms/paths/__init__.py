"""Paths of collectives that bring a value from one sharding to another, and what they take.

`planner.py` is the door. Deciding asks it for prices where these have no closed form, and resharding for the steps.
"""

"""A lower bound of communication for all programs with the same annotations: docs/least.md has the proof."""

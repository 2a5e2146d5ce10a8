"""Hostile inputs: whatever a file, an option or a terminal says, the answer is a result or one clear error."""

"""What the verifier cannot say."""

from __future__ import annotations


class NotKnown(Exception):
    """What a program makes at a place cannot be said in terms; the text says why."""

"""The exception for values that the verifier cannot express."""

from __future__ import annotations


class NotKnown(Exception):
    """A value cannot be expressed in terms; the text says why."""

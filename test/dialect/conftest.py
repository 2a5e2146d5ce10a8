"""Property tests have no deadline: machines are shared, and time is not what they test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("dialect", deadline=None)
settings.load_profile("dialect")

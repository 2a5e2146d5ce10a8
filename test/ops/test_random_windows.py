"""A sample of random window operations; `random_windows.py` runs more."""

from __future__ import annotations

import pytest
from support.random_windows import FAMILIES, run


@pytest.mark.parametrize("family", FAMILIES)
def test_random_windows(family: str) -> None:
    ran = sum(run(family, seed, count=1) for seed in range(8))
    assert ran >= 6, "most cases can be split"

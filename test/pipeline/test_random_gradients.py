"""A sample of convolutions and pooling with their gradients; `random_gradients.py` checks more."""

from __future__ import annotations

import pytest
from support.random_gradients import FAMILIES, run


@pytest.mark.parametrize("family", FAMILIES)
def test_random_gradients(family: str) -> None:
    for seed in range(5):
        assert not run(family, seed)

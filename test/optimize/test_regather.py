"""Weights gathered again for the backward pass, where a device may not keep them that long."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh

import gspmd
from gspmd.examples import mlp


def test_weights_are_not_kept_from_the_forward_to_the_backward_pass() -> None:
    mesh = Mesh(np.array(jax.devices()[:8]), ("x",))
    config = mlp.Config(recipe="fsdp", batch=512)
    text = str(mlp.lower(config, mesh).as_text(debug_info=True))
    weight = 64 * 256 * 4
    kept = gspmd.partition(text)
    again = gspmd.partition(text, options={"keep_gathered_bytes": weight - 1})
    gathers = [[c.bytes for c in p.collectives if c.kind == "all_gather"] for p in (kept, again)]
    assert gathers == [[weight * 7 // 8] * 2, [weight * 7 // 8] * 3], "the first layer's weights have no second use"
    assert gspmd.check(text, again)
    enough = gspmd.partition(text, options={"keep_gathered_bytes": weight})
    assert len(enough.collectives) == len(kept.collectives)

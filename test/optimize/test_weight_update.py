"""Weights that every device holds, updated in shards: the paper's figures of what is sent and what is held."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import gspmd
from gspmd.examples import decoder_lm, mlp
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.parsing.mlir import new_context

REST = "gspmd-propagate,gspmd-reshard,gspmd-localize,gspmd-optimize"


def partitioned(lowered: Any, passes: str) -> gspmd.Partitioned:
    module = read_program(lowered, new_context())
    PassManager.parse(f"gspmd-ingest,{passes}{REST}").run(module, on_diagnostic=lambda _: None)
    return gspmd.Partitioned(module)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))


def held(product: gspmd.Partitioned) -> int:
    """Elements of all arguments on one device."""
    return sum(math.prod(value.local_shape) for value in product.signature.inputs)


def test_each_gradient_is_scattered_once_and_each_weight_gathered_once() -> None:
    lowered = mlp.lower(mlp.Config(recipe="dp", batch=512), mesh())
    before = partitioned(lowered, "")
    after = partitioned(lowered, "gspmd-shard-weight-update{update-axes=x,y update-min-bytes=0},")
    assert Counter(c.kind for c in before.collectives) == {"all_reduce": 5}
    assert Counter(c.kind for c in after.collectives) == {"reduce_scatter": 4, "all_gather": 4, "all_reduce": 1}
    assert sum(c.bytes for c in after.collectives) == sum(c.bytes for c in before.collectives)
    state = 64 * 256 * 2 + 64 + 256
    assert held(before) - held(after) == state - state // 8
    report = gspmd.check(lowered, after)
    assert report, report.to_dict()


def test_the_loss_of_several_steps_is_that_of_one_device() -> None:
    config = mlp.Config(recipe="dp")
    lowered = mlp.lower(config, mesh())
    step = gspmd.compile(partitioned(lowered, "gspmd-shard-weight-update{update-axes=x,y},"))
    single = mlp.program(config, ONE_DEVICE)
    ours, theirs = jax.tree.leaves(single.init()), single.init()
    reference = jax.jit(single.step)
    for index in range(3):
        batch = single.batch(index)
        *ours, mine = step(*ours, *batch)
        theirs, expected = reference(theirs, batch)
        np.testing.assert_allclose(np.asarray(mine), np.asarray(expected["loss"]), rtol=1e-5)


@pytest.mark.parametrize(
    ("example", "config"),
    [
        (mlp, mlp.Config(recipe="tp", batch=512)),
        (decoder_lm, decoder_lm.Config(recipe="dp", scan=True, model=32, hidden=64, sequence=8, vocabulary=32)),
    ],
    ids=["tensor parallel", "scanned decoder"],
)
def test_nothing_more_is_sent_and_less_is_held(example: Any, config: Any) -> None:
    lowered = example.lower(config, mesh())
    before = partitioned(lowered, "")
    after = partitioned(lowered, "gspmd-shard-weight-update{update-axes=x},")
    assert sum(c.bytes * (c.count or 1) for c in after.collectives) <= sum(
        c.bytes * (c.count or 1) for c in before.collectives
    )
    assert held(after) < held(before)
    if example is mlp:
        report = gspmd.check(lowered, after)
        assert report, report.to_dict()


def test_axes_have_to_be_named() -> None:
    lowered = mlp.lower(mlp.Config(recipe="dp"), mesh())
    with pytest.raises(
        gspmd.Error, match="pass 'gspmd-shard-weight-update' has no axes; set update-axes= to some of x, y"
    ):
        partitioned(lowered, "gspmd-shard-weight-update,")
    with pytest.raises(gspmd.Error, match='has no axis "q"'):
        partitioned(lowered, "gspmd-shard-weight-update{update-axes=q},")

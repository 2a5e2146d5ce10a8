"""Decoding: the tokens are those of one device, and the cache stays where it is."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from support.example_moves import AS_WRITTEN

import gspmd
from gspmd.collectives import collective_operations
from gspmd.examples import lm_decoding
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered
from gspmd.transforms.ir.reading import model_of

SMALL = lm_decoding.Config(model=32, head_size=4, hidden=64, vocabulary=512, prompt=4, new=8, top_k=4)
# To look at what is sent: caches and a vocabulary too large to be gathered. Nothing of this size is run.
LARGE = lm_decoding.Config(model=128, head_size=16, hidden=512, vocabulary=8192, prompt=4, new=252, top_k=8)


@functools.cache
def on_one_device() -> Program:
    """The same function whenever asked for, so that it is compiled once."""
    return lm_decoding.program(SMALL, ONE_DEVICE)


@functools.cache
def step(recipe: str, config: lm_decoding.Config = SMALL) -> gspmd.Lowered:
    row = lm_decoding.RECIPES[recipe]
    return lowered(lm_decoding.program(config, row), row.mesh, options=AS_WRITTEN if config is LARGE else None)


@pytest.mark.parametrize("recipe", lm_decoding.RECIPES)
def test_tokens_of_five_batches_are_exactly_those_of_one_device(recipe: str) -> None:
    """A token that differs would be an infinite error; seen of caches and log probabilities: 2e-6."""
    row, compiled = lm_decoding.RECIPES[recipe], step(recipe).compile()
    for found in compare(lm_decoding.program(SMALL, row), on_one_device(), row.mesh, 5, compiled):
        assert found.metric_error <= 5e-6
        assert found.state_error <= 2e-5


def test_what_is_cached_is_what_reading_everything_at_once_gives() -> None:
    program = on_one_device()
    state, _ = jax.jit(program.step)(program.init(), program.batch(0))
    tokens = state["tokens"]
    assert np.array_equal(tokens[:, : SMALL.prompt], program.batch(0))
    read = jax.jit(lambda *given: lm_decoding.read(SMALL, ONE_DEVICE, *given, 0))
    scores, cache = read(state["params"], program.init()["cache"], tokens[:, :-1])
    for found, expected in zip(state["cache"], cache, strict=True):
        np.testing.assert_allclose(found[:, :, :-1], expected[:, :, :-1], atol=2e-5)
    best = np.argsort(np.asarray(scores), axis=-1)[:, -SMALL.top_k :]
    assert all(token in row for token, row in zip(np.asarray(tokens[:, -1]), best, strict=True))


def test_another_batch_has_other_random_numbers() -> None:
    program = on_one_device()
    state, _ = jax.jit(program.step)(program.init(), program.batch(0))
    first = np.asarray(state["tokens"])
    again, _ = jax.jit(program.step)(state, program.batch(0))
    assert not np.array_equal(first, again["tokens"])


# ---- what is sent ----


def moves(recipe: str) -> list[tuple[str, str, int]]:
    """Kind, axes and bytes of every collective."""
    return [(c.kind, c.axes, c.bytes) for c in step(recipe, LARGE).partitioned.collectives]


@pytest.mark.parametrize("recipe", lm_decoding.RECIPES)
def test_no_layer_of_a_cache_is_sent(recipe: str) -> None:
    """No collective in the loop has as many elements as one device's shard of it, and none before it gathers heads."""
    partitioned = step(recipe, LARGE).partitioned
    signature = partitioned.signature
    caches = [v for v in (*signature.inputs, *signature.outputs) if len(v.shape) == 5 and v.shape[1] == LARGE.batch]
    assert len(caches) == 4
    assert {math.prod(v.shape) // math.prod(v.local_shape) for v in caches} == {8}
    shard = math.prod(caches[0].local_shape[1:])
    for op, collective in collective_operations(model_of(partitioned.module), partitioned.mesh):
        in_decoding = (collective.count or 1) >= LARGE.new - 1
        assert not in_decoding or math.prod(op.result.type.shape) < shard
        assert len(op.result.type.shape) < 4 or collective.kind == "all_reduce"


def test_a_cache_split_by_examples_needs_no_communication() -> None:
    (metric,) = moves("batch")
    assert metric[0] == "all_reduce"
    assert metric[2] <= 8


def test_a_cache_split_by_heads_reduces_once_a_block() -> None:
    """And embeddings that are looked up, maximum and sum of the softmax; of the top k every shard gives its own."""
    found = Counter(kind for kind, _, _ in moves("heads"))
    prefill, loop = 2 + 3, 2 + 3
    assert found == {"all_reduce": prefill + loop, "all_gather": 2 * 2}


def test_a_cache_split_by_positions_reduces_a_maximum_a_sum_and_a_mix_over_them() -> None:
    """Before the loop and in it. Devices along x share the softmax of the next token's logits, too."""
    over_x = [(kind, axes) for kind, axes, _ in moves("positions") if '"x"' in axes]
    assert Counter(over_x) == {("all_reduce", '"x"'): 3 + 3, ("all_reduce", '"x", "y"'): 2 + 2}
    assert max(size for _, axes, size in moves("positions") if axes == '"x", "y"') <= LARGE.batch * 4 * 2
    assert not [kind for kind, axes, _ in moves("positions") if kind == "all_gather" and axes != '"y"']


@pytest.mark.parametrize("top_k", [0, 1000])
def test_more_candidates_than_there_are_tokens_are_refused(top_k: int) -> None:
    settings: dict[str, Any] = {"top_k": top_k}
    with pytest.raises(gspmd.UsageError, match=f"'top_k' is {top_k}; give 1 to 128, the size of the vocabulary"):
        lm_decoding.program(lm_decoding.Config(**settings), ONE_DEVICE)

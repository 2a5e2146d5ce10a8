"""The decoder: every recipe learns what one device learns, and the paper's 2-D attempts send and hold what it says."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

import gspmd
from gspmd.examples import decoder_lm
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered

SMALL = {"layers": 1, "model": 16, "heads": 4, "head_size": 4, "hidden": 32, "vocabulary": 32, "sequence": 8}


def partitioned(recipe: str, **settings: Any) -> gspmd.Partitioned:
    row = decoder_lm.RECIPES[recipe]
    return lowered(decoder_lm.program(decoder_lm.Config(**settings), row), row.mesh).partitioned


def sent(product: gspmd.Partitioned, axis: str = "") -> int:
    """Bytes that a device sends in a step, over this axis."""
    return sum(c.bytes * (c.count or 1) for c in product.collectives if axis in c.axes)


# ---- five steps of training ----


@functools.cache
def on_one_device(config: decoder_lm.Config) -> Program:
    """The same function whenever asked for, so that it is compiled once."""
    return decoder_lm.program(config, ONE_DEVICE)


def check(recipe: str, metric: float, state: float, **settings: Any) -> None:
    """Five steps differ from those of one device by no more than these relative errors."""
    config, row = decoder_lm.Config(**{**SMALL, **settings}), decoder_lm.RECIPES[recipe]
    for step in compare(decoder_lm.program(config, row), on_one_device(config), row.mesh, 5):
        assert step.metric_error <= metric, step
        assert step.state_error <= state, step


@pytest.mark.parametrize("recipe", decoder_lm.RECIPES)
def test_five_steps_are_those_of_one_device(recipe: str) -> None:
    """Seen: 3e-7, and 1e-4, as Adam's first steps divide gradients near zero by their size."""
    check(recipe, metric=2e-6, state=5e-4)


def test_all_options_together_and_an_uneven_batch() -> None:
    """Factored moments' first steps are signs, too; the uneven batch of 6 is on four devices."""
    check("2d", metric=1e-4, state=2e-2, batch=6, layers=2, scan=True, remat=True, gated=True, optimizer="factored")


def test_in_bfloat16_losses_agree_to_its_precision() -> None:
    """By momentum: Adam's first steps are the signs of gradients, which rounding to 8 bits may turn."""
    check("2d", metric=5e-3, state=5e-2, dtype="bfloat16", optimizer="momentum")


def test_the_loss_falls_on_one_device() -> None:
    program = decoder_lm.program(decoder_lm.Config(gated=True), ONE_DEVICE)
    step, state, losses = jax.jit(program.step), program.init(), []
    for index in range(30):
        state, metrics = step(state, program.batch(index))
        losses.append(float(metrics["loss"]))
    assert np.mean(losses[-5:]) < losses[0] - 1.2


# ---- what is sent ----

# Activations of 64 x 64 x 64 elements, weights of 64 x 256: a batch larger than weights, as in practice.
LARGE = {"batch": 64, "sequence": 64, "layers": 1}


@pytest.fixture(scope="module")
def attempts() -> dict[str, gspmd.Partitioned]:
    return {name: partitioned(name, **LARGE) for name in ("2d-attempt-1", "2d-attempt-2", "2d")}


def test_the_first_attempt_reduces_activations_over_both_axes(attempts: dict[str, gspmd.Partitioned]) -> None:
    """Of a layer, query, key, value and hidden units on x, where the batch is not split: the most by far."""
    first, second = attempts["2d-attempt-1"], attempts["2d-attempt-2"]
    assert {c.kind for c in first.collectives if '"x"' in c.axes} == {"all_reduce"}
    assert sent(first) > 3 * sent(second)


def test_the_second_attempt_gathers_weights_over_x_and_reduces_activations_over_y(
    attempts: dict[str, gspmd.Partitioned],
) -> None:
    found = attempts["2d-attempt-2"].collectives
    whole = [c for c in found if c.kind == "all_reduce" and '"y"' in c.axes and c.bytes >= 64 // 4 * 64 * 64 * 4]
    assert len(whole) == 5, "once a block and direction, and the logits' gradient"
    gathers = [c for c in found if c.kind == "all_gather" and '"x"' in c.axes]
    assert len(gathers) == 7, "six weights, and the embedding once for both of its uses"


def test_the_finalised_sharding_scatters_and_gathers_what_the_second_reduces(
    attempts: dict[str, gspmd.Partitioned],
) -> None:
    """Four all-reduces of a layer and that of the logits become as many reduce-scatters; gathers are for products."""
    found = attempts["2d"].collectives
    assert Counter(c.kind for c in found if c.axes == '"y"' and c.kind != "all_reduce")["reduce_scatter"] == 5
    small = [c.bytes for c in found if c.kind == "all_reduce" and '"y"' in c.axes]
    assert max(small) <= 64 // 4 * 64 * 4 * 2, "statistics of layer norms and of the softmax"
    assert sent(attempts["2d"]) < 1.15 * sent(attempts["2d-attempt-2"]), "gathered again for weights' gradients"


def test_the_finalised_sharding_holds_least(attempts: dict[str, gspmd.Partitioned]) -> None:
    """What the paper chose it for: activations between blocks, which the backward pass keeps, are split twice."""
    held = {name: gspmd.cost(product).memory.temporaries for name, product in attempts.items()}
    assert held["2d"] < held["2d-attempt-2"]
    assert held["2d"] < held["2d-attempt-1"]


def test_bfloat16_halves_what_is_gathered() -> None:
    one, other = (partitioned("fsdp", dtype=dtype) for dtype in ("float32", "bfloat16"))
    weights = [
        [c for c in p.collectives if c.kind == "all_gather" and c.cause.startswith("operand")] for p in (one, other)
    ]
    gathered = [sum(c.bytes for c in each) for each in weights]
    assert gathered[1] == gathered[0] // 2


def test_layers_computed_again_keep_less() -> None:
    kept, again = (partitioned("dp", scan=True, layers=4, remat=remat) for remat in (False, True))
    assert gspmd.cost(again).memory.temporaries < 0.7 * gspmd.cost(kept).memory.temporaries


def test_factored_moments_take_little_room() -> None:
    def moments(optimizer: str) -> int:
        state, _ = decoder_lm.program(decoder_lm.Config(optimizer=optimizer), ONE_DEVICE).abstract()
        return sum(leaf.size for leaf in jax.tree.leaves(state["moments"]))

    assert moments("factored") < moments("adam") / 10


@pytest.mark.parametrize(("setting", "value"), [("dtype", "float8"), ("optimizer", "lion")])
def test_unknown_choices_are_refused(setting: str, value: str) -> None:
    with pytest.raises(gspmd.UsageError, match=f"'{value}' is no value for '{setting}'; choose one of"):
        decoder_lm.program(decoder_lm.Config(**{setting: value}), ONE_DEVICE)

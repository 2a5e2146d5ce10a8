"""The Conformer in all its parallelisms: five steps as on one device, and what is sent."""

from __future__ import annotations

import functools
from collections import Counter

import jax
import numpy as np
import pytest
from support.example_moves import AS_WRITTEN

import gspmd
from gspmd.examples import conformer as example
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered

SIZES = {"model": 16, "head_size": 4, "hidden": 32, "features": 10, "batch": 16}
FRAMES = 50  # of 100 that enter: over four devices uneven
LAYERS = 4
WIDE = example.Config(model=256, head_size=64, hidden=1024, features=80, batch=4)  # not run, only partitioned
STAGES = example.Config(model=64, head_size=16, hidden=256, features=10, batch=8)  # neither is this
# Adam scales all gradients to 1, also those that are all but rounding; moments of these differ most.
# Seen are 5e-7 and 3e-4.
METRIC_BOUND, STATE_BOUND = 1e-5, 1e-3

CASES = [(recipe, 1) for recipe in example.RECIPES] + [("pipeline", 2)]
Sent = Counter[tuple[str, str]]


def config_of(repeats: int) -> example.Config:
    """The circular pipeline recomputes its layers, too."""
    return example.Config(repeats=repeats, remat=repeats > 1, **SIZES)


@functools.cache
def single(repeats: int) -> Program:
    """On one device, kept so that it is compiled once."""
    return example.program(config_of(repeats), ONE_DEVICE)


@functools.cache
def lower(recipe: str, repeats: int = 1, as_written: bool = False) -> gspmd.Lowered:
    chosen = example.RECIPES[recipe]
    return lowered(example.program(config_of(repeats), chosen), chosen.mesh, options=AS_WRITTEN if as_written else None)


def sent(recipe: str, repeats: int = 1) -> tuple[Sent, Sent]:
    """How many collectives of which kind, over which axes, there are in loops and outside of them, if the recipe is run
    as it is written.
    """
    inside, outside = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in lower(recipe, repeats, as_written=True).partitioned.collectives:
        (outside if each.count == 1 else inside)[each.kind, each.axes.replace('"', "")] += 1
    return inside, outside


def activations(recipe: str, repeats: int = 1) -> Sent:
    """Those in loops, but for sums of gradients of weights over the batch."""
    inside, _ = sent(recipe, repeats)
    gradients = ("x", "x, y")
    return Counter({key: n for key, n in inside.items() if key[0] != "all_reduce" or key[1] not in gradients})


@pytest.mark.parametrize(("recipe", "repeats"), CASES)
def test_five_steps_agree_with_one_device(recipe: str, repeats: int) -> None:
    config, chosen = config_of(repeats), example.RECIPES[recipe]
    compiled = lower(recipe, repeats).compile()
    steps = list(compare(example.program(config, chosen), single(repeats), chosen.mesh, 5, compiled))
    assert max(step.metric_error for step in steps) <= METRIC_BOUND
    assert max(step.state_error for step in steps) <= STATE_BOUND


def test_the_loss_falls() -> None:
    program = single(1)
    step, state, losses = jax.jit(program.step), program.init(), []
    for index in range(30):
        state, metrics = step(state, program.batch(index))
        losses.append(float(metrics["loss"]))
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])


def test_data_parallelism_only_reduces_gradients() -> None:
    inside, outside = sent("dp")
    assert (inside + outside).keys() == {("all_reduce", "x")}


def test_tensor_parallelism_reduces_after_each_of_four_blocks_there_and_back_some_in_two_halves() -> None:
    """Where weights are larger than activations. A reduce-scatter and an all-gather send what an all-reduce does."""
    recipe = example.RECIPES["tp"]
    collectives = lowered(example.program(WIDE, recipe), recipe.mesh, options=AS_WRITTEN).partitioned.collectives
    along = [each for each in collectives if each.axes == '"y"']
    assert all(each.count == LAYERS for each in along), "in the loops"
    whole = WIDE.batch // 2 * FRAMES * WIDE.model * 4 * 2 * 3 // 4
    found = Counter((each.kind, each.bytes) for each in along if each.bytes >= whole // 2)
    halves = found["reduce_scatter", whole // 2]
    assert found == Counter(
        {
            ("all_reduce", whole): 8 - halves,
            ("reduce_scatter", whole // 2): halves,
            ("all_gather", whole // 2): halves,
        }
    )
    assert (
        max((each.bytes for each in along if each.bytes < whole // 2), default=0) <= WIDE.batch // 2 * FRAMES * 4 * 2
    ), "of norms"


def test_split_frames_go_to_heads_and_back_and_send_margins_of_the_convolution() -> None:
    to_heads_and_back = 2 * (3 + 1)
    margins = 2 * 3  # from both neighbours: of the input, and for the gradients of input and filter
    expected = {("all_to_all", "y"): to_heads_and_back, ("collective_permute", "y"): margins}
    assert activations("sequence") == expected
    permutes = [
        e
        for e in lower("sequence", as_written=True).partitioned.collectives
        if e.kind == "collective_permute" and e.count > 1
    ]
    margin = SIZES["batch"] // 2 * (example.Config.taps // 2) * SIZES["model"] * 4
    assert {each.bytes for each in permutes} == {margin}
    _, outside = sent("sequence")
    assert outside.keys() == {("all_reduce", "x, y"), ("collective_permute", "y")}


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_pipeline_sends_a_microbatch_a_step_there_and_back(repeats: int) -> None:
    inside, outside = sent("pipeline", repeats)
    assert inside == {("collective_permute", "stage"): 2}
    microbatch = SIZES["batch"] // example.Config.microbatches // 2 * FRAMES * SIZES["model"] * 4
    permutes = [
        e for e in lower("pipeline", repeats, as_written=True).partitioned.collectives if e.kind == "collective_permute"
    ]
    steps = example.Config.microbatches * repeats + LAYERS - 1
    assert {(each.bytes, each.count) for each in permutes} == {(microbatch, steps)}
    # The result goes to where its examples are, its gradient comes back; the rest are gradients of weights.
    # A reduce-scatter and an all-to-all send the same here: what of all stages is that of the last one.
    assert outside["reduce_scatter", "stage"] + outside["all_to_all", "stage"] == 2
    assert not [key for key in outside if key[0] == "all_gather"]


def test_a_pipeline_of_split_tensors_exchanges_in_its_stages() -> None:
    """As without a pipeline: after each of four blocks, there and back, all at once or in two halves."""
    recipe = example.RECIPES["pipeline-tp"]
    collectives = lowered(example.program(STAGES, recipe), recipe.mesh, options=AS_WRITTEN).partitioned.collectives
    whole = (
        STAGES.batch // STAGES.microbatches * FRAMES * STAGES.model * 4
    )  # a microbatch, and its sum over two devices
    found = Counter((each.kind, each.axes.replace('"', ""), each.bytes) for each in collectives if each.count > 1)
    halves = found["reduce_scatter", "y", whole // 2]
    signs = found.pop(("all_gather", "y", whole // 2 // 4), 0)  # of a byte an element, of what was made of halves
    assert signs <= halves
    assert found == Counter(
        {
            ("collective_permute", "stage", whole): 2,
            ("all_reduce", "y", whole): 8 - halves,
            ("reduce_scatter", "y", whole // 2): halves,
            ("all_gather", "y", whole // 2): halves,
        }
    )

"""The 3-D U-Net, split in space, against the same on one device."""

from __future__ import annotations

import dataclasses

import jax
import pytest
from support.example_moves import AS_WRITTEN

import gspmd
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered
from gspmd.examples.unet3d import RECIPES, Config, program

# No level divides by the devices: depths of 20, 10 and 5, of which ten slices lie on five of eight devices.
UNEVEN = Config(depth=20, height=14, width=8, channels=4, groups=2)
# To look at what is sent: slices so large that no level is gathered to save latencies. Nothing of these sizes is run.
# Depths of 68, 34 and 17: the last of eight devices has fewer slices than others, and none at lower levels.
LARGE_UNEVEN = Config(depth=68, height=30, width=32, channels=4, groups=2)
LARGE_EVEN = Config(depth=32, height=64, width=64, channels=4, groups=2)
STATISTICS = {"depth": '"x"', "depth+height": '"x", "y"', "dp+depth": '"y"'}
GRADIENTS = {"depth": '"x"', "depth+height": '"x", "y"', "dp+depth": '"x", "y"'}
SPACE = {"depth": {'"x"'}, "depth+height": {'"x"', '"y"'}, "dp+depth": {'"y"'}}


def partitioned(config: Config, recipe: str) -> gspmd.Partitioned:
    row = RECIPES[recipe]
    found: gspmd.Partitioned = lowered(program(config, row), row.mesh, options=AS_WRITTEN).partitioned
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_five_steps_of_uneven_volumes_are_those_of_one_device(recipe: str) -> None:
    """Seen: metrics 3e-7 apart. Adam divides by roots of tiny second moments: states 1e-4 of a tensor's largest.

    Two levels, as most of the time goes into compiling; with three, all agrees as well.
    """
    config = dataclasses.replace(UNEVEN, levels=2)
    steps = list(compare(program(config, RECIPES[recipe]), program(config, ONE_DEVICE), RECIPES[recipe].mesh, 5))
    assert max(step.metric_error for step in steps) <= 1e-5
    assert max(step.state_error for step in steps) <= 1e-3
    losses = [float(step.partitioned["loss"]) for step in steps]
    assert losses[-1] < losses[0]


def test_it_learns_to_segment() -> None:
    one = program(Config(depth=12, height=12, width=12, channels=4, groups=2, levels=2), ONE_DEVICE)
    step, state = jax.jit(one.step), one.init()
    found = []
    for index in range(30):
        state, metrics = step(state, one.batch(index))
        found.append({name: float(value) for name, value in metrics.items()})
    assert found[-1]["loss"] < 0.6 * found[0]["loss"]
    assert found[-1]["dice"] > found[0]["dice"] + 0.1


@pytest.mark.parametrize("config", [LARGE_EVEN, LARGE_UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_images_are_only_exchanged_with_neighbours(recipe: str, config: Config) -> None:
    """Forward and backward: activations move by permutes, statistics and gradients are summed, nothing is gathered."""
    collectives = partitioned(config, recipe).collectives
    assert {c.kind for c in collectives} == {"collective_permute", "all_reduce"}
    assert {c.axes for c in collectives if c.kind == "collective_permute"} == SPACE[recipe]
    sums = [c for c in collectives if c.kind == "all_reduce"]
    # Statistics of an image are summed over its parts, gradients over batches too, and so is the loss in the end.
    assert {c.axes for c in sums} <= {STATISTICS[recipe], GRADIENTS[recipe], '"x"'}
    kernel = 3**3 * (4 * config.channels) ** 2 * 4  # the largest gradient in bytes, of which a ring sends twice as much
    assert max(c.bytes for c in sums) <= 2 * kernel


def test_every_convolution_exchanges_its_halo_once_in_each_pass() -> None:
    """Six convolutions of window 3 need both neighbours, two of stride 2 one, those that go up none.

    The gradient by an input needs as much, and that of the first convolution is not wanted; the gradient by a kernel
    uses the halo of the forward pass.
    """
    permutes = [c for c in partitioned(LARGE_EVEN, "depth").collectives if c.kind == "collective_permute"]
    assert len(permutes) == (6 * 2 + 2 * 1) + (5 * 2 + 2 * 1)
    config = LARGE_EVEN
    widest = config.batch * config.height * config.width * 2 * config.channels * 4  # one slice of the widest image
    assert max(c.bytes for c in permutes) <= widest

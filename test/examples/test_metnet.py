"""The weather model, split in space, against the same on one device."""

from __future__ import annotations

import jax
import pytest
from support.example_moves import AS_WRITTEN

import gspmd
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered
from gspmd.examples.metnet import RECIPES, Config, program

# A context of 51, at half the resolution 26, of which 13 are cut out and brought back to 26: over 4 and over 2 devices.
UNEVEN = Config(context=51, target=26, channels=8, stacks=1)
# To look at what is sent: images so large that none is gathered to save latencies. Nothing of these sizes is run.
LARGE_UNEVEN = Config(context=203, target=102, channels=8, stacks=1)
LARGE_EVEN = Config(context=256, target=128, channels=8, stacks=1)


def partitioned(config: Config, recipe: str) -> gspmd.Partitioned:
    row = RECIPES[recipe]
    found: gspmd.Partitioned = lowered(program(config, row), row.mesh, options=AS_WRITTEN).partitioned
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_five_steps_of_uneven_images_are_those_of_one_device(recipe: str) -> None:
    """Seen: metrics 1e-6 apart, states 1e-6 of a tensor's largest."""
    steps = list(compare(program(UNEVEN, RECIPES[recipe]), program(UNEVEN, ONE_DEVICE), RECIPES[recipe].mesh, 5))
    assert max(step.metric_error for step in steps) <= 1e-5
    assert max(step.state_error for step in steps) <= 1e-4


def test_it_learns_to_forecast() -> None:
    """Batches differ in how much rain there is: their losses are averaged."""
    one = program(UNEVEN, ONE_DEVICE)
    step, state = jax.jit(one.step), one.init()
    losses = []
    for index in range(40):
        state, metrics = step(state, one.batch(index))
        losses.append(float(metrics["loss"]))
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


@pytest.mark.parametrize("config", [LARGE_EVEN, LARGE_UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_frames_are_only_exchanged_with_neighbours(recipe: str, config: Config) -> None:
    """Forward and backward, through dilated and strided convolutions and the crop: no gather."""
    collectives = partitioned(config, recipe).collectives
    assert {c.kind for c in collectives} == {"collective_permute", "all_reduce"}
    assert {c.axes for c in collectives if c.kind == "collective_permute"} == {'"x"', '"y"'}
    # Each kernel of the seven convolutions, the one that goes up and the head, its bias and the blocks' scales have
    # one gradient; the scales by lead time are summed over space, then over the batch. Loss and accuracy are sums, too.
    assert sum(c.kind == "all_reduce" for c in collectives) <= (6 + 1 + 2) + 1 + 3 + 2 * 3 + 2 * 3 + 2


def test_every_convolution_exchanges_its_halo_once_in_each_pass() -> None:
    """Along width, between two devices: one permute for each of seven convolutions, one for six gradients by inputs."""
    permutes = [c for c in partitioned(LARGE_EVEN, "spatial").collectives if c.kind == "collective_permute"]
    assert sum(c.axes == '"y"' for c in permutes) == 7 + 6
    # Along height there are neighbours on both sides, but for the stride, and the crop moves parts between devices.
    assert sum(c.axes == '"x"' for c in permutes) == (6 * 2 + 1) + 6 * 2 + 2
    config = LARGE_EVEN
    row = config.batch * (config.context // 4) * config.channels * 4  # of a device, at half the resolution
    # Rows that change places, a quarter of a shard's; in the backward pass half as wide, as only what was cut out is.
    crop = config.context // 16 * row
    assert sorted(c.bytes for c in permutes if c.bytes > max(config.dilations) * row) == [crop // 2, crop]

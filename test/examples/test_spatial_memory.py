"""The point of spatial partitioning: an image that does not fit on one device fits on eight. Nothing is run here."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import gspmd
from gspmd.examples import metnet, unet3d
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import lowered

CONFIGS: dict[str, tuple[Any, Any]] = {
    "volume": (unet3d, unet3d.Config(batch=1, depth=256, height=256, width=256, channels=32, groups=8, blobs=1)),
    "uneven volume": (unet3d, unet3d.Config(batch=1, depth=250, height=242, width=256, channels=32, groups=8, blobs=1)),
    "weather": (metnet, metnet.Config(batch=2, context=2048, target=1024, channels=64, storms=1)),
    "uneven weather": (metnet, metnet.Config(batch=2, context=2042, target=1014, channels=64, storms=1)),
}


@functools.cache
def cost(name: str, recipe: str = "") -> gspmd.CostReport:
    """What a step costs on cores of TPU v3: partitioned, or without a recipe on one."""
    module, config = CONFIGS[name]
    how = module.RECIPES[recipe] if recipe else ONE_DEVICE
    step = lowered(module.program(config, how), how.mesh or {"x": 1})
    return gspmd.cost(step.partitioned, target="tpu-v3", original=step.program)


@pytest.mark.parametrize(
    ("name", "recipe"),
    [(name, r) for name, (module, _) in CONFIGS.items() for r in module.RECIPES if r != "dp+depth"],
)
def test_a_device_holds_about_an_eighth(name: str, recipe: str) -> None:
    """Less than eight times less, for halos, and for the padding of uneven shards at three levels.

    Seen: 7.6 to 7.7 times where sizes divide, 6.9 to 7.1 where they do not; arithmetic of all devices together half a
    percent to 12 percent more than on one.
    """
    one, part = cost(name), cost(name, recipe)
    assert 6.5 <= one.memory.peak / part.memory.peak <= 8
    assert part.flops_ratio is not None
    assert 1 <= part.flops_ratio <= 1.2


@pytest.mark.parametrize("recipe", ["depth", "depth+height"])
@pytest.mark.parametrize("name", ["volume", "uneven volume"])
def test_a_volume_too_large_for_one_core_fits_on_eight(name: str, recipe: str) -> None:
    one, part = cost(name).memory, cost(name, recipe).memory
    assert one.peak > one.capacity > part.peak


@pytest.mark.parametrize("recipe", ["depth", "depth+height"])
def test_no_device_holds_a_whole_image(recipe: str) -> None:
    """Nothing held at the peak is as large as a third of the finest activations, which are 2 GiB on one device."""
    found = cost("volume", recipe).memory.buffers
    assert max(buffer.bytes for buffer in found) < 256**3 * 32 * 4 // 3

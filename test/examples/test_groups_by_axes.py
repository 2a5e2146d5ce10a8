"""Examples whose replica groups are along mesh axes, as on many devices: the same collectives join the same devices."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from support.example_moves import step

import gspmd
from gspmd.collectives import collective_operations
from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.examples import bert, moe_translation, two_towers, vit
from gspmd.runtime import executable_module
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.modules import codec_of
from gspmd.transforms.ir.reading import model_of

CONFIGS = {
    bert: bert.Config(layers=1, model=48, hidden=96, vocabulary=33, topics=4, sequence=16, batch=32),
    moe_translation: moe_translation.Config(layers=1, model=48, heads=4, head_size=16, hidden=96, batch=64),
    two_towers: two_towers.Config(
        layers=1, image=20, image_model=40, image_hidden=80, text_model=48, text_hidden=96, vector=28
    ),
    vit: vit.Config(layers=1, model=48, hidden=96, batch=24),
}
CASES = [
    (bert, "2d"),
    (bert, "dp+update"),
    (moe_translation, "expert+tensor"),
    (two_towers, "towers"),
    (vit, "patches"),
    (vit, "2d"),
]
Devices = list[tuple[str, list[tuple[int, ...]]]]


def devices_of(product: gspmd.Partitioned) -> Devices:
    """By collective, in order: its kind, and its groups or pairs of devices."""
    module = model_of(product.module)
    meshes = codec_of(module).meshes
    found = []
    for op, collective in collective_operations(module, product.mesh):
        permute = collective.kind == "collective_permute"
        groups = op.attributes["source_target_pairs" if permute else "replica_groups"]
        if names_axes(groups):
            ids = replica_groups(*read_group_axes(groups, meshes))
        else:
            ids = np.array(ir.DenseIntElementsAttr(groups), np.int64).reshape(groups.type.shape)
        found.append((collective.kind, sorted(map(tuple, ids.tolist()))))
    return found


@pytest.mark.parametrize(("example", "recipe"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_groups_by_axes_join_the_devices_that_are_listed(example: Any, recipe: str) -> None:
    lowered = step(example, dataclasses.replace(CONFIGS[example], recipe=recipe))
    named = gspmd.partition(lowered.as_text(), options={"list_groups_up_to": 1})
    assert devices_of(named) == devices_of(lowered.partitioned)
    assert "replica_group_mesh_axes" in named.module_text
    executable_module.read_partitioned(named.module)  # raises where a client of PJRT would read others

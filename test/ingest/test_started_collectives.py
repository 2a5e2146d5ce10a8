"""Collectives that are started and waited for have the results that XLA gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec

import gspmd

P = PartitionSpec


def test_all_kinds_of_them() -> None:
    program = Path(__file__).with_name("started-collectives.mlir").read_text(encoding="utf-8")
    assert gspmd.check(program).passed
    kinds = [collective.kind for collective in gspmd.partition(program).collectives]
    assert sorted(kinds) == ["all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"]


@pytest.mark.skipif(not hasattr(lax, "psum_scatter_start"), reason="this version of JAX has none")
@pytest.mark.parametrize("names", [{"x"}, {"x", "y"}])
def test_as_jax_writes_them(names: set[str]) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def scattered(value: Any) -> Any:
        begun = lax.psum_scatter_start(value, "x", tiled=True)
        return begun.done() + 1

    mapped = jax.shard_map(scattered, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=names, check_vma=False)
    values = np.arange(64, dtype=np.float32).reshape(16, 4)
    np.testing.assert_array_equal(gspmd.jit(mapped, mesh=mesh)(values), values.reshape(4, 4, 4).sum(0) + 1)

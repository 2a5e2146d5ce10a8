"""Sums scaled with a number that is known when the program runs: summed up before or behind that."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import gspmd

MESH = AbstractMesh((4,), ("y",), axis_types=(AxisType.Auto,))
ROWS, INNER, COLUMNS = 256, 512, 384
SUM = 2 * ROWS * COLUMNS * 4 * 3 // 4  # bytes that a device sends for an all-reduce of a product over four devices


def scaled(divide: bool, each: bool) -> Any:
    """A scaled product and another one, added; `each`: every row is scaled with a number of its own."""

    def program(a: Any, b: Any, c: Any, d: Any, factor: Any) -> Any:
        product = a @ b
        return (product / factor if divide else product * factor) + c @ d

    def argument(shape: tuple[int, ...], *spec: str | None) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*spec)))

    left, right = argument((ROWS, INNER), None, "y"), argument((INNER, COLUMNS), "y", None)
    whole = NamedSharding(MESH, P(None, None))
    factor = argument((ROWS, 1) if each else ())
    traced = jax.jit(program, out_shardings=whole).trace(left, right, left, right, factor)
    return traced.lower(lowering_platforms=("cpu",))


def sent(program: Any, **options: Any) -> dict[str, int]:
    """Bytes by kind of what is partitioned, and right."""
    partitioned = gspmd.partition(program, options=options)
    assert gspmd.check(program, partitioned)
    return gspmd.cost(partitioned).bytes_by_kind


@pytest.mark.parametrize("divide", [False, True], ids=["multiplied", "divided"])
def test_sums_scaled_with_a_number_that_may_be_infinite_are_taken_before(divide: bool) -> None:
    program = scaled(divide, each=False)
    assert sum(sent(program).values()) > SUM
    assert sum(sent(program, assume_finite=True).values()) == SUM


def test_sums_scaled_with_several_numbers_are_taken_before() -> None:
    program = scaled(divide=False, each=True)
    assert sent(program, assume_finite=True) == sent(program)

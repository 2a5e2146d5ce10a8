"""Arguments that lie in memory in an order of their own, as `jax.device_put(x, Format(layout, sharding))` lays them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH

import gspmd

SPLIT = NamedSharding(MESH, P("x", "y"))
WHOLE = NamedSharding(MESH, P())
X = np.arange(256, dtype=np.int32).reshape(16, 16)
COLUMNS_FIRST = Layout((1, 0))


def product(x: Any) -> Any:
    return x @ x.T


def other_than_usual() -> jax.Array:
    """X, split, in the layout that is not the usual one of the devices."""
    usual = jax.device_put(X, SPLIT).format.layout
    return jax.device_put(X, Format(Layout(tuple(reversed(usual.major_to_minor))), SPLIT))


@pytest.mark.parametrize("given", [None, SPLIT, Format(None, SPLIT)])
def test_an_array_is_read_in_the_layout_that_it_has(given: Any) -> None:
    f = gspmd.jit(product) if given is None else gspmd.jit(product, in_shardings=given)
    usual, other = jax.device_put(X, SPLIT), other_than_usual()
    for x in (usual, other, usual, other):
        np.testing.assert_array_equal(f(x), X @ X.T)


def test_an_array_on_one_device_or_of_uneven_parts_is_too() -> None:
    alone = jax.device_put(X, Format(COLUMNS_FIRST, SingleDeviceSharding(jax.devices()[0])))
    np.testing.assert_array_equal(gspmd.jit(product, mesh=MESH)(alone), X @ X.T)
    few = X[:10, :10]
    copies = jax.device_put(few, Format(COLUMNS_FIRST, WHOLE))
    uneven = gspmd.jit(lambda x: gspmd.annotate(x, "x", None) @ x.T, mesh=MESH)
    np.testing.assert_array_equal(np.asarray(uneven(copies)), few @ few.T)


def test_a_program_of_gspmd_compile_copies_it() -> None:
    partitioned = gspmd.jit(product, in_shardings=SPLIT).lower(X).partitioned
    (result,) = gspmd.compile(partitioned, jax.devices())(other_than_usual())
    np.testing.assert_array_equal(result.to_numpy(), X @ X.T)


def test_a_layout_that_contradicts_what_is_said_is_refused_as_by_jax() -> None:
    other = other_than_usual()
    usual = jax.device_put(X, SPLIT)
    for f in (jax.jit, gspmd.jit):
        said = f(product, in_shardings=Format(usual.format.layout, SPLIT))
        with pytest.raises(ValueError, match="Layout passed to jit does not match the layout on the respective arg"):
            said(other)
    with pytest.raises(ValueError, match="layout"):
        gspmd.jit(product).lower(usual).compile()(other)
    with pytest.raises(ValueError, match="layout"):
        gspmd.jit(product).lower(other).compile()(usual)


def test_a_layout_alone_is_refused_as_by_jax() -> None:
    for f in (jax.jit, gspmd.jit):
        with pytest.raises(ValueError, match="does not accept device-local layouts directly"):
            f(product, in_shardings=Layout.AUTO)


def test_where_nothing_is_said_of_an_argument_it_is_split_as_it_comes() -> None:
    f = gspmd.jit(lambda x, y: (x, y), in_shardings=(SPLIT, None))
    for spec in (P("x"), P("y")):
        y = jax.device_put(X, NamedSharding(MESH, spec))
        assert f(X, y)[1].sharding.is_equivalent_to(y.sharding, 2)
    compiled = gspmd.jit(product, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO))
    assert compiled.lower(jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=SPLIT)).compile().in_shardings[0][0] == SPLIT


def test_a_compiled_function_takes_host_arrays_of_the_type_that_jax_converts() -> None:
    compiled = gspmd.jit(product, mesh=MESH, in_shardings=P("x")).lower(X).compile()
    np.testing.assert_array_equal(compiled(X.astype(np.int64)), X @ X.T)


def test_a_value_that_is_laid_out_by_a_constraint_is_split_as_that_says() -> None:
    rows = NamedSharding(MESH, P("x"))
    usual = jax.device_put(X, rows).format

    @gspmd.jit
    def transposed(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x.T, usual)

    found = transposed(jax.device_put(X, rows))
    assert found.format == usual
    np.testing.assert_array_equal(found, X.T)

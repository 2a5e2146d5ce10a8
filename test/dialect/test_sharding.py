"""Shards, tiles and checks of shardings in mesh axes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialect_strategies import index_along, meshes, tensor_shardings

from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

MESH = Mesh((("x", 12), ("y", 2)))


@given(tensor_shardings(), st.data())
def test_shards_cover_the_shape_exactly_once(sharding: TensorSharding, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.integers(0, 9)) for _ in range(sharding.rank))
    local = sharding.local_shape(shape)
    for dim, (size, count) in enumerate(zip(shape, sharding.shard_counts(), strict=True)):
        covered: list[int] = []
        for shard in range(count):
            start, stop = sharding.shard_range(shape, dim, shard)
            assert 0 <= start <= stop <= size
            assert stop - start <= local[dim]
            assert start == min(shard * local[dim], size)
            covered += range(start, stop)
        assert covered == list(range(size))
        assert local[dim] == math.ceil(size / count)
    assert sharding.divides(shape) == all(local[d] * n == shape[d] for d, n in enumerate(sharding.shard_counts()))


def test_shards_may_be_short_or_empty() -> None:
    over_four = TensorSharding(MESH, (DimSharding((Axis("x", 1, 4),)),))
    ranges = [over_four.shard_range((5,), 0, shard) for shard in range(4)]
    assert ranges == [(0, 2), (2, 4), (4, 5), (5, 5)]
    assert [over_four.shard_range((1,), 0, shard) for shard in range(4)] == [(0, 1), (1, 1), (1, 1), (1, 1)]
    assert over_four.local_shape((0,)) == (0,)


@given(tensor_shardings(roles=("copies",)))
def test_every_tile_is_on_equally_many_devices(sharding: TensorSharding) -> None:
    mesh, dims = sharding.mesh, sharding.dim_axes()
    tiles = [tuple(index_along(mesh, axes, position) for axes in dims) for position in range(mesh.size)]
    counts = sharding.shard_counts()
    copies = mesh.size // math.prod(counts)
    for index in itertools.product(*map(range, counts)):
        assert tiles.count(index) == copies


@given(meshes())
def test_strides_of_axes_add_up_to_the_position(mesh: Mesh) -> None:
    for position in range(mesh.size):
        axes = [mesh.axis(name) for name, _ in mesh.axes]
        assert sum(index_along(mesh, [axis], position) * mesh.stride(axis) for axis in axes) == position


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"dims": [[("x", 1, 12)], [("x", 1, 2)]]}, "used twice"),
        ({"dims": [[("x", 1, 4)]], "manual": [("x", 2, 2)]}, "used twice"),
        ({"dims": [[("x", 1, 4)]], "replicated": [("x", 1, 4)]}, "used twice"),
        ({"dims": [[("x", 1, 4)], [("x", 6, 2)]]}, "cannot both be factors"),
        ({"dims": [[("x", 1, 5)]]}, "does not divide"),
        ({"dims": [[("z", 1, 2)]]}, 'no axis "z"'),
        ({"dims": [[("x", 1, 2), ("x", 2, 2)]]}, "must be written as it"),
        ({"manual": [("x", 1, 2), ("x", 2, 2)]}, "must be written as it"),
        ({"replicated": [("y", 1, 2), ("x", 1, 12)]}, "replicated axes must be in mesh order"),
        ({"unreduced": [("y", 1, 2), ("x", 1, 12)]}, "unreduced axes must be in mesh order"),
        ({"manual": [("y", 1, 2), ("x", 1, 12)]}, "manual axes must be in mesh order"),
    ],
)
def test_shardings_that_contradict_themselves_are_refused(
    lists: dict[str, list[tuple[str, int, int]]], message: str
) -> None:
    dims = tuple(DimSharding(tuple(Axis(*a) for a in axes)) for axes in lists.pop("dims", []))  # type: ignore[misc]
    with pytest.raises(AnnotationError, match=message):
        TensorSharding(MESH, dims, **{k: tuple(Axis(*a) for a in axes) for k, axes in lists.items()})


@pytest.mark.parametrize(
    ("axes", "ids", "message"),
    [
        ((("x", 2), ("x", 2)), (), "occurs twice"),
        ((("x", 0),), (), "size 0"),
        ((("x", 2),), (0, 0), "permutation"),
        ((("x", 2),), (1, 2), "permutation"),
        ((), (-1,), "negative"),
    ],
)
def test_meshes_that_make_no_sense_are_refused(
    axes: tuple[tuple[str, int], ...], ids: tuple[int, ...], message: str
) -> None:
    with pytest.raises(AnnotationError, match=message):
        Mesh(axes, ids)


@pytest.mark.parametrize("priority", [-1, 2**63])
def test_priorities_fit_their_type(priority: int) -> None:
    with pytest.raises(AnnotationError, match="priority"):
        DimSharding((), True, priority)

"""Manual computations: regions with a body that is per-device along some axes, as `shard_map` emits them.

Outside, a value is global; inside, it is the shard along the manual axes, and only free axes can split it further. In
every dimension the manual axes come first, so a sharding inside is the sharding outside without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gspmd.dialect.axes import Axes, canonical, overlap, size_of, take, without
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes
from gspmd.dialect.sdy_attrs import SdyCodec, read_manual_axes
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import MANUAL, Body, Op, Program
from gspmd.transforms.parsing.mlir import located


@dataclasses.dataclass(frozen=True, slots=True)
class ManualRegion:
    """The manual `axes` of a region, and the shardings of its operands and results outside."""

    axes: Axes
    in_shardings: tuple[TensorSharding, ...]
    out_shardings: tuple[TensorSharding, ...]

    def inside(self, sharding: TensorSharding) -> TensorSharding:
        """The sharding inside for a sharding outside."""
        dims = []
        for dim in sharding.dims:
            axes = self.free(dim.axes)
            dims.append(DimSharding(axes, dim.is_open, dim.priority if axes or dim.is_open else None))
        return dataclasses.replace(sharding, dims=tuple(dims), replicated=self.free(sharding.replicated))

    def free(self, axes: Axes) -> Axes:
        """The axes that are not manual in the region."""
        return tuple(axis for axis in axes if not overlap([axis], self.axes))

    def law(self, sharding: TensorSharding) -> TensorSharding:
        """The sharding of a boundary value without manual axes; propagation neither takes nor adds these."""
        unused = without(self.axes, sharding.used_axes() + sharding.replicated)
        kept = canonical(sharding.mesh.sorted(sharding.replicated + unused))
        # Manual axes apply from the start, whatever the priority of their dimension.
        dims = tuple(
            dataclasses.replace(dim, priority=None) if overlap(dim.axes, self.axes) else dim for dim in sharding.dims
        )
        return dataclasses.replace(sharding, dims=dims, replicated=kept)

    def counts(self, sharding: TensorSharding) -> tuple[int, ...]:
        """The number of parts into which the manual axes split each dimension."""
        return tuple(size_of(axes) // size_of(self.free(axes)) for axes in sharding.dim_axes())

    def even(self, sharding: TensorSharding, shape: tuple[int, ...]) -> TensorSharding:
        """The closed sharding outside for a value of that shape, without free axes that would pad the parts.

        Otherwise, shards would not end at the boundaries of the parts along manual axes.
        """
        dims = []
        for axes, count, size in zip(sharding.dim_axes(), self.counts(sharding), shape, strict=True):
            free = self.free(axes)
            manual = axes[: len(axes) - len(free)]
            dims.append(axes if count == 1 else manual + take(free, size // count)[0])
        return sharding.with_axes(tuple(dims))


def read_region(op: Operation, codec: SdyCodec, mesh: Mesh) -> ManualRegion:
    """Raises Unsupported (located) for operands or results that are partial sums."""
    attributes = op.attributes
    axes = tuple(mesh.axis(name) for name in read_manual_axes(attributes["manual_axes"]))
    found = ManualRegion(
        mesh.sorted(axes), codec.read_list(attributes["in_shardings"]), codec.read_list(attributes["out_shardings"])
    )
    if any(sharding.unreduced for sharding in found.in_shardings + found.out_shardings):
        with located(op):
            raise Unsupported("has an unreduced operand or result", hint="sum it inside the manual computation")
    return found


def ops_in_regions(program: Program, codec: SdyCodec, mesh: Mesh) -> Iterator[tuple[Op, Axes, int]]:
    """Every operation, the manual axes around it, and the index of the innermost region (-1 for none)."""

    def walk(block: Body, held: Axes, region: int) -> Iterator[tuple[Op, Axes, int]]:
        for op in block.ops:
            yield op, held, region
            inner, index = held, region
            if op.info.name == MANUAL:
                inner, index = mesh.sorted(held + read_region(op.ir, codec, mesh).axes), op.index
            for nested in op.regions:
                yield from walk(nested, inner, index)

    yield from walk(program.body, (), -1)


def check_free(op: Op, shardings: tuple[TensorSharding, ...], held: Axes) -> None:
    """Raise AnnotationError (located) for a sharding over an axis that is manual around it."""
    for sharding in shardings:
        used = [axis for axis in sharding.used_axes() if overlap([axis], held)]
        if used:
            with located(op.ir):
                axes = print_axes(tuple(used), sharding.mesh)
                raise AnnotationError(
                    f"is split over {axes}, which a manual computation around it holds",
                    hint="use axes that are not manual here",
                    code=Code.MANUAL,
                )

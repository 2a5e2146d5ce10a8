"""Building the program of one device: where it is, its parts, its masks and collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of, without
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import read_type
from gspmd.transforms.emit.collective_builder import CollectiveBuilder
from gspmd.transforms.ir.op_info import TensorType

INDEX = TensorType((), "i32")


class Emitter(CollectiveBuilder):
    """Builds inside one function, whose entry block is `entry`.

    Indices of shards are computed once, at the top of the function.
    """

    def __init__(self, context: ir.Context, mesh: Mesh, entry: ir.Block, list_groups_up_to: int = 64) -> None:
        super().__init__(context, mesh, list_groups_up_to)
        # Everything else in the function may be erased; index computations gather before this operation.
        self._anchor = ir.Operation.create(
            "stablehlo.partition_id",
            results=[ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32, context), loc=self.location)],
            loc=self.location,
            ip=ir.InsertionPoint.at_block_begin(entry),
        )
        self.held: Axes = ()  # by manual computations around what is built
        self.apart = False  # whether devices that differ along axes of a manual computation may be elsewhere here
        self._made: dict[Any, Any] = {}
        self._position: Any = None
        self._aliases: list[Any] = []

    def finish(self) -> None:
        """Call once, when all is emitted."""
        for alias in self._aliases:
            alias.replace_all_uses_with(alias.owner.operands[0])
            alias.owner.operation.erase()
        self._anchor.erase()

    def alias(self, value: Any) -> Any:
        """The value under a name of its own until all is emitted: what is known of one does not hold for the other."""
        self._aliases.append(self.kept_apart(value))
        return self._aliases[-1]

    # ---- where this device is ----

    def shard_index(self, axes: Axes) -> Any:
        """This device's index along the list of axes, as a scalar i32; made once per function."""
        return self._at_top(axes, lambda: self._make_index(axes))

    def free_axes(self) -> Axes:
        """The axes that no manual computation holds here."""
        return without(self.mesh.all_axes(), self.held)

    def is_first(self, axes: Axes) -> Any:
        """Whether this device is the first of those that differ along these axes only, as a scalar i1."""
        return self._at_top(("first", axes), lambda: self._equals(self.shard_index(axes), 0))

    def is_partition(self, number: int) -> Any:
        """Whether this is the partition of that number, as a scalar i1."""
        return self._at_top(("partition", number), lambda: self._equals(self._partition(), number))

    def _equals(self, value: Any, number: int) -> Any:
        return self.compare(value, "EQ", self.constant(INDEX, number))

    def _at_top(self, key: Any, make: Callable[[], Any]) -> Any:
        """A value that the whole function sees, made once."""
        found = self._made.get(key)
        if found is None:
            point, location = self.point, self.location
            self.point = ir.InsertionPoint(self._anchor)
            self.location = ir.Location.unknown(self.context)
            also, self.also = self.also, {}
            found = self._made[key] = make()
            self.point, self.location, self.also = point, location, also
        return found

    def _make_index(self, axes: Axes) -> Any:
        if self._position is None:
            self._position = self._mesh_position()
        terms, below = [], size_of(axes)
        for axis in axes:
            below //= axis.size
            stride = self.mesh.stride(axis)
            value = self._position
            if stride > 1:
                value = self.binary("divide", value, self.constant(INDEX, stride))
            if stride * axis.size < self.mesh.size:
                value = self.binary("remainder", value, self.constant(INDEX, axis.size))
            terms.append(value if below == 1 else self.binary("multiply", value, self.constant(INDEX, below)))
        total = terms[0]
        for term in terms[1:]:
            total = self.binary("add", total, term)
        return total

    def _mesh_position(self) -> Any:
        """Row-major position of this partition in the mesh: its id, looked up when the order is special."""
        partition = self._partition()
        if not self.mesh.device_ids:
            return partition
        positions = np.argsort(np.array(self.mesh.device_ids))
        return self.element_of(positions, partition)

    def _partition(self) -> Any:
        return self.convert(self.op("stablehlo.partition_id", [], [TensorType((), "ui32")]), "i32")

    def shard_offset(self, axes: Axes, shard_size: int, element: str = "i32") -> Any:
        """Where this device's shard begins along a dimension split over `axes`, a scalar."""
        index = self.convert(self.shard_index(axes), element)
        if shard_size == 1:
            return index
        return self.binary("multiply", index, self.constant(TensorType((), element), shard_size))

    def shard(self, value: Any, sharding: TensorSharding) -> Any:
        """This device's part of a value that every device holds whole."""
        return self.shard_dims(value, {d: dim.axes for d, dim in enumerate(sharding.dims) if dim.axes})

    def shard_dims(self, value: Any, dims: dict[int, Axes]) -> Any:
        """Split the local value further along `dims`; the last shards are padded with zeros."""
        if not dims:
            return value
        type_ = read_type(value)
        counts = {d: size_of(axes) for d, axes in dims.items()}
        sizes = [-(-n // counts.get(d, 1)) for d, n in enumerate(type_.shape)]
        value = self.pad_to(value, [n if d not in counts else sizes[d] * counts[d] for d, n in enumerate(type_.shape)])
        zero = self.constant(INDEX, 0)
        starts = [self.shard_offset(dims[d], sizes[d]) if d in dims else zero for d in range(type_.rank)]
        return self.dynamic_slice(value, starts, sizes)

    # ---- masks ----

    def mask(self, value: Any, dim: int, axes: Axes, size: int, fill: Any) -> Any:
        """Replace what lies beyond the global `size` of a dimension split over `axes`.

        `fill` is a scalar value of the operand's element type or a word for `splat`.
        """
        type_ = read_type(value)
        local = type_.shape[dim]
        if local * size_of(axes) == size:
            return value
        position = self.op("stablehlo.iota", [], [TensorType(type_.shape, "i32")], iota_dimension=self.i64(dim))
        left = self.binary("subtract", self.constant(INDEX, size), self.shard_offset(axes, local))
        inside = self.compare(position, "LT", self.broadcast_scalar(left, TensorType(type_.shape, "i32")))
        if isinstance(fill, ir.Value):
            filler = self.broadcast_scalar(fill, type_)
        else:
            filler = self.constant(type_, fill)
        return self.op("stablehlo.select", [inside, value, filler], [type_])

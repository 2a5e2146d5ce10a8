"""Building per-device StableHLO: typed operations, shard indices, masks and collectives."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.groups import replica_groups
from gspmd.transforms.support.identity import reducer_operation, splat
from gspmd.transforms.support.op_info import TensorType, element_bytes

INDEX = TensorType((), "i32")


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """Why a collective exists: a sentence, and the location of the operation that needs it."""

    text: str
    location: Any


class Emitter:
    """Creates operations before a moving insertion point of one function.

    Indices of shards are computed once, at the top of the function.
    """

    def __init__(self, context: ir.Context, mesh: Mesh, entry: ir.Block, list_groups_up_to: int = 64) -> None:
        self.context = context
        self.mesh = mesh
        self.point: Any = None
        self.location: Any = ir.Location.unknown(context)
        self._list_groups_up_to = list_groups_up_to
        # Everything else in the function may be erased; index computations gather before this operation.
        self._anchor = ir.Operation.create(
            "stablehlo.partition_id",
            results=[ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32, context), loc=self.location)],
            loc=self.location,
            ip=ir.InsertionPoint.at_block_begin(entry),
        )
        self._types: dict[TensorType, Any] = {}
        self._indices: dict[Axes, Any] = {}
        self._groups: dict[Axes, Any] = {}
        self._position: Any = None
        self._channels = 0

    def finish(self) -> None:
        """Call once, when all is emitted."""
        self._anchor.erase()

    # ---- types and plain operations ----

    def mlir_type(self, type_: TensorType) -> Any:
        found = self._types.get(type_)
        if found is None:
            shape = "x".join(map(str, type_.shape))
            text = f"tensor<{shape}x{type_.element}>" if shape else f"tensor<{type_.element}>"
            found = self._types[type_] = ir.Type.parse(text if type_.is_tensor else type_.element, self.context)
        return found

    def op(self, name: str, operands: Sequence[Any], results: Sequence[TensorType], **attributes: Any) -> Any:
        """Create an operation; returns its result, or the list of results when there is not just one."""
        created = ir.Operation.create(
            name,
            results=[self.mlir_type(t) for t in results],
            operands=list(operands),
            attributes={k: v for k, v in attributes.items() if v is not None},
            loc=self.location,
            ip=self.point,
        )
        return created.results[0] if len(results) == 1 else list(created.results)

    def i64s(self, values: Sequence[int]) -> Any:
        return ir.DenseI64ArrayAttr.get(list(values), self.context)

    def i64(self, value: int) -> Any:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)

    def constant(self, type_: TensorType, value: Any) -> Any:
        """A uniform constant; `value` is a number or a word that `splat` knows."""
        if type_.element.startswith("complex<"):
            if value in ("lowest", "highest", "ones"):
                raise Unsupported(f"complex numbers have no '{value}' value")
            part = TensorType(type_.shape, type_.element[len("complex<") : -1])
            real = 0 if value == "zero" else value
            parts = [self.constant(part, real), self.constant(part, real * 0.0)]
            return self.op("stablehlo.complex", parts, [type_])
        return self.op("stablehlo.constant", [], [type_], value=splat(self.mlir_type(type_), value))

    def unary(self, name: str, value: Any, type_: TensorType) -> Any:
        return self.op(f"stablehlo.{name}", [value], [type_])

    def binary(self, name: str, left: Any, right: Any, type_: TensorType | None = None) -> Any:
        return self.op(f"stablehlo.{name}", [left, right], [type_ or read_type(left)])

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        type_ = read_type(value)
        if type_.shape == tuple(shape):
            return value
        return self.op("stablehlo.reshape", [value], [TensorType(tuple(shape), type_.element)])

    def transpose(self, value: Any, permutation: Sequence[int]) -> Any:
        type_ = read_type(value)
        shape = tuple(type_.shape[p] for p in permutation)
        result = TensorType(shape, type_.element)
        return self.op("stablehlo.transpose", [value], [result], permutation=self.i64s(permutation))

    def broadcast_scalar(self, value: Any, type_: TensorType) -> Any:
        return self.op("stablehlo.broadcast_in_dim", [value], [type_], broadcast_dimensions=self.i64s([]))

    def slice(self, value: Any, limits: Sequence[int]) -> Any:
        """The leading part of every dimension."""
        type_ = read_type(value)
        if type_.shape == tuple(limits):
            return value
        rank = len(limits)
        return self.op(
            "stablehlo.slice",
            [value],
            [TensorType(tuple(limits), type_.element)],
            start_indices=self.i64s([0] * rank),
            limit_indices=self.i64s(limits),
            strides=self.i64s([1] * rank),
        )

    def pad_to(self, value: Any, shape: Sequence[int]) -> Any:
        """Extend every dimension at its end to `shape`; what is added is zero."""
        type_ = read_type(value)
        if type_.shape == tuple(shape):
            return value
        zero = self.constant(TensorType((), type_.element), 0)
        rank = len(type_.shape)
        return self.op(
            "stablehlo.pad",
            [value, zero],
            [TensorType(tuple(shape), type_.element)],
            edge_padding_low=self.i64s([0] * rank),
            edge_padding_high=self.i64s([b - a for a, b in zip(type_.shape, shape, strict=True)]),
            interior_padding=self.i64s([0] * rank),
        )

    def convert(self, value: Any, element: str) -> Any:
        type_ = read_type(value)
        if type_.element == element:
            return value
        return self.op("stablehlo.convert", [value], [TensorType(type_.shape, element)])

    # ---- where this device is ----

    def shard_index(self, axes: Axes) -> Any:
        """This device's index along the list of axes, as a scalar i32; made once per function."""
        found = self._indices.get(axes)
        if found is None:
            point, location = self.point, self.location
            self.point = ir.InsertionPoint(self._anchor)
            self.location = ir.Location.unknown(self.context)
            found = self._indices[axes] = self._make_index(axes)
            self.point, self.location = point, location
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
        partition = self.op("stablehlo.partition_id", [], [TensorType((), "ui32")])
        partition = self.convert(partition, "i32")
        if not self.mesh.device_ids:
            return partition
        positions = np.argsort(np.array(self.mesh.device_ids)).astype(np.int32)
        table = self.op(
            "stablehlo.constant",
            [],
            [TensorType((self.mesh.size,), "i32")],
            value=ir.DenseElementsAttr.get(positions, context=self.context),
        )
        found = self.op(
            "stablehlo.dynamic_slice",
            [table, partition],
            [TensorType((1,), "i32")],
            slice_sizes=self.i64s([1]),
        )
        return self.reshape(found, ())

    def shard_offset(self, axes: Axes, shard_size: int, element: str = "i32") -> Any:
        """Where this device's shard begins along a dimension split over `axes`, a scalar."""
        index = self.convert(self.shard_index(axes), element)
        if shard_size == 1:
            return index
        return self.binary("multiply", index, self.constant(TensorType((), element), shard_size))

    def shard(self, value: Any, type_: TensorType, sharding: TensorSharding) -> Any:
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
        return self.op(
            "stablehlo.dynamic_slice",
            [value, *starts],
            [TensorType(tuple(sizes), type_.element)],
            slice_sizes=self.i64s(sizes),
        )

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
        inside = self.op(
            "stablehlo.compare",
            [position, self.broadcast_scalar(left, TensorType(type_.shape, "i32"))],
            [TensorType(type_.shape, "i1")],
            comparison_direction=ir.Attribute.parse("#stablehlo<comparison_direction LT>", self.context),
        )
        if isinstance(fill, ir.Value):
            filler = self.broadcast_scalar(fill, type_)
        else:
            filler = self.constant(type_, fill)
        return self.op("stablehlo.select", [inside, value, filler], [type_])

    # ---- collectives ----

    def _collective_attributes(self, axes: Axes, cause: Cause) -> dict[str, Any]:
        self._channels += 1
        self.location = cause.location
        handle = f"#stablehlo.channel_handle<handle = {self._channels}, type = 1>"
        return {
            "channel_handle": ir.Attribute.parse(handle, self.context),
            "gspmd.axes": ir.StringAttr.get(print_axes(axes, self.mesh), self.context),
            "gspmd.cause": ir.StringAttr.get(cause.text, self.context),
        }

    def _replica_groups(self, axes: Axes) -> Any:
        found = self._groups.get(axes)
        if found is None:
            if self.mesh.size <= self._list_groups_up_to:
                found = ir.DenseElementsAttr.get(replica_groups(self.mesh, axes), context=self.context)
            else:
                found = self._named_groups(axes)
            self._groups[axes] = found
        return found

    def _named_groups(self, axes: Axes) -> Any:
        """Groups by axis name: their text does not grow with the number of devices."""
        refs = []
        for axis in axes:
            sub = "" if self.mesh.is_full(axis) else f", sub_axis_info = ({axis.pre}){axis.size}"
            refs.append(f'#stablehlo.axis_ref<name = "{axis.name}"{sub}>')
        text = f"#stablehlo.replica_group_mesh_axes<mesh = @{self.mesh.name}, axes = [{', '.join(refs)}]>"
        return ir.Attribute.parse(text, self.context)

    def _with_reducer(
        self, name: str, value: Any, result: TensorType, combiner: str, attributes: dict[str, Any]
    ) -> Any:
        created = ir.Operation.create(
            name,
            results=[self.mlir_type(result)],
            operands=[value],
            attributes=attributes,
            regions=1,
            loc=self.location,
            ip=self.point,
        )
        scalar = self.mlir_type(TensorType((), result.element))
        block = created.regions[0].blocks.append(scalar, scalar, arg_locs=[self.location, self.location])
        point = self.point
        self.point = ir.InsertionPoint(block)
        combined = self.op(reducer_operation(combiner), list(block.arguments), [TensorType((), result.element)])
        self.op("stablehlo.return", [combined], [])
        self.point = point
        return created.results[0]

    def all_reduce(self, value: Any, axes: Axes, combiner: str, cause: Cause) -> Any:
        attributes = self._collective_attributes(axes, cause)
        attributes["replica_groups"] = self._replica_groups(axes)
        attributes["use_global_device_ids"] = ir.UnitAttr.get(self.context)
        return self._with_reducer("stablehlo.all_reduce", value, read_type(value), combiner, attributes)

    def reduce_scatter(self, value: Any, dim: int, axes: Axes, combiner: str, cause: Cause) -> Any:
        """Combine over `axes` and keep this device's part of `dim`, which must divide."""
        attributes = self._collective_attributes(axes, cause)
        attributes["replica_groups"] = self._replica_groups(axes)
        attributes["scatter_dimension"] = self.i64(dim)
        attributes["use_global_device_ids"] = ir.UnitAttr.get(self.context)
        result = _resized(read_type(value), dim, lambda n: n // size_of(axes))
        return self._with_reducer("stablehlo.reduce_scatter", value, result, combiner, attributes)

    def all_gather(self, value: Any, dim: int, axes: Axes, cause: Cause) -> Any:
        """Concatenate the shards along `axes` in dimension `dim`."""
        attributes = self._collective_attributes(axes, cause)
        return self.op(
            "stablehlo.all_gather",
            [value],
            [_resized(read_type(value), dim, lambda n: n * size_of(axes))],
            all_gather_dim=self.i64(dim),
            replica_groups=self._replica_groups(axes),
            use_global_device_ids=ir.UnitAttr.get(self.context),
            **attributes,
        )

    def all_gather_dims(self, value: Any, dims: dict[int, Axes], cause: Cause) -> Any:
        """Gather several dimensions with one collective."""
        if len(dims) == 1:
            ((dim, axes),) = dims.items()
            return self.all_gather(value, dim, axes, cause)
        local = read_type(value).shape
        joined = tuple(axis for axes in dims.values() for axis in axes)
        gathered = self.all_gather(self.reshape(value, (1, *local)), 0, joined, cause)
        counts = [size_of(axes) for axes in dims.values()]
        gathered = self.reshape(gathered, (*counts, *local))
        permutation: list[int] = []
        for dim in range(len(local)):
            if dim in dims:
                permutation.append(list(dims).index(dim))
            permutation.append(len(counts) + dim)
        shape = [n * (size_of(dims[d]) if d in dims else 1) for d, n in enumerate(local)]
        return self.reshape(self.transpose(gathered, permutation), shape)

    def all_to_all(self, value: Any, split: int, concat: int, axes: Axes, cause: Cause) -> Any:
        """Split dimension `split`, which must divide, over `axes` and gather dimension `concat`."""
        count = size_of(axes)
        attributes = self._collective_attributes(axes, cause)
        result = _resized(_resized(read_type(value), split, lambda n: n // count), concat, lambda n: n * count)
        return self.op(
            "stablehlo.all_to_all",
            [value],
            [result],
            split_dimension=self.i64(split),
            concat_dimension=self.i64(concat),
            split_count=self.i64(count),
            replica_groups=self._replica_groups(axes),
            **attributes,
        )

    def collective_permute(self, value: Any, pairs: Any, axes: Axes, cause: Cause) -> Any:
        attributes = self._collective_attributes(axes, cause)
        return self.op(
            "stablehlo.collective_permute",
            [value],
            [read_type(value)],
            source_target_pairs=ir.DenseElementsAttr.get(np.ascontiguousarray(pairs), context=self.context),
            **attributes,
        )


def read_type(value: Any) -> TensorType:
    """The current type of an MLIR tensor value."""
    type_ = ir.RankedTensorType(value.type)
    return TensorType(tuple(type_.shape), str(type_.element_type))


def _resized(type_: TensorType, dim: int, resize: Any) -> TensorType:
    shape = tuple(resize(n) if d == dim else n for d, n in enumerate(type_.shape))
    return TensorType(shape, type_.element)


def bytes_of(type_: TensorType) -> float:
    """Bytes of one value of this type."""
    return math.prod(type_.shape) * element_bytes(type_.element)

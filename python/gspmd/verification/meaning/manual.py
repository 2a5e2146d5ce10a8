"""Manual computations, whose bodies in the given program are already per-device programs."""

from __future__ import annotations

import numpy as np

from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.sdy_attrs import read_manual_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.operations import Operation
from gspmd.verification.index_maps import IndexMap, Label, counted, digit, dim, integer_map, pointwise
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.meaning.opaque import opaque
from gspmd.verification.not_known import NotKnown
from gspmd.verification.values import SymbolicValue


def _manual_computation(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    codec = machine.codec
    mesh = machine.devices.mesh
    held = tuple(mesh.axis(name) for name in read_manual_axes(op.attributes["manual_axes"]))
    given, wanted = (codec.read_list(op.attributes[name]) for name in ("in_shardings", "out_shardings"))
    if any(sharding.unreduced for sharding in (*given, *wanted)):
        raise NotKnown("operands or results of a manual computation that are partial sums")
    for sharding in (*given, *wanted):
        if sharding.mesh.axes != mesh.axes or sharding.mesh.device_ids or mesh.device_ids:
            raise NotKnown("a manual computation over devices in another order")
    (body,) = op.regions
    inside = [
        machine.algebra.moved(value, argument.type.shape, _parts(machine, argument.type.shape, sharding, held))
        for value, argument, sharding in zip(values, body.arguments, given, strict=True)
    ]
    made = machine.block(body, inside)
    return [
        machine.algebra.moved(value, result.type.shape, _whole(machine, value, result.type.shape, sharding, held))
        for value, result, sharding in zip(made, op.results, wanted, strict=True)
    ]


def _held(axes: Axes, held: Axes) -> Axes:
    return tuple(axis for axis in axes if overlap([axis], held))


def _parts(machine: Execution, shape: tuple[int, ...], sharding: TensorSharding, held: Axes) -> dict[Label, IndexMap]:
    """The shard of a value that a device has along the manual axes."""
    places = {}
    for d, axes in enumerate(sharding.dim_axes()):
        if _held(axes, held):
            shard = machine.devices.shard(sharding.mesh, _held(axes, held))
            size = shape[d]
            places[dim(d)] = pointwise(lambda s, i, size=size: s * size + i, shard, counted(dim(d), size))
    return places


def _whole(
    machine: Execution, value: SymbolicValue, shape: tuple[int, ...], sharding: TensorSharding, held: Axes
) -> dict[Label, IndexMap]:
    """The places of a whole value's elements: the device, and the index in its shard."""
    places: dict[Label, IndexMap] = {}
    for d, axes in enumerate(sharding.dim_axes()):
        if not _held(axes, held):
            continue
        shard = machine.devices.shard(sharding.mesh, _held(axes, held))
        size, index = value.shape[d], np.arange(shape[d])
        places[dim(d)] = integer_map([dim(d)], index % max(size, 1))
        for axis, label in enumerate(shard.labels):
            assert label == digit(label.number)
            at = [np.argwhere(shard.table == s)[0][axis] for s in range(int(shard.table.max()) + 1)]
            places[label] = integer_map([dim(d)], np.array(at)[index // max(size, 1)])
    return places


def _custom_call(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """A custom call; one that only annotates its operand returns it."""
    target = op.attributes["call_target_name"]
    return values if target.value in _ANNOTATES else opaque(machine, op, values)


_ANNOTATES = frozenset({"Sharding"})
MEANINGS: dict[str, Meaning] = {"sdy.manual_computation": _manual_computation, "stablehlo.custom_call": _custom_call}

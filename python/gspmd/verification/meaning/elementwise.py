"""Operations that compute every element from the same element of their operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from gspmd.dialect.own_attributes import PREFIX
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.transforms.ops import every_row
from gspmd.verification import index_maps
from gspmd.verification.attributes import complex_splat, elements, ints
from gspmd.verification.index_maps import counted, dim, integer_map
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.not_known import NotKnown
from gspmd.verification.numbers import bits_of
from gspmd.verification.terms import CHOICE, TUPLE
from gspmd.verification.values import SymbolicValue

_LAYOUTS = {"result_layout", "xla_shape"}  # of memory, as HLO has them
_BROADCASTING = "chlo.broadcast_"
_IGNORED = frozenset({"sdy.sharding", "mhlo.sharding", "mhlo.frontend_attributes", "indices_are_sorted", *_LAYOUTS})


def described(op: Operation, without: Sequence[str] = (), names: Mapping[Name, str] | None = None) -> tuple[str, ...]:
    """The name of an operation, and its attributes and regions, which affect the result.

    `names` are those of the values that its regions may use. Raises NotKnown for regions that use others.
    """
    attributes = sorted(
        f"{name}={attribute}"
        for name, attribute in op.attributes.items()
        if name not in _IGNORED and name not in without and not name.startswith((PREFIX, "xla."))
    )
    return (op.name, *attributes, *(region_text(region, names) for region in op.regions))


def region_text(block: Block, names: Mapping[Name, str] | None = None) -> str:
    """A region as text, with its values renumbered; without the shape of values that are computed element by element.

    Raises NotKnown for a region that uses outer values.
    """
    shapes = {value.type.shape for values in (block.arguments, *(op.results for op in block)) for value in values}
    rows = every_row()
    every_element = len(shapes) == 1 and all(op is block.last or rows[op.name].traits.elementwise for op in block)

    def type_of(value: Name) -> str:
        return value.type.element if every_element else value.type.text

    known = dict(names or {})
    known.update((argument, f"a{len(known)}.{type_of(argument)}") for argument in block.arguments)
    lines = []
    for op in block:
        if any(operand not in known for operand in op.operands):
            raise NotKnown("a region that uses outer values")
        operands = ",".join(known[operand] for operand in op.operands)
        lines.append(f"{'|'.join(described(op, names=known))}({operands}):{','.join(map(type_of, op.results))}")
        known.update((result, f"v{len(known)}") for result in op.results)
    return "\n".join(lines)


def spread(value: SymbolicValue, shape: Sequence[int]) -> SymbolicValue:
    """A scalar, broadcast to a shape."""
    return value if value.shape == tuple(shape) else dataclasses.replace(value, shape=tuple(shape))


def joint(machine: Execution, values: Sequence[SymbolicValue]) -> SymbolicValue:
    """Values of one shape as one value, whose elements are tuples; of a single value, that value."""
    if len(values) == 1:
        return values[0]
    made = machine.algebra.terms.make(TUPLE, "tuple", [value.instance for value in values])
    return machine.algebra.of(made, values[0].shape, [mask for value in values for mask in value.valid])


def item(machine: Execution, value: SymbolicValue, index: int, element: str) -> SymbolicValue:
    """One of the values that are joined in a value of tuples."""
    algebra = machine.algebra
    if value.term.operation == TUPLE:
        return algebra.part(value, index)
    if value.term.kind == CHOICE:
        leaves = [item(machine, leaf, index, element).instance for leaf in algebra.leaves(value)]
        return algebra.of(algebra.terms.choice(algebra.selector(value), leaves), value.shape, value.valid)
    made = algebra.terms.make(("item", index), element, [value.instance])
    return algebra.of(made, value.shape, value.valid)


def _of_elements(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    shape = op.results[0].type.shape
    given = [spread(value, shape) for value in values]
    algebra = machine.algebra
    described_op = described(op)
    return [
        algebra.elementwise((*described_op, index) if index else described_op, result.type.element, given)
        for index, result in enumerate(op.results)
    ]


def _broadcasting(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """An operation of CHLO whose operands are broadcast to the shape of its result."""
    type_ = op.results[0].type
    given = ints(op, "broadcast_dimensions")
    spread_out = []
    for value in values:
        rank = len(value.shape)
        lower = len(given) == rank < type_.rank
        targets = given if lower else list(range(type_.rank - rank, type_.rank))
        spread_out.append(broadcast(machine, value, type_.shape, targets))
    plain = f"stablehlo.{op.name.removeprefix(_BROADCASTING)}"
    described_op = described(op, ["broadcast_dimensions"])
    if plain in every_row() and len(described_op) == 1:
        described_op = (plain,)
    return [machine.algebra.elementwise(described_op, type_.element, spread_out)]


def broadcast(machine: Execution, value: SymbolicValue, shape: tuple[int, ...], targets: list[int]) -> SymbolicValue:
    """A value, broadcast to a larger shape, of which these are its dimensions."""
    places = {
        dim(old): counted(dim(new), shape[new]) if value.shape[old] == shape[new] else index_maps.constant(0)
        for old, new in enumerate(targets)
    }
    return machine.algebra.moved(value, shape, places)


def _compare(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
    of = values[0].element
    kind = str(op.attributes.get("compare_type", ""))
    total = ("total",) if "TOTALORDER" in kind else ()
    return [machine.algebra.elementwise((op.name, direction, *total, of), "i1", values)]


def _constant(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    type_ = op.results[0].type
    if type_.element.startswith("complex<"):
        parts = [
            machine.algebra.number(index_maps.constant(bits), type_.element[8:-1], type_.shape)
            for bits in complex_splat(op.attributes["value"], type_.element)
        ]
        return [machine.algebra.elementwise(("stablehlo.complex",), type_.element, parts)]
    numbers = elements(op.attributes["value"], type_.shape, type_.element)
    labels = [dim(i) for i in range(type_.rank)] if numbers.ndim else []
    if 0 in type_.shape:
        labels, numbers = [], numbers.sum()
    return [machine.algebra.number(integer_map(labels, numbers), type_.element, type_.shape)]


def _iota(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    type_, along = op.results[0].type, int(op.attributes["iota_dimension"].value)
    size = type_.shape[along]
    counting = type_.element if bits_of(type_.element) else "i32"
    made = machine.algebra.number(counted(dim(along), size), counting, type_.shape)
    return [machine.algebra.elementwise(("stablehlo.convert",), type_.element, [made])]


def _partition_id(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return [machine.algebra.number(machine.devices.partition_id, op.results[0].type.element, ())]


def _replica_id(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return [machine.algebra.number(index_maps.constant(0), op.results[0].type.element, ())]


def _square(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return [machine.algebra.elementwise(("stablehlo.multiply",), op.results[0].type.element, values * 2)]


def _same(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return values


MEANINGS: dict[str, Meaning] = {
    **{name: _of_elements for name, row in every_row().items() if row.traits.elementwise and "." in name},
    **{name: _broadcasting for name in every_row() if name.startswith(_BROADCASTING)},
    "chlo.square": _square,
    "stablehlo.compare": _compare,
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.partition_id": _partition_id,
    "stablehlo.replica_id": _replica_id,
    "stablehlo.optimization_barrier": _same,
    "sdy.sharding_constraint": _same,
    "sdy.reshard": _same,
}

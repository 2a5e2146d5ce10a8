"""Programs with other results: intermediate values, or the values that are live after an operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from gspmd.checks.programs import changed, main_of, operations, read, returning, shardings_in, used_by
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.writing import in_memory


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """A value of `@main` that can be returned: the `index`-th argument, or result of the `op`-th operation."""

    op: int | None
    index: int
    bytes: float


def probes_of(program: str) -> tuple[Probe, ...]:
    """The values of a program, arguments first, then in program order, without partial values."""
    module = read(program)
    with in_memory(module) as top:
        function = main_function(top)
        shardings = shardings_in(top)
        arguments = enumerate(function.regions[0].arguments)
        found = [Probe(None, i, bytes_of(v.type)) for i, v in arguments if _returnable(v, shardings)]
        for number, op in enumerate(operations(function)):
            results = enumerate(op.results)
            found += [Probe(number, i, bytes_of(v.type)) for i, v in results if _returnable(v, shardings)]
    return tuple(found)


def operations_in(program: str) -> list[tuple[str, Any]]:
    """The name and the location of every operation of `@main`, in program order, without the terminator."""
    return [(op.name, op.location) for op in operations(main_of(program))]


def with_probes(program: str, probes: Sequence[Probe]) -> str:
    """The program with the values of the probes as additional results, with their shardings."""

    def change(top: Operation) -> None:
        function = main_function(top)
        ops = list(operations(function))
        block = function.regions[0]
        values = [
            block.arguments[probe.index] if probe.op is None else ops[probe.op].results[probe.index] for probe in probes
        ]
        returning(top, [*block.terminator.operands, *values], keep=len(block.terminator.operands))

    return changed(program, change)


def prefix(program: str, count: int) -> str:
    """The first `count` operations of a program, returning all values that were used later or returned."""

    def change(top: Operation) -> None:
        function = main_function(top)
        ops = list(operations(function))
        late = ops[count:]
        outside = {used for op in (*late, function.regions[0].terminator) for used in used_by(op)}
        shardings = shardings_in(top)
        values = [v for op in ops[:count] for v in op.results if v in outside and _returnable(v, shardings)]
        returning(top, values)
        for op in reversed(late):
            op.erase()

    return changed(program, change)


def _returnable(value: Value, shardings: Mapping[Value, TensorSharding]) -> bool:
    said = shardings.get(value)
    return value.type.is_tensor and not (said is not None and said.unreduced)

"""The names of the values of an ingested program in the program that the user gave.

Before ingest, a mark is added to the location of each operation, since passes keep locations. A value has the name in
the user's file if the program is MLIR text, else the name that MLIR prints (`%12`); values of inlined functions are
`@f:%3`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.location_marks import GIVEN
from gspmd.dialect.source_text import as_utf8
from gspmd.transforms.ingest.survey import callee_of, is_private
from gspmd.transforms.ir.modules import FUNCTION
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import CALLS, MANUAL, Op, Program

_PLACE = re.compile(r'loc\("((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to [\d:]*)?\)')
_NAME = re.compile(r"%[\w$.-]+")
_RESULTS = re.compile(r"((?:%[\w$.-]+(?::\d+)?\s*,\s*)*%[\w$.-]+(?::\d+)?)\s*=\s*$")


@dataclasses.dataclass(frozen=True, slots=True)
class _GivenOp:
    """An operation of the user's program: the names of its results and of its regions' arguments."""

    name: str
    prefix: str  # of the enclosing function
    results: tuple[str, ...]
    operands: tuple[str, ...]
    regions: tuple[tuple[str, ...], ...]
    callee: str | None


def given_operations(module: ir.Module) -> Iterator[tuple[str, ir.Operation]]:
    """The operations of a module's functions in pre-order, each with its function."""
    for function in _functions(module):
        name = str(function.attributes["sym_name"].value)
        for block in blocks_of(function):
            yield from ((name, op) for op in _within(block))


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [view.operation for view in module.body.operations if view.operation.name == FUNCTION]


def _within(block: ir.Block) -> Iterator[ir.Operation]:
    for view in block.operations:
        yield view.operation
        for inner in blocks_of(view.operation):
            yield from _within(inner)


def blocks_of(op: ir.Operation) -> list[ir.Block]:
    """The first block of each region, which is the only one in supported programs."""
    return [region.blocks[0] for region in op.regions if len(region.blocks)]


class GivenNames:
    """The names of values in a module as it was given. Its operations are marked, to be recognized after passes.

    `text` is the source of the module; locations in `filename` point into it.
    """

    def __init__(self, module: ir.Module, text: str = "", filename: str = "-") -> None:
        self._lines = text.splitlines()
        self._filename = filename
        self._state = ir.AsmState(module.operation)
        self._ops: list[_GivenOp] = []
        self._returned: dict[str, int] = {}  # the mark of each function's return
        self._arguments: dict[str, tuple[str, ...]] = {}
        functions = {str(op.attributes["sym_name"].value): op for op in _functions(module)}
        public = [name for name, function in functions.items() if not is_private(function)]
        self._main = "main" if "main" in functions or not public else public[0]
        for name, function in functions.items():
            prefix = self._prefix(name)
            for block in blocks_of(function):
                self._arguments[name] = tuple(prefix + self._argument(a) for a in block.arguments)
        for name, op in given_operations(module):
            self._read(op, name)

    # ---- before ingest ----

    def _prefix(self, function: str) -> str:
        return "" if function == self._main else f"@{function}:"

    def _read(self, op: ir.Operation, function: str) -> None:
        prefix, mark = self._prefix(function), len(self._ops)
        callee: str | None = None
        operands: tuple[str, ...] = ()
        if op.name in CALLS:
            callee = callee_of(op)
        elif op.name == "func.return":
            self._returned[function] = mark
        if callee is not None or op.name == "func.return":
            operands = tuple(prefix + self._name(o) for o in op.operands)
        results = tuple(prefix + name for name in self._results(op))
        regions = tuple(tuple(prefix + self._argument(a) for a in b.arguments) for b in blocks_of(op))
        self._ops.append(_GivenOp(op.name, prefix, results, operands, regions, callee))
        GIVEN.set(op, mark)

    def _name(self, value: ir.Value) -> str:
        if isinstance(value.owner, ir.Block):
            return self._argument(value)
        number: int = ir.OpResult(value).result_number
        return self._results(value.owner.operation)[number]

    def _results(self, op: ir.Operation) -> list[str]:
        printed = [str(result.get_name(self._state)) for result in op.results]
        line, column = self._position(op.location)
        match = _RESULTS.search(line[:column])
        names: list[str] = []
        for group in match[1].split(",") if match else ():
            name, _, count = group.strip().partition(":")
            names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        return names if len(names) == len(printed) else printed

    def _argument(self, argument: ir.Value) -> str:
        line, column = self._position(argument.location)
        match = _NAME.match(line, column)
        return match[0] if match else str(argument.get_name(self._state))

    def _position(self, location: ir.Location) -> tuple[str, int]:
        """The line and the offset of a location in the given text; an empty line if unknown."""
        match = _PLACE.fullmatch(GIVEN.without(location)) if self._lines else None
        if match is None or match[1] != self._filename or not 1 <= int(match[2]) <= len(self._lines):
            return "", 0
        return self._lines[int(match[2]) - 1], int(match[3]) - 1

    # ---- after ingest ----

    def of_program(self, program: Program) -> list[str]:
        """The name of every value, by number."""
        names = [""] * len(program.value_type)
        arguments = program.body.arguments
        main = self._arguments.get(self._main, ())
        given = main if len(main) == len(arguments) else None
        for index, value in enumerate(arguments):
            names[value] = given[index] if given else f"%arg{index}"
        marks = [GIVEN.numbers(op.ir.location) for op in program.ops]
        last: dict[tuple[int, ...], int] = {}
        for index, chain in enumerate(marks):
            # Values in the manual computation that replaced a call are intermediate values of its results.
            if chain not in last or not _is_within(program.ops[index].ir, program.ops[last[chain]].ir):
                last[chain] = index
        seen: dict[tuple[int, ...], int] = {}
        for op, chain in zip(program.ops, marks, strict=True):
            made = self._ops[chain[0]] if chain else None
            known = made is not None and len(made.results) == len(op.results) and last[chain] == op.index
            seen[chain] = seen.get(chain, 0) + 1
            for index, value in enumerate(op.results):
                names[value] = made.results[index] if made and known else self._invented(made, seen[chain])
            self._name_regions(op, made, names)
        return names

    @staticmethod
    def _invented(made: _GivenOp | None, number: int) -> str:
        """The name of a value that ingest created: `%5/1` is an intermediate value of `%5`."""
        if made is None:
            return f"ingest/{number}"
        base = made.results[0] if made.results else made.prefix + made.name.rpartition(".")[2]
        return f"{base}/{number}"

    @staticmethod
    def _name_regions(op: Op, made: _GivenOp | None, names: list[str]) -> None:
        whole = op.operands if op.info.name == MANUAL else op.results
        for index, region in enumerate(op.regions):
            given = made.regions[index] if made and index < len(made.regions) else ()
            for number, value in enumerate(region.arguments):
                fits = len(given) == len(region.arguments)
                names[value] = given[number] if fits else f"{names[whole[number]]}/argument"

    def made_for(self, location: ir.Location) -> tuple[str, tuple[str, ...]]:
        """The operation of the given program for which the one at this location was created, and its results."""
        marks = GIVEN.numbers(location)
        if not marks:
            return "", ()
        made = self._ops[marks[0]]
        return made.name, made.results

    def called_for(self, marks: tuple[int, ...]) -> str:
        """The results of the calls through which an operation was inlined, outermost first; empty for none."""
        return " ".join(", ".join(self._ops[mark].results) for mark in reversed(marks[1:]))

    def place_of(self, name: str) -> tuple[int, int] | None:
        """The operation that defines the value of that name, and the result index; None unless it is unique."""
        return self._places.get(name)

    @functools.cached_property
    def _places(self) -> dict[str, tuple[int, int] | None]:
        found: dict[str, tuple[int, int] | None] = {}
        for number, op in enumerate(self._ops):
            for index, name in enumerate(op.results):
                found[name] = None if name in found else (number, index)
        return found

    # ---- names that inlining removed ----

    def stands_for(self, name: str) -> tuple[str, ...]:
        """The names of the values that replaced a call's result or a function's argument; else the name itself."""
        names = [name]
        for _ in range(2 * len(self._returned)):
            names = list(dict.fromkeys(inner for outer in names for inner in self._inlined(outer)))
        return tuple(names)

    def inlined(self) -> tuple[str, ...]:
        """The names that `stands_for` replaces."""
        calls = [op for op in self._ops if op.callee in self._returned]
        return tuple(name for call in calls for name in call.results)

    def _inlined(self, name: str) -> tuple[str, ...]:
        calls = [op for op in self._ops if op.callee in self._returned]
        for call in calls:
            if call.callee is not None and name in call.results:
                inner = self._ops[self._returned[call.callee]].operands[call.results.index(name)]
                return self._bound(inner, [call])
        return self._bound(name, calls)

    def _bound(self, name: str, calls: list[_GivenOp]) -> tuple[str, ...]:
        """The operands that a function's argument has in its calls; empty for other names."""
        for function, arguments in self._arguments.items():
            if name in arguments and function != self._main:
                index = arguments.index(name)
                return tuple(call.operands[index] for call in calls if call.callee == function) or (name,)
        return (name,)


def _is_within(op: Operation, other: Operation) -> bool:
    around = op.parent
    while around is not None and around is not other:
        around = around.parent
    return around is other


def given_text(program: Any) -> tuple[str, str]:
    """The text of the program, if it is a text, and the file name in its locations."""
    if isinstance(program, str) and ("\n" in program or "{" in program):
        return program, "-"
    if isinstance(program, bytes):
        return program.decode(errors="replace"), "-"
    if isinstance(program, str | os.PathLike) and os.path.isfile(program):
        with open(program, "rb") as file:
            return as_utf8(file.read()).decode(errors="replace"), os.fspath(program)
    return "", "-"

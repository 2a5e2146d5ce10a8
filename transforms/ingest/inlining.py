"""Inlining of calls, in time linear in the size of the resulting program.

In jaxlib, MLIR's inliner does not support `func.call`, and its canonicalizer moves constants out of loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_CALL_DEPTH, MAX_INLINED_GROWTH, MAX_INLINED_OPERATIONS, MAX_REGION_DEPTH
from gspmd.transforms.ingest.survey import Survey, callee_of
from gspmd.transforms.ir.modules import FUNCTION, symbol
from gspmd.transforms.ir.operations import Location, Operation, Point
from gspmd.transforms.ir.program import CALLS
from gspmd.transforms.parsing.mlir import located


def check_calls(found: Survey) -> None:
    """Count the operations after inlining, before inlining: nested calls can double the size at every level.

    Count the depth of regions, too. Raises Unsupported, located at a call that exceeds a limit.
    """
    most = max(MAX_INLINED_OPERATIONS, MAX_INLINED_GROWTH * sum(found.sizes))
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    regions: dict[str, int] = {}  # around the callees of each function, transitively
    for function, calls, size in zip(found.functions, found.calls, found.sizes, strict=True):
        name, depth = symbol(function), 0
        deepest = 0
        for call in calls:
            callee = callee_of(call)
            size += sizes[callee]
            depth = max(depth, depths[callee] + 1)
            deepest = max(deepest, _regions_around(call) + regions[callee])
            with located(call):
                _check(name, size, most, depth)
                _check_regions(deepest)
        sizes[name], depths[name], regions[name] = size, depth, deepest


def _regions_around(call: Operation) -> int:
    """The regions around the call inside its function."""
    depth, op = 0, call.parent
    while op is not None and op.name != FUNCTION:
        depth, op = depth + 1, op.parent
    return depth


def _check_regions(depth: int) -> None:
    if depth > MAX_REGION_DEPTH:
        raise Unsupported(
            f"is in regions {depth} deep once calls are inlined; at most {MAX_REGION_DEPTH} are supported",
            hint="nest less deeply",
            code=Code.LIMIT,
        )


def _check(name: str, size: int, most: int, depth: int) -> None:
    if size > most:
        raise Unsupported(
            f"function '@{name}' has {size} operations or more where calls are replaced by what they call, "
            f"expected at most {most}",
            hint="write what is repeated as a 'stablehlo.while'",
            code=Code.LIMIT,
        )
    if depth > MAX_CALL_DEPTH:
        raise Unsupported(
            f"function '@{name}' is the start of calls that are {depth} deep, expected at most {MAX_CALL_DEPTH}",
            hint="inline some of them, or write what is repeated as a 'stablehlo.while'",
            code=Code.LIMIT,
        )


def inline_calls(found: Survey, kept: Collection[str]) -> None:
    """Inline every call in @main and in the functions `kept`.

    The copied functions are not inlined yet, so that nothing is copied twice; their calls are inlined after the copy.
    """
    functions = {symbol(op): op for op in found.functions}
    locations: dict[tuple[Location, Location], Location] = {}
    calls_in = {name: len(calls) for name, calls in zip(functions, found.calls, strict=True)}
    for name, calls in reversed(list(zip(functions, found.calls, strict=True))):
        if functions[name] != found.main and name not in kept:
            continue
        pending = calls[::-1]
        while pending:
            call = pending.pop()
            callee = callee_of(call)
            before, block = call.previous, call.neighbours()
            returned = functions[callee].regions[0].copy_to(Point.at(call), call.operands)
            made = list(_between(block.first if before is None else before.next, call))
            for op in made:
                op.location = _called_from(op.location, call.location, locations)
            if calls_in[callee]:
                pending += [op for op in made if op.name in CALLS][::-1]
            call.replace(returned)
        calls_in[name] = 0


def _called_from(location: Location, caller: Location, known: dict[tuple[Location, Location], Location]) -> Location:
    """The location of an operation in a function that was called from another location."""
    found = known.get((location, caller))
    if found is None:
        found = known[location, caller] = ir.Location.callsite(location, [caller])
    return found


def _between(first: Operation | None, end: Operation | None) -> Iterator[Operation]:
    """The operations of a block from one up to another, with those in their regions."""
    while first is not None and first is not end:
        yield first
        yield from first.walk()
        first = first.next

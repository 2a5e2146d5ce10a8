"""Calls are replaced by what they call, in a time that grows with the program that this makes.

MLIR's own inliner has no interface to `func.call` in jaxlib, and its canonicalizer moves constants out of loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._jax_mlir_ext import inlined_func_call

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_CALL_DEPTH, MAX_INLINED_GROWTH, MAX_INLINED_OPERATIONS, MAX_REGION_DEPTH
from gspmd.transforms.ingest.edits import replace
from gspmd.transforms.ingest.survey import Survey, all_operations, callee_of
from gspmd.transforms.ir.program import CALLS
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located

_MARKER = "builtin.unrealized_conversion_cast"


def check_calls(found: Survey) -> None:
    """Count what inlining will make, before it does: twice as much by every call of a call may be too much.

    So may be the regions that calls in loops bring into others. Raises Unsupported, located at such a call.
    """
    most = max(MAX_INLINED_OPERATIONS, MAX_INLINED_GROWTH * sum(found.sizes))
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    regions: dict[str, int] = {}  # around what each function calls, directly or not
    for function, calls, size in zip(found.functions, found.calls, found.sizes, strict=True):
        name, depth = text_of(function.attributes["sym_name"]), 0
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


def _regions_around(call: Any) -> int:
    """Those inside the function that the call is in."""
    depth, op = 0, call.parent
    while op.name != "func.func":
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
    """Replace every call in @main, and in the functions `kept`, by what it calls.

    What is copied is a function as it was written, so that nothing is copied twice; its own calls come after it.
    """
    functions = {text_of(op.attributes["sym_name"]): op for op in found.functions}
    calls_in = {name: len(calls) for name, calls in zip(functions, found.calls, strict=True)}
    for name, calls in reversed(list(zip(functions, found.calls, strict=True))):
        if functions[name] != found.main and name not in kept:
            continue
        pending = calls[::-1]
        while pending:
            call = pending.pop()
            callee = callee_of(call)
            with ir.InsertionPoint(call):
                marker = ir.Operation.create(_MARKER, loc=call.location) if calls_in[callee] else None
                values = inlined_func_call(functions[callee], list(call.operands), call.location)
            if marker is not None:
                pending += [op for op in _between(marker, call) if op.name in CALLS][::-1]
                marker.erase()
            replace(call, values)
        calls_in[name] = 0


def _between(first: Any, last: Any) -> Iterator[Any]:
    """The operations between two of one block, with those in their regions."""
    while (first := ir.InsertionPoint.after(first).ref_operation.operation) != last:
        yield first
        if len(first.regions):
            yield from all_operations(first)

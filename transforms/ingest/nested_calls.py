"""How deeply regions nest once calls are replaced by what they call: each text is bounded, a chain of them is not."""

from __future__ import annotations

from typing import Any

from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_REGION_DEPTH
from gspmd.transforms.ingest.survey import Survey, callee_of
from gspmd.transforms.support.attribute_text import text_of
from gspmd.transforms.support.mlir import located


def check_nesting(found: Survey) -> None:
    """Raises Unsupported, located, at a call that would bring regions too deeply into others."""
    depths: dict[str, int] = {}  # of the regions around what each function calls, directly or not
    for function, calls in zip(found.functions, found.calls, strict=True):
        deepest = 0
        for call in calls:
            depth = _regions_around(call) + depths[callee_of(call)]
            if depth > MAX_REGION_DEPTH:
                with located(call):
                    raise Unsupported(
                        f"is in regions {depth} deep once calls are inlined; at most {MAX_REGION_DEPTH} are supported",
                        hint="nest less deeply",
                    )
            deepest = max(deepest, depth)
        depths[text_of(function.attributes["sym_name"])] = deepest


def _regions_around(call: Any) -> int:
    """Those inside the function that the call is in."""
    depth, op = 0, call.parent
    while op.name != "func.func":
        depth, op = depth + 1, op.parent
    return depth

"""Functions that custom calls compare by: they are given single elements, on every device the same way."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ingest.annotations import strip, stripped
from gspmd.transforms.ingest.edits import replace
from gspmd.transforms.ingest.lone_collectives import PARTITION, REPLICA
from gspmd.transforms.ingest.markers import target_name
from gspmd.transforms.ingest.survey import all_operations
from gspmd.transforms.ir.user_collectives import COLLECTIVES
from gspmd.transforms.parsing.mlir import located

_CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")


def make_plain(function: Any) -> None:
    """Forget what is said of the function's values. Raises Unsupported (located) for what depends on devices in it."""
    for key in ("arg_attrs", "res_attrs"):
        if key in function.attributes:
            entries = [ir.DictAttr.get(stripped(entry)) for entry in function.attributes[key]]
            function.attributes[key] = ir.ArrayAttr.get(entries)
    for op in list(all_operations(function)):
        if op.name in _CONSTRAINTS or (op.name == "stablehlo.custom_call" and target_name(op) == "Sharding"):
            replace(op, list(op.operands))
        elif op.name.startswith(("sdy.", "func.call")) or op.name in (*COLLECTIVES, REPLICA, PARTITION):
            with located(op):
                raise Unsupported(
                    "inside a function that a custom call compares by",
                    hint="compare elements by what they are",
                    code=Code.CUSTOM_CALL,
                )
        else:
            strip(op)

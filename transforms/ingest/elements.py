"""What is computed of single elements: bodies of reductions, sorts and the like, and functions that custom calls name.

They run many times in one operation, on every device the same way. So sharding has no meaning there, nor has which
device it is.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ingest.annotations import strip, stripped
from gspmd.transforms.ingest.lone_collectives import PARTITION, REPLICA
from gspmd.transforms.ingest.markers import check_values, target_name
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL
from gspmd.transforms.ir.user_collectives import COLLECTIVES
from gspmd.transforms.parsing.mlir import located

_CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
_OF_WHOLE_VALUES = (*CONTROL_FLOW, MANUAL)


def make_bodies_plain(function: Operation) -> None:
    """Forget what is said of elements in a function. Raises Unsupported (located) for what depends on devices there."""
    for op in function.walk():
        if op.regions and op.name not in _OF_WHOLE_VALUES:
            _make_plain(op, f"in the body of '{op.name}'")


def make_function_plain(function: Operation) -> None:
    """The same for a function that a custom call names."""
    for key in ("arg_attrs", "res_attrs"):
        if key in function.attributes:
            entries = [ir.DictAttr.get(stripped(entry)) for entry in function.attributes[key]]
            function.attributes[key] = ir.ArrayAttr.get(entries)
    _make_plain(function, "inside a function that a custom call compares by")


def _make_plain(around: Operation, where: str) -> None:
    for op in around.walk():
        if op.name in _CONSTRAINTS:
            op.replace(list(op.operands))
        elif op.name == "stablehlo.custom_call" and target_name(op) == "Sharding":
            with located(op):
                check_values(op, "Sharding")
            op.replace(list(op.operands))
        elif op.name.startswith(("sdy.", "func.call")) or op.name in (*COLLECTIVES, REPLICA, PARTITION):
            with located(op):
                raise Unsupported(where, hint="compute elements from what they are alone", code=Code.CUSTOM_CALL)
        else:
            strip(op)

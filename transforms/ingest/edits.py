"""Edits of the IR that the steps of ingest share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxlib.mlir import ir

from gspmd.transforms.ingest.annotations import FRONTEND, NESTED, PREFIX, entries_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.types import TensorType


def create(
    name: str,
    operands: Sequence[Value],
    results: Sequence[TensorType],
    attributes: dict[str, ir.Attribute],
    before: Operation,
) -> Operation:
    """An operation before `before`, with its location."""
    return Operation(name, operands, results, attributes, before.location).insert(Point.at(before))


def constrain_users(value: Value, sharding: ir.Attribute, after: Operation) -> None:
    """Insert a sharding constraint on `value` after the operation `after`; all users read the constraint."""
    constraint = create("sdy.sharding_constraint", [value], [value.type], {"sharding": sharding}, after)
    constraint.move(Point.after(after))
    value.replace_all_uses_with(constraint.results[0], [constraint])


def constrain_operand(user: Operation, index: int, sharding: ir.Attribute) -> None:
    """Insert a sharding constraint on one operand of one user, unless there is one."""
    value = user.operands[index]
    made = value.op
    if made is not None and made.name == "sdy.sharding_constraint" and made.attributes["sharding"] == sharding:
        return
    constraint = create("sdy.sharding_constraint", [value], [value.type], {"sharding": sharding}, user)
    user.operands[index] = constraint.results[0]


def drop(op: Operation, names: Iterable[str]) -> None:
    """Remove these attributes where the operation has them."""
    for name in names:
        op.attributes.pop(name, None)


def mark(value: Value, said: dict[str, ir.Attribute], after: Operation) -> None:
    """Insert a `@Sharding` call with this annotation between `value` and its users, if it is not empty."""
    if not _says(said):
        return
    call = _marker(value, said, after)
    call.move(Point.after(after))
    value.replace_all_uses_with(call.results[0], [call])


def mark_operand(user: Operation, index: int, said: dict[str, ir.Attribute]) -> None:
    """Insert such a call before one operand of one user."""
    if _says(said):
        user.operands[index] = _marker(user.operands[index], said, user).results[0]


def _says(said: dict[str, ir.Attribute]) -> bool:
    """Whether the attributes include a sharding; frameworks also add others, such as TensorFlow's `grad_x`."""
    nested = {name for key in (FRONTEND, NESTED) if key in said for name in entries_of(said[key])}
    names = nested.union(said)
    return not names.isdisjoint(("sdy.sharding", "mhlo.sharding")) or any(name.startswith(PREFIX) for name in nested)


def _marker(value: Value, said: dict[str, ir.Attribute], before: Operation) -> Operation:
    attributes = {"call_target_name": ir.StringAttr.get("Sharding"), **said}
    return create("stablehlo.custom_call", [value], [value.type], attributes, before)

"""The few edits of the IR that the steps of ingest share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd.transforms.ingest.annotations import FRONTEND, NESTED, PREFIX, entries_of


def create(
    name: str, operands: Sequence[Any], results: Sequence[ir.Type], attributes: dict[str, ir.Attribute], before: Any
) -> Any:
    """An operation in front of `before`, with its location."""
    return ir.Operation.create(
        name,
        operands=list(operands),
        results=list(results),
        attributes=attributes,
        loc=before.location,
        ip=ir.InsertionPoint(before),
    )


def replace(op: Any, values: Sequence[Any]) -> None:
    """Let the users of the operation's results use `values`, and erase it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def constrain_users(value: Any, sharding: ir.Attribute, after: Any) -> None:
    """Put a sharding constraint on `value` right after the operation `after`, and let all users see it."""
    constraint = create("sdy.sharding_constraint", [value], [value.type], {"sharding": sharding}, after)
    constraint.move_after(after)
    value.replace_all_uses_except(constraint.results[0], constraint)


def constrain_operand(user: Any, index: int, sharding: ir.Attribute) -> None:
    """Let the operand of one user pass through a sharding constraint, unless it does already."""
    value = user.operands[index]
    owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if owner is not None and owner.name == "sdy.sharding_constraint" and owner.attributes["sharding"] == sharding:
        return
    constraint = create("sdy.sharding_constraint", [value], [value.type], {"sharding": sharding}, user)
    user.operands[index] = constraint.results[0]


def terminator(block: Any) -> Any:
    """The last operation of a block."""
    return block.operations[len(block.operations) - 1].operation


def drop(op: Any, names: Iterable[str]) -> None:
    """Remove those of the attributes that the operation has."""
    attributes = op.attributes
    for name in names:
        if name in attributes:
            del attributes[name]


def mark(value: Any, said: dict[str, ir.Attribute], after: Any) -> None:
    """Let the users of `value` see it through a `@Sharding` call that says this, if it says anything."""
    if not _says(said):
        return
    call = _marker(value, said, after)
    call.move_after(after)
    value.replace_all_uses_except(call.results[0], call)


def mark_operand(user: Any, index: int, said: dict[str, ir.Attribute]) -> None:
    """The same for one operand of one user."""
    if _says(said):
        user.operands[index] = _marker(user.operands[index], said, user).results[0]


def _says(said: dict[str, ir.Attribute]) -> bool:
    """Whether a sharding is among it: frameworks put their own on operations, too, as TensorFlow's `grad_x`."""
    nested = {name for key in (FRONTEND, NESTED) if key in said for name in entries_of(said[key])}
    names = nested.union(said)
    return not names.isdisjoint(("sdy.sharding", "mhlo.sharding")) or any(name.startswith(PREFIX) for name in nested)


def _marker(value: Any, said: dict[str, ir.Attribute], before: Any) -> Any:
    attributes = {"call_target_name": ir.StringAttr.get("Sharding"), **said}
    return create("stablehlo.custom_call", [value], [value.type], attributes, before)

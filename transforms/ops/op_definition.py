"""The definition of an operation: its row in the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING

from gspmd.dialect.errors import InternalError
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops.traits import PLAIN, Traits
from gspmd.transforms.parsing.attribute_text import text_of

if TYPE_CHECKING:
    from gspmd.transforms.emit.local_op import LocalOp

RuleFunction = Callable[[OpInfo], OpShardingRule]
OtherRules = Callable[[OpInfo], tuple[OpShardingRule, ...]]
Shardings = tuple[TensorSharding, ...]
Localizer = Callable[["LocalOp"], None]


@dataclasses.dataclass(frozen=True, slots=True)
class OpDef:
    """The definition of one operation.

    `rule` gives the sharding rule of an occurrence; it may raise Unsupported. `localize` rewrites an occurrence to its
    per-device form if that is more than the same operation on smaller types. An operation that is not `replicable`
    depends on the device or has side effects, and is never repeated on every device.

    `others` returns further rules of an occurrence, along which nothing is propagated, and which are used if they are
    cheaper. The local form recognizes the rule by the shardings. Its communication is counted by building it
    (`local_form.py`).

    An operation that moves its elements between devices in any case may accept shardings that do not fit the rule:
    `any_shards` returns the accepted shardings closest to the given ones, if there are any.

    `in_loops` gives the rule of an occurrence whose result a loop reads one element at a time along some dimensions;
    None if that is `rule`.

    `traits` are its other properties: what it computes, how it uses memory, when and where it may run.
    """

    name: str
    rule: RuleFunction
    localize: Localizer | None = None
    replicable: bool = True
    others: OtherRules | None = None
    any_shards: Callable[[OpInfo, Shardings], Shardings | None] | None = None
    in_loops: Callable[[OpInfo, Set[int]], OpShardingRule | None] | None = None
    traits: Traits = PLAIN

    def takes_any(self, info: OpInfo, shardings: Shardings) -> bool:
        """Whether the local form accepts these shardings of operands and results, even if they do not fit the rule."""
        return self.nearest(info, shardings) == shardings

    def nearest(self, info: OpInfo, shardings: Shardings) -> Shardings | None:
        """The shardings closest to these that the local form accepts, even if they do not fit the rule."""
        return None if self.any_shards is None else self.any_shards(info, shardings)


def unless_partial(info: OpInfo, shardings: Shardings) -> Shardings | None:
    """The `any_shards` of an operation that accepts all shardings without partial sums."""
    return None if any(sharding.unreduced for sharding in shardings) else shardings


OpTable = dict[str, OpDef]


def op_table(definitions: Iterable[OpDef]) -> OpTable:
    """Definitions by operation name. Raises InternalError for an operation with two definitions."""
    table: OpTable = {}
    for definition in definitions:
        other = table.setdefault(definition.name, definition)
        if other is not definition:
            first, second = (f"{row.rule.__module__}.{row.rule.__qualname__}" for row in (other, definition))
            raise InternalError(
                f"operation '{definition.name}' is defined twice, with the rules '{first}' and '{second}'"
            )
    return table


def joined(tables: Iterable[OpTable]) -> OpTable:
    """Merge tables. Raises InternalError for an operation in two of them."""
    return op_table(definition for table in tables for definition in table.values())


def definition_of(table: OpTable, op: OpInfo | Operation) -> OpDef | None:
    """The definition of an operation in a table; for a custom call, that of its target, if any."""
    target = table.get(text_of(op.attributes.get("call_target_name"))) if op.name == CUSTOM_CALL else None
    return target or table.get(op.name)

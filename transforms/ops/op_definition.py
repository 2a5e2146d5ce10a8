"""What the compiler knows of an operation."""

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
    """The compiler's definition of one operation.

    `rule` gives the sharding rule of an occurrence; it may raise Unsupported. `localize` rewrites an occurrence to its
    per-device form where that is more than the same operation on smaller types. An operation that is not `replicable`
    means something else on every device, or to the outside, and is never computed whole on each of them.

    `others` gives further rules of an occurrence: other ways to split it, along which nothing is propagated and which
    are taken where they cost less. The local form then knows from the shardings which way was taken. What it sends is
    known by building it (`local_form.py`).

    What moves its elements between devices in any case, or puts them into place, may do so between shards that do not
    fit the rule: `any_shards` gives the shardings nearest to those given that the local form takes, if there are any.

    `in_loops` gives another rule for where a loop takes one element after the other of some dimensions of the result,
    None where it is the same.

    `traits` is the rest of what is known: what it computes, how it uses memory, when and where it may run.
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
        """Whether the local form takes these shardings of operands and results, whether they fit the rule or not."""
        return self.nearest(info, shardings) == shardings

    def nearest(self, info: OpInfo, shardings: Shardings) -> Shardings | None:
        """What the local form takes that is nearest to these shardings, whether it fits the rule or not."""
        return None if self.any_shards is None else self.any_shards(info, shardings)


def unless_partial(info: OpInfo, shardings: Shardings) -> Shardings | None:
    """What `any_shards` is where operands and results may be split in any way, but have no partial sums."""
    return None if any(sharding.unreduced for sharding in shardings) else shardings


OpTable = dict[str, OpDef]


def op_table(definitions: Iterable[OpDef]) -> OpTable:
    """Definitions by operation name. Raises InternalError for an operation that has two."""
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
    """One table of several. Raises InternalError for an operation that two of them have."""
    return op_table(definition for table in tables for definition in table.values())


def definition_of(table: OpTable, op: OpInfo | Operation) -> OpDef | None:
    """What a table knows of an operation: of a custom call, what it knows of the target, if it has that."""
    target = table.get(text_of(op.attributes.get("call_target_name"))) if op.name == CUSTOM_CALL else None
    return target or table.get(op.name)

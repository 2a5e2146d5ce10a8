"""What the compiler knows of an operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.op_info import OpInfo

if TYPE_CHECKING:
    from gspmd.transforms.emit.local_op import LocalOp

RuleFunction = Callable[[OpInfo], OpShardingRule]
OtherRules = Callable[[OpInfo], tuple[OpShardingRule, ...]]
Shardings = tuple[TensorSharding, ...]
Sends = Callable[[OpInfo, Shardings, Shardings], float]
Localizer = Callable[["LocalOp"], None]


@dataclasses.dataclass(frozen=True, slots=True)
class OpDef:
    """The compiler's definition of one operation.

    `rule` gives the sharding rule of an occurrence; it may raise Unsupported. `localize` rewrites an occurrence to its
    per-device form where that is more than the same operation on smaller types. An operation that is not `replicable`
    means something else on every device, or to the outside, and is never computed whole on each of them. One that
    `has_effects` is done even if its results have no elements, or if it has no results.

    `others` gives further rules of an occurrence: other ways to split it, along which nothing is propagated and which
    are taken where they cost less. The local form then knows from the shardings which way was taken. `sends` gives the
    bytes that a device sends within the local form, for the shardings of operands and results; without it, an operation
    that communicates is taken to send about a result's size.
    """

    name: str
    rule: RuleFunction
    localize: Localizer | None = None
    replicable: bool = True
    others: OtherRules | None = None
    sends: Sends | None = None
    has_effects: bool = False


OpTable = dict[str, OpDef]


def op_table(definitions: Iterable[OpDef]) -> OpTable:
    """Definitions by operation name."""
    return {definition.name: definition for definition in definitions}

"""The sharding rules of a program's operations, from the table, memoized."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, Unsupported
from gspmd.dialect.rule import Direction, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.ir.op_info import CUSTOM_CALL, ManualScope, OpInfo, has_side_effect
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.custom_rules import executable_rule, written_rule
from gspmd.transforms.ops.op_definition import OpDef, OpTable, definition_of
from gspmd.transforms.parsing.mlir import source_location

GivenRule = Callable[[OpInfo, Operation], OpShardingRule | None]
"""A function for the rule that the program itself gives an operation; None if it has none."""


class RuleBook:
    """Rules by number; equal rules share one.

    With `replicate_unsupported`, every device computes an unknown or refused operation on whole operands; `replicated`
    lists these operations with the reason. In a manual computation over all axes, an unknown operation is per-device
    and stays unchanged; in one over some axes, an unknown call or operation is repeated along the other axes, and
    `alike` lists it. A rule written on a custom call, or on an unknown operation, is its rule; on other operations it
    only guides propagation, if `guided`. A `given` rule overrides all of these.
    """

    def __init__(
        self,
        table: OpTable,
        replicate_unsupported: bool = False,
        guided: bool = False,
        given: GivenRule | None = None,
    ) -> None:
        self.table = table
        self._given = given
        self._guided = guided
        self.rules: list[OpShardingRule] = []
        self.replicated: dict[OpInfo, str] = {}
        self.alike: dict[OpInfo, str] = {}
        self._replicate_unsupported = replicate_unsupported
        self._numbers: dict[OpShardingRule, int] = {}
        self._of_info: dict[OpInfo, int] = {}
        self._identities: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def definition(self, info: OpInfo) -> OpDef | None:
        return definition_of(self.table, info)

    def of_op(self, info: OpInfo, ir_op: Operation) -> int:
        """The number of an operation's rule. Raises Unsupported, located at `ir_op`."""
        number = self._of_info.get(info)
        if number is None:
            number = self._of_info[info] = self.number(self._make(info, ir_op))
        return number

    def identity(self, shape: tuple[int, ...], direction: Direction = Direction.BOTH) -> int:
        """The identity rule of two tensors."""
        number = self.entering(shape, (1,) * len(shape))
        if direction is Direction.BOTH:
            return number
        return self.number(dataclasses.replace(self.rules[number], direction=direction))

    def entering(self, shape: tuple[int, ...], counts: tuple[int, ...]) -> int:
        """The rule that connects a value of this shape inside a manual computation with the one outside.

        Outside, each dimension is larger by its entry of `counts`.
        """
        number = self._identities.get((shape, counts))
        if number is None:
            outside = tuple(size * count for size, count in zip(shape, counts, strict=True))
            builder = RuleBuilder([shape], [outside], stage=Stage.ELEMENTWISE)
            for dim, (size, count) in enumerate(zip(shape, counts, strict=True)):
                if count > 1:
                    builder.factor([None], [dim], count)
                builder.factor([dim], [dim], size)
            number = self._identities[shape, counts] = self.number(builder.build())
        return number

    def number(self, rule: OpShardingRule) -> int:
        """The number of a rule that need not belong to an operation."""
        number = self._numbers.get(rule)
        if number is None:
            number = self._numbers[rule] = len(self.rules)
            self.rules.append(rule)
        return number

    def _make(self, info: OpInfo, ir_op: Operation) -> OpShardingRule:
        try:
            given = None if self._given is None else self._given(info, ir_op)
            if given is not None:
                return given
            definition = self.table.get(info.name)
            written = written_rule(info)
            if written is not None and (definition is None or (info.name == CUSTOM_CALL and not is_callback(ir_op))):
                return executable_rule(info, written)
            if written is not None and self._guided:
                return written
            if definition is None:
                raise Unsupported(
                    "is not supported",
                    hint="replace it, or compute it whole with --replicate-unsupported",
                    code=Code.OPERATION,
                )
            return _rule_of(definition, info)
        except Unsupported as error:
            # A call whose target has a row is known: what the row refuses is refused everywhere.
            known = self.definition(info)
            is_known_call = info.name == CUSTOM_CALL and known is not None and known.name != CUSTOM_CALL
            scope = ManualScope.NONE if is_known_call else info.scope
            if scope is ManualScope.SOME and (info.name == CUSTOM_CALL or info.name not in self.table):
                if info.name == CUSTOM_CALL or not info.name.startswith("stablehlo."):  # tuples cost nothing
                    self.alike[info] = error.message
            elif scope is not ManualScope.ALL:
                if not self._replicate_unsupported or not self._replicable(info):
                    raise error.at(source_location(ir_op.location), info.name) from None
                self.replicated[info] = error.message
            return whole(info)
        except Error as error:
            raise error.at(source_location(ir_op.location), info.name) from None

    def _replicable(self, info: OpInfo) -> bool:
        """Whether the operation has equal results on every device for equal operands."""
        definition = self.definition(info)
        if definition is not None and not definition.replicable:
            return False
        if has_side_effect(info.attributes):
            return False
        return all(t.is_tensor for t in info.operands + info.results)


_known: weakref.WeakKeyDictionary[OpInfo, tuple[OpDef, OpShardingRule]] = weakref.WeakKeyDictionary()


def _rule_of(definition: OpDef, info: OpInfo) -> OpShardingRule:
    """The rule of a definition for an operation, shared by all stages."""
    known = _known.get(info)
    if known is None or known[0] is not definition:
        known = _known[info] = definition, definition.rule(info)
    return known[1]


def whole(info: OpInfo) -> OpShardingRule:
    """The rule of an operation that every device computes on whole operands."""
    return RuleBuilder(_shapes(info.operands), _shapes(info.results)).build()


def _shapes(types: tuple[TensorType, ...]) -> list[tuple[int, ...]]:
    return [t.shape for t in types]

"""The sharding rule of every operation of a program, looked up in an op table and made once."""

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
"""The rule of an operation that its program comes with, None where it has none."""


class RuleBook:
    """Rules by number; equal rules share one.

    With `replicate_unsupported`, what the table does not know or refuses is computed whole on every device;
    `replicated` lists those operations and why. In a manual computation over all axes it is the program of one device
    and stays as it is; in one over some axes, a call or an operation that the table does not know is computed alike
    along the free ones, and `alike` lists it. A rule written on a custom call, or on what the table does not know, is
    its rule; on other operations it only guides propagation, if `guided`. What is `given` goes before all
    of that.
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
        """The rule of two tensors that are the same value."""
        number = self.entering(shape, (1,) * len(shape))
        if direction is Direction.BOTH:
            return number
        return self.number(dataclasses.replace(self.rules[number], direction=direction))

    def entering(self, shape: tuple[int, ...], counts: tuple[int, ...]) -> int:
        """The rule of a value of this shape inside a manual computation and the same value outside.

        Outside, each dimension is as many times as large as `counts` says.
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
        """The number of a rule that an operation need not have by itself."""
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
            # A call whose target has a row of its own is known: what the row refuses is refused everywhere.
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
        """Whether running the operation on every device, on equal operands, gives equal results."""
        definition = self.definition(info)
        if definition is not None and not definition.replicable:
            return False
        if has_side_effect(info.attributes):
            return False
        return all(t.is_tensor for t in info.operands + info.results)


_known: weakref.WeakKeyDictionary[OpInfo, tuple[OpDef, OpShardingRule]] = weakref.WeakKeyDictionary()


def _rule_of(definition: OpDef, info: OpInfo) -> OpShardingRule:
    """The rule that a definition makes for an operation, once for all stages."""
    known = _known.get(info)
    if known is None or known[0] is not definition:
        known = _known[info] = definition, definition.rule(info)
    return known[1]


def whole(info: OpInfo) -> OpShardingRule:
    """The rule of an operation that every device computes whole."""
    return RuleBuilder(_shapes(info.operands), _shapes(info.results)).build()


def _shapes(types: tuple[TensorType, ...]) -> list[tuple[int, ...]]:
    return [t.shape for t in types]

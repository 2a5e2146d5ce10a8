"""The precondition of localization: values have the shardings that consumers need, so operations fit their rules.

An operation fits where one assignment of axes to its factors gives the shardings of all its tensors. Values that are
only handed on have one sharding on either side.
"""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.dialect.axes import overlap
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.notation import print_dims
from gspmd.dialect.placement import FactorAxes, factor_axes, tensor_axes
from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.emit.partial_values import is_taking_apart
from gspmd.transforms.exchange.step_notation import STEPS, sharding_after
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Body, Op
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import located
from gspmd.transforms.passes import Precondition


class _Check:
    """One walk over a program; raises AnnotationError, located, at the first operation that does not fit."""

    def __init__(self, annotated: AnnotatedProgram) -> None:
        self._annotated = annotated
        self._rules = RuleBook(every_row(), replicate_unsupported=True)
        self._of: dict[int, TensorSharding] = {}
        self._right: set[tuple[OpInfo, tuple[TensorSharding, ...]]] = set()

    def run(self) -> None:
        body = self._annotated.program.body
        self._place(body.arguments, self._annotated.arguments)
        self._block(body)
        wanted = [
            given or self._whole(value) for value, given in zip(body.returned, self._annotated.results, strict=True)
        ]
        self._handed_on(body.terminator, body.returned, wanted)

    def _whole(self, value: int) -> TensorSharding:
        return replicated(self._annotated.mesh, self._annotated.program.value_type[value].rank)

    def _place(self, values: Sequence[int], shardings: Sequence[TensorSharding | None]) -> None:
        for value, sharding in zip(values, shardings, strict=False):
            self._of[value] = sharding or self._whole(value)

    def _block(self, block: Body) -> None:
        for op in block.ops:
            with located(op.ir):
                self._op(op)

    def _op(self, op: Op) -> None:
        name = op.info.name
        if name == CONSTRAINT:
            raise AnnotationError("asks for a sharding")
        if name in STEPS:
            self._of[op.results[0]] = sharding_after(op.ir, self._annotated.codec)
            return
        made = self._annotated.of_op(op) or tuple(map(self._whole, op.results))
        self._place(op.results, made)
        if name == MANUAL:
            self._manual(op)
        elif op.regions:
            self._control_flow(op, made)
        elif name == BARRIER:
            self._handed_on(op.ir, op.operands, made)
        elif not (op.splittable or is_taking_apart(op.ir)):
            self._computed(op, made)

    def _manual(self, op: Op) -> None:
        region, block = self._annotated.region(op), op.regions[0]
        self._handed_on(op.ir, op.operands, region.in_shardings)
        self._place(block.arguments, [region.inside(sharding) for sharding in region.in_shardings])
        self._block(block)
        self._handed_on(block.terminator, block.returned, [region.inside(each) for each in region.out_shardings])

    def _control_flow(self, op: Op, made: tuple[TensorSharding, ...]) -> None:
        loop = op.info.name == WHILE
        if loop:
            self._handed_on(op.ir, op.operands, made)
        for index, block in enumerate(op.regions):
            self._place(block.arguments, made)
            self._block(block)
            if not (loop and index == 0):
                self._handed_on(block.terminator, block.returned, made)

    def _handed_on(self, user: Operation, values: Sequence[int], wanted: Sequence[TensorSharding]) -> None:
        for index, (value, need) in enumerate(zip(values, wanted, strict=True)):
            if self._of[value].dim_axes() != need.dim_axes():
                with located(user):
                    raise AnnotationError(
                        f"has operand {index} sharded {print_dims(self._of[value])}, needed as {print_dims(need)}"
                    )

    def _computed(self, op: Op, made: tuple[TensorSharding, ...]) -> None:
        shardings = (*(self._of[value] for value in op.operands), *made)
        key = (op.info, shardings)
        if key in self._right or all(each.is_replicated() for each in shardings):
            return
        rule = self._rules.rules[self._rules.of_op(op.info, op.ir)]
        if op.info in self._rules.replicated or op.info in self._rules.alike:
            return  # a custom call whose rule reshard has taken off: every device makes it on what it has
        definition = self._rules.definition(op.info)
        if definition is not None and definition.takes_any(op.info, shardings):
            return
        others = definition.others(op.info) if definition is not None and definition.others is not None else ()
        count = len(op.operands)
        if not any(_fits(each, shardings, count) for each in (rule, *others)):
            texts = [", ".join(map(print_dims, part)) or "nothing" for part in (shardings[:count], shardings[count:])]
            raise AnnotationError(f"cannot make {texts[1]} of {texts[0]}")
        self._right.add(key)


def _fits(rule: OpShardingRule, shardings: tuple[TensorSharding, ...], operands: int) -> bool:
    """Whether one assignment gives all shardings, those of the results partial over what is summed up."""
    axes: FactorAxes = {}
    for tensor, sharding in enumerate(shardings):
        for factor, mine in factor_axes(rule, tensor, sharding).items():
            if axes.setdefault(factor, mine) != mine or rule.kinds[factor] is NEED_REPLICATION:
                return False
    partial = {axis for factor, mine in axes.items() if rule.kinds[factor] is REDUCTION for axis in mine}
    partial.update(axis for each in shardings[:operands] for axis in each.unreduced)
    if any(not overlap([axis], each.unreduced) for axis in partial for each in shardings[operands:]):
        return False
    return all(tensor_axes(rule, tensor, axes) == each.dim_axes() for tensor, each in enumerate(shardings))


def _check(module: Operation) -> None:
    annotated = AnnotatedProgram(module)
    _Check(annotated).run()


RESHARDED = Precondition("gspmd-reshard", _check)

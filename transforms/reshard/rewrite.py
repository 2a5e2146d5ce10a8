"""Insert the planned collectives, so that the tensors of every operation fit its rule."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.own_attributes import ANNOTATED, CAUSE, COMBINER, NOT_TAKEN, RUNS, THROUGH
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.analysis.trip_count import LoopNest
from gspmd.transforms.decide.widened import widened_from
from gspmd.transforms.exchange.step import REDUCTIONS, ReshardStep
from gspmd.transforms.exchange.step_notation import write_step
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.callbacks import is_one_call
from gspmd.transforms.ir.collective_notes import RETURNED
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Block, Location, Operation, Point, Value
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Body, Op
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops.custom_rules import RULE
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.paths.planner import Planner, within_reach
from gspmd.transforms.reshard.strict import ValueMove, reason_for


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A conflict of shardings at an operation, and the decision.

    `have` are the shardings of the values of operands, then of results; `runs` are those with which the operation runs.
    If the operation only passes a value on (`rule` is None), both are those of operand `operand` alone, before and
    after the reshard.
    """

    location: Location
    name: str
    have: tuple[TensorSharding, ...]
    runs: tuple[TensorSharding, ...]
    info: OpInfo | None = None
    rule: OpShardingRule | None = None
    operand: int = 0


def _partial_cause(op: Op, index: int, made: TensorSharding) -> str:
    axes = print_axes(made.unreduced, made.mesh)
    return f"'{op.info.name}' leaves partial results over {axes}; result {index} is wanted as {{to}}"


def _operand_cause(op: Op, index: int) -> str:
    if is_one_call(op.ir):
        return f"operand {index} of a Python callback is needed whole"
    return f"operand {index} of '{op.info.name}' is needed as {{to}}"


class Resharder:
    """Walks the program once, in order, and reshards every value to the shardings with which it is used."""

    def __init__(
        self, annotated: AnnotatedProgram, rules: RuleBook, planner: Planner, all_bind: bool = False
    ) -> None:  # fmt: skip
        self.annotated = annotated
        self.program = annotated.program
        self.codec = annotated.codec
        self.rules = rules
        self.planner = planner
        self._all_bind = all_bind
        self.handle: list[Value] = list(self.program.value_ir)
        self.sharding: list[TensorSharding] = [None] * len(self.handle)  # type: ignore[list-item]
        self._whole: dict[int, TensorSharding] = {}
        # By scope and value: the resharded copies.
        self._copies: list[dict[int, dict[TensorSharding, Value]]] = []
        self._loops = LoopNest[Block]()
        self._loop_scopes: list[tuple[Operation, int]] = []  # the same loops, with the number of scopes around each
        self._remarked: set[tuple[str, str]] = set()
        self.decisions: list[Decision] = []
        self.moves: list[ValueMove] = []

    # ---- the walk ----

    def run(self) -> None:
        body = self.program.body
        arguments = []
        for value, sharding in zip(body.arguments, self.annotated.arguments, strict=True):
            self.sharding[value] = sharding or self._replicated(self.program.value_type[value])
            arguments.append(self.sharding[value])
        wanted = [
            sharding or self._replicated(self.program.value_type[value])
            for value, sharding in zip(body.returned, self.annotated.results, strict=True)
        ]
        self._block(body, wanted)
        self._use_all(body.terminator, body.returned, wanted, RETURNED + "{}")
        self.annotated.set_signature(arguments, wanted)
        self.annotated.forget_free_ends()

    def _replicated(self, type_: TensorType) -> TensorSharding:
        rank = len(type_.shape)
        found = self._whole.get(rank)
        if found is None:
            found = self._whole[rank] = replicated(self.annotated.mesh, rank)
        return found

    def _block(self, block: Body, returned: Sequence[TensorSharding]) -> None:
        self._copies.append({})
        self._ops(block, returned)

    def _ops(self, block: Body, returned: Sequence[TensorSharding]) -> None:
        following = [op.ir for op in block.ops[1:]] + [block.terminator]
        for op, after in zip(block.ops, following, strict=False):
            self._op(op, after)

    def _wanted(self, op: Op) -> tuple[TensorSharding, ...]:
        given = self.annotated.of_op(op)
        return given or tuple([self._replicated(t) for t in op.info.results])

    def _op(self, op: Op, after: Operation) -> None:
        wanted = self._wanted(op)
        name = op.info.name
        if name == CONSTRAINT:
            operand, result = op.operands[0], op.results[0]
            need = self.sharding[operand] if NOT_TAKEN in op.ir.attributes else wanted[0]
            self._decide_move(op.ir, 0, operand, need)
            value = self._resharded(operand, need, op.ir, "a sharding constraint asks for {to}")
            op.ir.replace([value])
            self._define(result, value, need)
            if not self._is_constant(operand) and not self._all_bind:
                self._share_copies(operand, result)
            return
        if name == BARRIER:
            self._use_all(op.ir, op.operands, list(wanted), "operand {} of 'stablehlo.optimization_barrier'")
        elif name == MANUAL:
            self._manual(op)
        elif op.regions:
            self._control_flow(op, wanted)
        elif not op.splittable:
            self._compute(op, wanted, after)
            return
        for result, sharding in zip(op.results, wanted, strict=True):
            self.sharding[result] = sharding

    def _share_copies(self, value: int, other: int) -> None:
        """Let two equal values share their resharded copies, present and future."""
        for scope in self._copies:
            scope[other] = scope.setdefault(value, {})
        for each in (value, other):
            self._copies[-1][value][self.sharding[each]] = self.handle[each]

    def _define(self, value: int, handle: Value, sharding: TensorSharding) -> None:
        self.handle[value] = handle
        self.sharding[value] = sharding

    def _control_flow(self, op: Op, wanted: tuple[TensorSharding, ...]) -> None:
        name = op.info.name
        op.ir.attributes.pop(ANNOTATED, None)
        loop = name == WHILE
        if loop:
            self._use_all(op.ir, op.operands, list(wanted), f"carry {{}} of '{name}'")
            self._loops.enter(op.ir.neighbours(), op.ir)
            self._loop_scopes.append((op.ir, len(self._copies)))
        for index, region in enumerate(op.regions):
            for argument, sharding in zip(region.arguments, wanted, strict=False):
                self.sharding[argument] = sharding
            self._copies.append({})
            is_condition = loop and index == 0
            self._ops(region, () if is_condition else wanted)
            if not is_condition:
                self._use_all(region.terminator, region.returned, list(wanted), f"'{name}' returns value {{}}")
            self._copies.pop()
        if loop:
            self._loops.leave()
            self._loop_scopes.pop()

    def _manual(self, op: Op) -> None:
        """Reshard operands to the in-shardings of a manual computation; inside, shardings lack its manual axes."""
        region, block = self.annotated.region(op), op.regions[0]
        self._use_all(op.ir, op.operands, list(region.in_shardings), f"'{MANUAL}' takes operand {{}}")
        for argument, sharding in zip(block.arguments, region.in_shardings, strict=True):
            self.sharding[argument] = region.inside(sharding)
        wanted = [region.inside(sharding) for sharding in region.out_shardings]
        self._block(block, wanted)
        self._use_all(block.terminator, block.returned, wanted, f"'{MANUAL}' returns value {{}}")
        self._copies.pop()

    def _use_all(self, user: Operation, values: list[int], wanted: list[TensorSharding], cause: str) -> None:
        for index, (value, sharding) in enumerate(zip(values, wanted, strict=True)):
            if self.sharding[value] != sharding:
                self._decide_move(user, index, value, sharding)
                text = cause.format(index) + " as {to}"
                user.operands[index] = self._resharded(value, sharding, user, text)

    def _decide_move(self, user: Operation, operand: int, value: int, need: TensorSharding) -> None:
        have = self.sharding[value]
        if have != need:
            self.decisions.append(Decision(user.location, user.name, (have,), (need,), operand=operand))

    # ---- one operation ----

    def _compute(self, op: Op, wanted: tuple[TensorSharding, ...], after: Operation) -> None:
        """Run an operation as decided; without a decision, with the shardings of its values."""
        rule = self.rules.rules[self.rules.of_op(op.info, op.ir)]
        if RULE in op.info.attributes:
            del op.ir.attributes[RULE]
        op.ir.attributes.pop(ANNOTATED, None)
        decided = op.ir.attributes.pop(RUNS, None)
        if decided is not None:
            self._run_as(op, rule, self.codec.read_list(decided), wanted, after)
        for result, sharding in zip(op.results, wanted, strict=True):
            self.sharding[result] = sharding

    def _run_as(
        self,
        op: Op,
        rule: OpShardingRule,
        runs: tuple[TensorSharding, ...],
        wanted: tuple[TensorSharding, ...],
        after: Operation,
    ) -> None:
        """Reshard operands to the shardings with which an operation runs, and results to those of their values."""
        have, count = tuple([self.sharding[value] for value in op.operands]), len(op.operands)
        if runs[count:] != wanted and widened_from(self.program, op.results[0]) is not None:
            runs = (*wanted, *wanted)  # the narrow operand is resharded instead
        found = Decision(op.ir.location, op.info.name, have + wanted, runs, op.info, rule)
        self.decisions.append(found)
        through = op.ir.attributes.pop(THROUGH, None)
        for value, copy in zip(op.operands, have if through is None else self.codec.read_list(through), strict=True):
            if copy != self.sharding[value]:
                self._resharded(value, copy, op.ir, "several operations take it from {to}")
        for index, (value, need) in enumerate(zip(op.operands, runs[:count], strict=True)):
            if have[index] != need:
                op.ir.operands[index] = self._resharded(value, need, op.ir, _operand_cause(op, index))
        if runs[count:] != wanted:
            self._finish_results(op, runs[count:], wanted, rule.combiner, after)

    def _finish_results(
        self,
        op: Op,
        results: tuple[TensorSharding, ...],
        wanted: tuple[TensorSharding, ...],
        combiner: str,
        after: Operation,
    ) -> None:
        op.ir.attributes["sdy.sharding"] = self.codec.write_list(results)
        for index, (made, need) in enumerate(zip(results, wanted, strict=True)):
            goal = within_reach(made, need)
            if made == goal:
                continue
            if made.unreduced:
                text = _partial_cause(op, index, made)
            else:
                text = f"'{op.info.name}' makes result {index} as {print_dims(made)}, it is wanted as {{to}}"
            self._finish(op, index, (made, goal), after, text, combiner)

    def _finish(
        self,
        op: Op,
        index: int,
        move: tuple[TensorSharding, TensorSharding],
        before: Operation,
        text: str,
        combiner: str,
    ) -> None:
        """Reshard a result from the sharding with which it is produced to that of its value."""
        raw = op.ir.results[index]
        path = self.planner.plan(op.info.results[index], *move)
        if not path.complete:
            self._remark_incomplete(op.ir, f"result {index} from {print_dims(move[0])} to its consumers")
        self.moves.append(ValueMove(op.info.name, op.ir.location, op.info.results[index], move[0], path.steps, text))
        final, created = self._emit(raw, path.steps, before, op.ir.location, text, combiner)
        raw.replace_all_uses_with(final, [created[0]])
        self.handle[op.results[index]] = final

    # ---- moving a value ----

    def _resharded(self, value: int, need: TensorSharding, user: Operation, cause: str) -> Value:
        """The value with another sharding: an existing copy, or a reshard before its user."""
        have = self.sharding[value]
        if have == need:
            return self.handle[value]
        known = self._known(value)
        if need in known:
            return known[need]
        if self._is_constant(value):
            producer = self._producer(value)
            moved = self._clone(producer, need, producer.ir, producer.ir.operands)
            self._copies[0].setdefault(value, {})[need] = moved
            return moved
        narrow = widened_from(self.program, value)
        if narrow is not None and not self.sharding[value].unreduced:
            operands = [self._resharded(narrow, need, user, cause)]
            moved = self._clone(self._producer(value), need, user, operands)
            self._copies[-1].setdefault(value, {})[need] = moved
            return moved
        depth, point = self._insertion_point(value, need, user)
        type_ = self.program.value_type[value]
        source, path = self.planner.nearest(type_, tuple(known), need)
        if not path.complete:
            self._remark_incomplete(user, f"a value from {print_dims(source)} to {print_dims(need)}")
        self.moves.append(ValueMove(user.name, user.location, type_, source, path.steps, cause))
        moved, _ = self._emit(known[source], path.steps, point, user.location, cause, "add")
        self._copies[depth].setdefault(value, {})[need] = moved
        return moved

    def _known(self, value: int) -> dict[TensorSharding, Value]:
        """The value and its resharded copies, by sharding. Operand and result of a constraint share them."""
        known = {self.sharding[value]: self.handle[value]}
        for scope in self._copies:
            known.update(scope.get(value, ()))
        return known

    def _remark_incomplete(self, op: Operation, what: str) -> None:
        """Remark that a search ended early and its best path is used, once for equal reshards."""
        if (op.name, what) not in self._remarked:
            self._remarked.add((op.name, what))
            moves = self.planner.max_moves
            remark(op, f"uses the best path of {what} found within {moves} moves; max-reshard-moves allows more")

    def _is_constant(self, value: int) -> bool:
        return self.program.value_def[value] >= 0 and self._producer(value).splittable

    def _producer(self, value: int) -> Op:
        """The producer of a value that is not an argument."""
        return self.program.ops[self.program.value_def[value]]

    def _clone(self, op: Op, need: TensorSharding, before: Operation, operands: Sequence[Value]) -> Value:
        """Produce a constant or a widened value again, with the needed sharding, which sends nothing."""
        made = op.ir.clone(dict(zip(op.ir.operands, operands, strict=True))).insert(Point.at(before))
        made.attributes["sdy.sharding"] = self.codec.write_list((need,))
        return made.results[0]

    def _insertion_point(self, value: int, need: TensorSharding, user: Operation) -> tuple[int, Operation]:
        """The scope and position of a reshard: before the user, or before a loop if the copy fits into memory."""
        number = self._loops.outermost(self.handle[value].block)
        type_ = self.program.value_type[value]
        held, before = (math.prod(each.local_shape(type_.shape)) for each in (need, self.sharding[value]))
        if number is None or (held - before) * element_bytes(type_.element) > self.planner.hardware.loop_bytes:
            return len(self._copies) - 1, user
        loop, depth = self._loop_scopes[number]
        return depth - 1, loop

    def _emit(
        self,
        value: Value,
        steps: tuple[ReshardStep, ...],
        before: Operation,
        location: Location,
        cause: str,
        combiner: str,
    ) -> tuple[Value, list[Operation]]:
        """Create the operations of steps; returns the last value and the operations."""
        point = Point.at(before)
        reason = ir.StringAttr.get(reason_for(cause, steps[-1].after), self.codec.context)
        created = []
        for step in steps:
            name, attributes = write_step(step, self.codec)
            attributes[CAUSE] = reason
            if step.kind in REDUCTIONS and combiner != "add":
                attributes[COMBINER] = ir.StringAttr.get(combiner, self.codec.context)
            made = Operation(name, [value], [value.type], attributes, location).insert(point)
            created.append(made)
            value = made.result
        return value, created

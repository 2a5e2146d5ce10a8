"""Inserting the planned collectives, so that every operation's tensors fit its rule."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.own_attributes import ANNOTATED, CAUSE, COMBINER, RUNS
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.analysis.trip_count import LoopNest
from gspmd.transforms.emit.partial_values import is_taking_apart, partial_sharding
from gspmd.transforms.exchange.step import REDUCTIONS, ReshardStep
from gspmd.transforms.exchange.step_notation import write_step
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.callbacks import is_one_call
from gspmd.transforms.ir.collective_notes import RETURNED
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Block, Location, Operation, Point, Value
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Body, Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.custom_rules import RULE
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.parsing.mlir import located
from gspmd.transforms.reshard.linear import linear_operands
from gspmd.transforms.reshard.planner import within_reach
from gspmd.transforms.reshard.strategy import Chooser, Situation, same_values
from gspmd.transforms.reshard.strict import ValueMove, reason_for


@dataclasses.dataclass(frozen=True, slots=True)
class _Partial:
    """A result that is left partial because a linear operation is all that uses it."""

    op: Op
    index: int
    made: TensorSharding
    goal: TensorSharding


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A place where tensors disagree, and what was decided.

    `have` are the completed shardings of the operands, then of the results; `runs` are those that the operation runs
    with. If a value is only handed on (`rule` is None), both are of the operand `operand` alone: what it has and what
    it is moved to. `situation` is what the strategy was chosen in, None if there was no choice. If it is not
    `complete`, not all ways have been compared.
    """

    location: Location
    name: str
    have: tuple[TensorSharding, ...]
    runs: tuple[TensorSharding, ...]
    info: OpInfo | None = None
    rule: OpShardingRule | None = None
    situation: Situation | None = None
    operand: int = 0
    complete: bool = True


_Situation: TypeAlias = tuple[OpInfo, tuple[TensorSharding, ...], tuple[TensorSharding, ...], tuple[bool, ...], Axes]
"""What a `Situation` is made of."""

_CONSTRAINT = "sdy.sharding_constraint"


def summed_only(value: Value) -> bool:
    """Whether a value's single user is a linear operation beside its definition that may save something.

    What scales or changes the layout saves nothing: there it depends on what comes after, as a constraint that splits.
    What is padded or repeated is reduced before, while it is small, and so is what is added to a value that is whole:
    the sooner it is reduced, the longer the collective may take beside other work.
    """
    first = value
    while True:
        user = value.only_user
        if user is None:
            return False
        if is_taking_apart(user):
            return True
        if not traits_of(user.name).linear or user.block is not value.block:
            return bool(user.name == _CONSTRAINT and value != first)
        traits = traits_of(user.name)
        if not traits.is_linear_image:
            return not traits.is_sum or all(other is value or _may_be_partial(other) for other in user.operands)
        result = user.results[0]
        if math.prod(result.type.shape) > math.prod(value.type.shape):
            return False
        value = result


def _may_be_partial(value: Value) -> bool:
    """Whether a value that something is added to may be a partial result, too: not where it is plainly whole."""
    while value.op is not None and traits_of(value.op.name).is_linear_image and len(value.op.operands) == 1:
        value = value.op.operands[0]
    if value.op is None:
        parent = value.block.owner
        return parent is not None and parent.name == WHILE
    traits = traits_of(value.op.name)
    return not traits.elementwise or bool(traits.linear)


def _partial_cause(op: Op, index: int, made: TensorSharding) -> str:
    axes = print_axes(made.unreduced, made.mesh)
    return f"'{op.info.name}' leaves partial results over {axes}; result {index} is wanted as {{to}}"


def _operand_cause(op: Op, index: int) -> str:
    if is_one_call(op.ir):
        return f"operand {index} of a Python callback is needed whole"
    return f"operand {index} of '{op.info.name}' is needed as {{to}}"


class Resharder:
    """Walks the program once, in order, and makes every use agree with its definition."""

    def __init__(self, annotated: AnnotatedProgram, rules: RuleBook, chooser: Chooser) -> None:
        self.annotated = annotated
        self.program = annotated.program
        self.codec = annotated.codec
        self.rules = rules
        self.chooser = chooser
        self.planner = chooser.planner
        self.handle: list[Value] = list(self.program.value_ir)
        self.sharding: list[TensorSharding] = [None] * len(self.handle)  # type: ignore[list-item]
        self._whole: dict[int, TensorSharding] = {}
        # Situations in which nothing has to be done, as plain tuples: most operations are in one.
        self._right: set[_Situation] = set()
        # Of every value, by scope: what it has been moved to.
        self._moved: list[dict[int, dict[TensorSharding, Value]]] = []
        self._needed: dict[int, tuple[TensorSharding, ...]] = {}  # of the block at hand
        self._loops = LoopNest[Block]()
        self._loop_places: list[tuple[Operation, int]] = []  # the same loops: each, and the number of scopes around it
        self._held: Axes = ()
        self._partial: dict[int, _Partial] = {}
        calls = (op for op in self.program.ops if op.info.name == CUSTOM_CALL)
        self._taken_apart = {op.operands[0] for op in calls if is_taking_apart(op.ir)}
        self._told: set[tuple[str, str]] = set()
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
        self._moved.append({})
        self._ops(block, returned)

    def _ops(self, block: Body, returned: Sequence[TensorSharding]) -> None:
        outside, self._needed = self._needed, self.annotated.needs(block, returned)
        following = [op.ir for op in block.ops[1:]] + [block.terminator]
        for op, after in zip(block.ops, following, strict=False):
            self._op(op, after)
        self._needed = outside

    def _wanted(self, op: Op) -> tuple[TensorSharding, ...]:
        given = self.annotated.of_op(op)
        return given or tuple([self._replicated(t) for t in op.info.results])

    def _op(self, op: Op, after: Operation) -> None:
        wanted = self._wanted(op)
        name = op.info.name
        if name == CONSTRAINT:
            self._decide_move(op.ir, 0, op.operands[0], wanted[0])
            value = self._moved_value(op.operands[0], wanted[0], op.ir, "a sharding constraint asks for {to}")
            op.ir.replace([value])
            self._define(op.results[0], value, wanted[0])
            if not self._is_constant(op.operands[0]):
                self._moved[-1][op.results[0]] = self._known(op.operands[0])
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
            self._loop_places.append((op.ir, len(self._moved)))
        for index, region in enumerate(op.regions):
            for argument, sharding in zip(region.arguments, wanted, strict=False):
                self.sharding[argument] = sharding
            self._moved.append({})
            is_condition = loop and index == 0
            self._ops(region, () if is_condition else wanted)
            if not is_condition:
                self._use_all(region.terminator, region.returned, list(wanted), f"'{name}' returns value {{}}")
            self._moved.pop()
        if loop:
            self._loops.leave()
            self._loop_places.pop()

    def _manual(self, op: Op) -> None:
        """Operands as the manual computation takes them; inside, without its manual axes."""
        region, block = self.annotated.region(op), op.regions[0]
        self._use_all(op.ir, op.operands, list(region.in_shardings), f"'{MANUAL}' takes operand {{}}")
        for argument, sharding in zip(block.arguments, region.in_shardings, strict=True):
            self.sharding[argument] = region.inside(sharding)
        outside, self._held = self._held, self._held + region.axes
        wanted = [region.inside(sharding) for sharding in region.out_shardings]
        self._block(block, wanted)
        self._use_all(block.terminator, block.returned, wanted, f"'{MANUAL}' returns value {{}}")
        self._held = outside
        self._moved.pop()

    def _use_all(self, user: Operation, values: list[int], wanted: list[TensorSharding], cause: str) -> None:
        for index, (value, sharding) in enumerate(zip(values, wanted, strict=True)):
            if self.sharding[value] != sharding:
                self._decide_move(user, index, value, sharding)
                text = cause.format(index) + " as {to}"
                user.operands[index] = self._moved_value(value, sharding, user, text)

    def _decide_move(self, user: Operation, operand: int, value: int, need: TensorSharding) -> None:
        have = self.sharding[value]
        if have != need:
            self.decisions.append(Decision(user.location, user.name, (have,), (need,), operand=operand))

    # ---- one operation ----

    def _compute(self, op: Op, wanted: tuple[TensorSharding, ...], after: Operation) -> None:
        number = self.rules.of_op(op.info, op.ir)
        if RULE in op.info.attributes:
            del op.ir.attributes[RULE]
        op.ir.attributes.pop(ANNOTATED, None)
        is_used_so = bool(op.operands) and op.operands[0] in self._taken_apart
        if is_used_so and is_taking_apart(op.ir) and self._take_apart(op, wanted[0]):
            return
        apart = self._left_apart(op)
        if apart is not None:
            wanted = (apart,)
            op.ir.attributes["sdy.sharding"] = self.codec.write_list(wanted)
        if self._partial and any(v in self._partial for v in op.operands):
            if self._add_partial(op, number, wanted[0], after):
                return
            for value in op.operands:
                self._reduce_now(value, op.ir)
        have = tuple([self.sharding[v] for v in op.operands])
        free = tuple([self._is_constant(v) for v in op.operands])
        key = (op.info, have, wanted, free, self._held)
        decided = op.ir.attributes.pop(RUNS, None)
        if decided is not None:
            runs = self.codec.read_list(decided)
            self._run_as(op, self.rules.rules[number], Situation(*key), runs, after, may_be_added=False)
        elif apart is not None or key not in self._right:
            self._choose(op, self.rules.rules[number], Situation(*key), key, after)
        for result, sharding in zip(op.results, wanted, strict=True):
            self.sharding[result] = sharding

    def _choose(self, op: Op, rule: OpShardingRule, situation: Situation, key: _Situation, after: Operation) -> None:
        """Find the strategy where tensors disagree, move the operands and finish the results."""
        # What a value is to be moved to in any case may be moved to here as well.
        moved = tuple([(*self._moved_to(value), *self._needed_as(value)) for value in op.operands])
        alike = same_values(op.operands)
        if any(moved) or alike:
            situation = dataclasses.replace(situation, moved=moved if any(moved) else (), alike=alike)
        if self._loops:
            counts = tuple([self._loops.runs_with(self.handle[value].block) for value in op.operands])
            situation = dataclasses.replace(situation, runs=counts if any(count > 1 for count in counts) else ())
        with located(op.ir):
            strategy = self.chooser.choose(rule, situation)
        if not strategy.complete:
            self._tell_given_up(op.ir, "the ways to compute this")
        runs = strategy.operands + strategy.results
        if runs == situation.shardings:
            if not any(moved):
                self._right.add(key)
            return
        self._run_as(op, strategy.rule, situation, runs, after, strategy.complete)

    def _run_as(
        self,
        op: Op,
        rule: OpShardingRule,
        situation: Situation,
        runs: tuple[TensorSharding, ...],
        after: Operation,
        complete: bool = True,
        may_be_added: bool = True,
    ) -> None:
        """Move operands to what an operation runs with, and its results to what they are wanted as.

        Sums that linear operations can add up first may be left to these, if that `may_be_added` to what was chosen.
        """
        have, wanted, count = situation.operands, situation.results, len(op.operands)
        found = Decision(op.ir.location, op.info.name, have + wanted, runs, op.info, rule, situation)
        self.decisions.append(dataclasses.replace(found, complete=complete))
        for index, (value, need) in enumerate(zip(op.operands, runs[:count], strict=True)):
            if have[index] != need:
                op.ir.operands[index] = self._moved_value(value, need, op.ir, _operand_cause(op, index))
        if runs[count:] != wanted:
            self._finish_results(op, runs[count:], wanted, rule.combiner, after, may_be_added)

    def _finish_results(
        self,
        op: Op,
        results: tuple[TensorSharding, ...],
        wanted: tuple[TensorSharding, ...],
        combiner: str,
        after: Operation,
        may_be_added: bool,
    ) -> None:
        op.ir.attributes["sdy.sharding"] = self.codec.write_list(results)
        for index, (made, need) in enumerate(zip(results, wanted, strict=True)):
            goal = within_reach(made, need)
            if made == goal:
                continue
            raw = op.ir.results[index]
            if may_be_added and made.unreduced and combiner == "add" and summed_only(raw):
                self._partial[op.results[index]] = _Partial(op, index, made, goal)
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
        """Bring a result from the sharding it is made with to the one its users expect."""
        raw = op.ir.results[index]
        path = self.planner.plan(op.info.results[index], *move)
        if not path.complete:
            self._tell_given_up(op.ir, f"the ways to bring result {index} from {print_dims(move[0])} to its users")
        self.moves.append(ValueMove(op.info.name, op.ir.location, op.info.results[index], move[0], path.steps, text))
        final, created = self._emit(raw, path.steps, before, op.ir.location, text, combiner)
        raw.replace_all_uses_with(final, [created[0]])
        self.handle[op.results[index]] = final

    # ---- sums of partial results ----

    def _add_partial(self, op: Op, number: int, goal: TensorSharding, after: Operation) -> bool:
        """Apply a linear operation to partial results, so that one reduction serves all of them.

        Only when every operand that it is linear in is partial over the same axes and split alike.
        """
        linear = linear_operands(op, self._is_constant)
        operands = [self._partial.get(op.operands[index]) for index in linear]
        made = {partial.made if partial else None for partial in operands}
        if None in made or len(made) != 1:
            return False
        rule = self.rules.rules[number]
        runs = self.chooser.follow(rule, linear, next(s for s in made if s is not None))
        if runs is None:
            return False
        result = runs[-1]
        have = tuple([self.sharding[value] for value in op.operands])
        self.decisions.append(Decision(op.ir.location, op.info.name, (*have, goal), runs, op.info, rule))
        for index, value in enumerate(op.operands):
            if index in linear:
                self._partial.pop(value, None)
            else:
                op.ir.operands[index] = self._moved_value(value, runs[index], op.ir, "")
        op.ir.attributes["sdy.sharding"] = self.codec.write_list((result,))
        self.sharding[op.results[0]] = goal
        if summed_only(op.ir.results[0]):
            self._partial[op.results[0]] = _Partial(op, 0, result, goal)
            return True
        axes = print_axes(result.unreduced, result.mesh)
        text = f"'{op.info.name}' has partial results over {axes}; they are wanted as {{to}}"
        self._finish(op, 0, (result, goal), after, text, "add")
        return True

    # ---- results that are taken apart into summands ----

    def _left_apart(self, op: Op) -> TensorSharding | None:
        """The sharding of a result that is only taken apart, partial over the axes of the summands; None for others."""
        if len(op.results) != 1 or op.results[0] not in self._taken_apart:
            return None
        users = op.ir.results[0].users
        if not all(map(is_taking_apart, users)):
            return None
        goals = {self.codec.read_list(user.attributes["sdy.sharding"])[0] for user in users}
        return partial_sharding(goals.pop()) if len(goals) == 1 else None

    def _take_apart(self, op: Op, goal: TensorSharding) -> bool:
        """Hand on as it is what is partial over the axes of the summands; returns whether it could."""
        value, wanted = op.operands[0], partial_sharding(goal)
        partial = self._partial.pop(value, None)
        if partial is not None:
            left = within_reach(partial.made, wanted)
            if partial.made != left:
                text = _partial_cause(partial.op, partial.index, partial.made)
                self._finish(partial.op, partial.index, (partial.made, left), op.ir, text, "add")
            self.sharding[value] = wanted
        if self.sharding[value] != wanted:
            return False
        self.sharding[op.results[0]] = goal
        return True

    def _reduce_now(self, value: int, user: Operation) -> None:
        partial = self._partial.pop(value, None)
        if partial is None:
            return
        text = _partial_cause(partial.op, partial.index, partial.made)
        self._finish(partial.op, partial.index, (partial.made, partial.goal), user, text, "add")

    # ---- moving a value ----

    def _moved_value(self, value: int, need: TensorSharding, user: Operation, cause: str) -> Value:
        """The value with another sharding: moved before its user, or found moved already."""
        have = self.sharding[value]
        if have == need:
            return self.handle[value]
        known = self._known(value)
        if need in known:
            return known[need]
        if self._is_constant(value):
            moved = self._remake(self.program.ops[self.program.value_def[value]], need)
            self._moved[0].setdefault(value, {})[need] = moved
            return moved
        depth, point = self._where(value, user)
        type_ = self.program.value_type[value]
        source, path = self.planner.nearest(type_, tuple(known), need)
        if not path.complete:
            self._tell_given_up(user, f"the ways to bring a value from {print_dims(source)} to {print_dims(need)}")
        self.moves.append(ValueMove(user.name, user.location, type_, source, path.steps, cause))
        moved, _ = self._emit(known[source], path.steps, point, user.location, cause, "add")
        self._moved[depth].setdefault(value, {})[need] = moved
        return moved

    def _known(self, value: int) -> dict[TensorSharding, Value]:
        """The value as it is and as it has been moved, the operands of a constraint being the same as its result."""
        known = {self.sharding[value]: self.handle[value]}
        for scope in self._moved:
            known.update(scope.get(value, ()))
        return known

    def _tell_given_up(self, op: Operation, what: str) -> None:
        """Say, once for equal ones, that the best of what was looked at is taken."""
        if (op.name, what) not in self._told:
            self._told.add((op.name, what))
            most = self.planner.max_moves
            remark(op, f"takes the best of {most} moves looked at of {what}; max-reshard-moves allows for more")

    def _moved_to(self, value: int) -> tuple[TensorSharding, ...]:
        """What a value has been moved to for earlier users, where that serves here as well."""
        found = [sharding for scope in self._moved for sharding in scope.get(value, ())]
        return tuple(found)

    def _needed_as(self, value: int) -> tuple[TensorSharding, ...]:
        """What a value is to be moved to whatever is decided here, in the block at hand."""
        needs = self._needed.get(value, ())
        return tuple([need for need in needs if need != self.sharding[value]]) if needs else ()

    def _is_constant(self, value: int) -> bool:
        definer = self.program.value_def[value]
        return definer >= 0 and self.program.ops[definer].splittable

    def _remake(self, op: Op, need: TensorSharding) -> Value:
        """Make a constant again, split as needed, which costs nothing."""
        made = op.ir.clone().insert(Point.at(op.ir))
        made.attributes["sdy.sharding"] = self.codec.write_list((need,))
        return made.results[0]

    def _where(self, value: int, user: Operation) -> tuple[int, Operation]:
        """Before the user; but a value from outside a loop is moved once, before the loop."""
        number = self._loops.outermost(self.handle[value].block)
        if number is None:
            return len(self._moved) - 1, user
        loop, depth = self._loop_places[number]
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
        """Create the steps' operations; returns the last value and the operations."""
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

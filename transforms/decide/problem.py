"""The decision problem of a program: variables, states and costs.

Variables are values, whose states are placements, and operations, whose states are strategies. An operation costs its
work and the communication of its local form. A pair of a value and an operation costs the reshard between the placement
of the value and the one that the operation needs or produces.

Some values need no variable. A value with one consumer has the placement in which it is produced or needed. A value
that its producer can produce in any placement has that placement, unless one reshard may serve several consumers. A
fixed value with several consumers has a variable for the placement to which it is resharded for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy as shallow_copy
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import starts_with
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.domains import ChosenDomains, Domains, uneven_in
from gspmd.transforms.decide.frame import Frame, Frames
from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.op_classes import ChosenClasses, OpClasses
from gspmd.transforms.decide.op_kinds import OpClass
from gspmd.transforms.decide.solver import Problem
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.tables import Domain
from gspmd.transforms.decide.value_table import Consumer, ValueTable
from gspmd.transforms.decide.widened import moved_types
from gspmd.transforms.decide.work import WorkBook
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints


class DirectValue(NamedTuple):
    """A value without a variable: a result of one operation and an operand of another, by tensor number."""

    producer: Op
    result: int
    consumer: Op
    operand: int


class Copy(NamedTuple):
    """The placement to which a constraint reshards a value: in every state, or in those that use the constraint."""

    domain: Domain
    optional: int | None = None


class ReshardSource(NamedTuple):
    """The source of a value's reshards: the value before its constraints, and the copies that these make."""

    value: int
    copies: tuple[Copy, ...]


class ProblemBuilder:
    """Builds the problem of a propagated program.

    `variable_of` are the variables of values; `op_variable` and `class_of` are the variables and classes of operations,
    by index. `frames` are those of similar problems. `direct` are the values without a variable, and `optional_orders`
    the program positions of optional constraints. Values with equal `alike` share a variable, and reshards of a value
    count `moved` times. With `values_stay`, values keep the shardings of propagation, and only strategies are chosen.
    """

    def __init__(
        self,
        values: ValueTable,
        work: WorkBook,
        objective: Objective,
        frames: Frames,
        values_stay: bool = False,
        alike: Mapping[int, Hashable] | None = None,
        moved: Callable[[int], float] = lambda value: 1.0,
    ) -> None:
        self.values, self.work, self.types = values, work, moved_types(values.program)
        self._given = list(values.sharding)  # by propagation; the decision replaces them later
        needs = {use.need for uses in values.needs.values() for use in uses if use.need is not None}
        parts = AxisParts(values.annotated.mesh, {*values.sharding, *values.results, *needs})
        frame, sums = frames.of(parts, uneven_in(values, parts), objective, values.is_open), Sums(values)
        self.direct: dict[int, DirectValue] = {}
        self._moved = moved
        self.optional_orders = {
            values.constraint_uses[each].order for results in values.optional.values() for each in results
        }
        self._alike = _alike_in_layers(values) | dict(alike or {})
        self._searched: set[int] = set()  # values for which `direct` is complete
        self._whole = Domains(values, frame, sums, values_stay)
        self._begin(frame, self._whole, OpClasses(values, work, self._whole, sums, frame))

    def _begin(self, frame: Frame, domains: Domains | ChosenDomains, classes: OpClasses) -> None:
        """A problem without variables."""
        self.frame, self.domains, self._classes = frame, domains, classes
        self.parts, self.objective, self.prices, self.tables = frame.parts, frame.objective, frame.prices, frame.tables
        self.problem = Problem(self.tables)
        self.variable_of: dict[int, int] = {}
        self.op_variable: dict[int, int] = {}
        self.class_of: dict[int, OpClass] = {}
        self._shared: dict[Hashable, int] = {}  # the shared variables
        self._copies: dict[int, int] = {}

    def build(self) -> Problem:
        """The variables and their costs."""
        for consumer in self.values.consumers.values():
            self._add_op(consumer)
        for use in self.values.all():
            if use.op is None and not self.values.is_splittable[use.value] and use.order not in self.optional_orders:
                self._charge_need(use)
        self._charge_returned()
        return self.problem

    def cost_by(self, objective: Objective, states: list[int]) -> float:
        """The cost of a solution under another objective, with the same routes of reshards.

        The problem is built again with the chosen states alone.
        """

        def state_of(value: int) -> int:
            variable = self.variable_of.get(self.values.carried[value])
            return 0 if variable is None else states[variable]

        def copy_of(value: int) -> int:
            return states[self._copies[value]] - 1  # state 0: no copy

        def strategy_of(op: Op) -> tuple[OpClass, int]:
            return self.class_of[op.index], states[self.op_variable[op.index]]

        again = shallow_copy(self)
        frame = Frame(self.frame.strategies, objective, self.frame.is_open, self.prices)
        classes = ChosenClasses(self._classes, frame, strategy_of)
        again._begin(frame, ChosenDomains(self._whole, frame.tables, state_of, copy_of), classes)
        decided, self.values.sharding = self.values.sharding, list(self._given)
        try:
            problem = again.build()
        finally:
            self.values.sharding = decided
        chosen = [0] * len(problem.sizes)
        for value, variable in again._copies.items():
            chosen[variable] = int(copy_of(value) >= 0)
        return problem.cost(chosen)

    def shardings_of(self, op: Op, state: int) -> tuple[TensorSharding, ...]:
        """The placements of operands and results under one of an operation's strategies."""
        return tuple(tensor.table.sharding(int(tensor.numbers[state])) for tensor in self.class_of[op.index].tensors)

    # ---- variables ----

    def _variable(self, value: int) -> int:
        """The variable of a value whose sharding may change."""
        value = self.values.carried[value]
        found = self.variable_of.get(value)
        if found is None:
            domain, now = self.domains.of(value), self.domains.now(value)
            found = self._once(value, ("value", domain.key), lambda: self._new_variable(value, domain))

            # Ties go to propagation, and to using constraints.
            def surprise() -> Floats:
                unlike: Floats = np.where(domain.numbers == now, 0.0, self.objective.surprise_s)
                if domain.taken is not None:
                    unlike += self.objective.surprise_s * (domain.taken < (1 << len(self.values.optional[value])) - 1)
                return unlike

            self.problem.add(found, self.tables.number(("surprise", domain.key, now), surprise))
            self.variable_of[value] = found
            for constraint in self.values.optional.get(value, ()):
                self._charge_optional(constraint)
        return found

    def _charge_optional(self, constraint: int) -> None:
        """Charge states of a value that use a constraint for the reshard to it."""
        values, tables = self.values, self.tables
        consumer = values.constraint_uses[constraint]
        source = self.source(consumer.value, consumer.order)
        domain, bit = self.domains.of(source.value), values.optional[values.carried[source.value]].index(constraint)
        target = self.domains.table(consumer.value).number(values.sharding[constraint])
        table = self._moves(self.types[consumer.value], domain, source.copies, self._placement(consumer.value, target))
        taken = tables.number(
            ("optional", table, domain.key, bit), lambda: np.where(domain.is_taken(bit), tables[table][:, 0], 0.0)
        )
        times = consumer.times * consumer.copies * self._moved(consumer.value)
        self.problem.add(self.variable_of[values.carried[source.value]], tables.times(taken, times))

    def _once(self, value: int, kind: Hashable, make: Callable[[], int]) -> int:
        """The variable of this kind for a value or its producer, shared by corresponding values of all layers."""
        alike = self._alike.get(value)
        if alike is None:
            return make()
        found = self._shared.get((alike, kind))
        if found is None:
            found = self._shared[alike, kind] = make()
        return found

    def _new_variable(self, value: int, domain: Domain) -> int:
        """The variable of a value's producer, if it has the same states; else a new one."""
        producer = self.values.producer.get(value)
        if producer is not None and producer.index in self.op_variable and len(producer.results) == 1:
            (made,) = self.class_of[producer.index].tensors[len(producer.operands) :]
            if made is domain and not self._serves_several(value):
                return self.op_variable[producer.index]
        return self.problem.variable(len(domain.numbers))

    def _serves_several(self, value: int) -> bool:
        """Whether one reshard of a value may serve several consumers; elementwise operations follow their operand."""
        return len(self.values.uses[value]) > 1

    def _op_variable(self, op: Op, strategies: OpClass) -> int:
        """The variable of an operation: shared by corresponding operations of all layers, or that of a producer."""

        def make() -> int:
            before = self._variable_before(op, strategies)
            return self.problem.variable(len(strategies.cost_s)) if before is None else before

        return self._once(op.results[0], ("op", strategies.key), make) if op.results else make()

    def _variable_before(self, op: Op, strategies: OpClass) -> int | None:
        """The variable of a producer with only this consumer, if it has the same states.

        A reshard between the two can take place before or after both instead.
        """
        for index, value in enumerate(op.operands):
            direct = self._direct_value(value)
            if direct is None or direct.producer.index not in self.class_of:
                continue
            made = self.class_of[direct.producer.index].tensors[direct.result]
            is_same = made is strategies.tensors[index]
            if is_same and self.values.consumers[direct.producer.index].times == self.values.consumers[op.index].times:
                return self.op_variable[direct.producer.index]
        return None

    def _direct_value(self, value: int) -> DirectValue | None:
        """The producer and the consumer of a value with exactly one use."""
        if value not in self._searched:
            self._searched.add(value)
            direct = self._find_direct(value)
            if direct is not None:
                self.direct[value] = direct
        return self.direct.get(value)

    def _find_direct(self, value: int) -> DirectValue | None:
        values, uses = self.values, self.values.uses[value]
        user = uses[0].op if len(uses) == 1 else None
        if user is None or user.operands.count(value) != 1 or values.runs[user.index]:
            return None
        if not values.is_between_operations(value):
            return None
        producer = values.producer[value]
        return DirectValue(
            producer, len(producer.operands) + producer.results.index(value), user, user.operands.index(value)
        )

    # ---- operations ----

    def _add_op(self, consumer: Consumer) -> None:
        op, tables = consumer.op, self.tables
        assert op is not None, "it is an operation"
        strategies, times = self._classes.of(op), consumer.times * consumer.copies
        self.class_of[op.index] = strategies
        variable = self.op_variable[op.index] = self._op_variable(op, strategies)
        work = tables.number(("work", strategies.key), lambda: strategies.cost_s)
        self.problem.add(variable, tables.times(work, times))
        indices: dict[int, list[int]] = {}
        for index, value in enumerate(op.operands):
            if not self.values.is_splittable[value]:
                indices.setdefault(value, []).append(index)
        for value, taken in indices.items():
            direct = self._direct_value(value)
            if direct is not None:
                self._charge_direct(value, direct, times)
            else:
                self._charge_operand(value, taken, op, times)
        for number, value in enumerate(op.results, len(op.operands)):
            if self._direct_value(value) is None:
                self._charge_result(value, number, op, times)

    def _charge_direct(self, value: int, direct: DirectValue, times: float) -> None:
        """Charge the reshard of a value between its producer and its only consumer."""
        made = self.class_of[direct.producer.index].tensors[direct.result]
        needed = self.class_of[direct.consumer.index].tensors[direct.operand]
        moves = self._moves(self.types[value], made, (), needed)
        a, b = self.op_variable[direct.producer.index], self.op_variable[direct.consumer.index]
        if a != b:
            self.problem.join(a, b, self.tables.times(moves, times * self._moved(value)))

    def _charge_operand(self, value: int, indices: list[int], op: Op, times: float) -> None:
        """Charge the reshards of a value to the placements that an operation needs, once each."""
        strategies, runs = self.class_of[op.index], self.values.runs[op.index]
        source = self.source(value, self.values.consumers[op.index].order)
        count, times = runs[indices[0]] if runs else 1, times * self._moved(value)
        for position, index in enumerate(indices):
            targets = strategies.tensors[index]
            table = self._moves(self.types[value], self.domains.of(source.value), source.copies, targets)
            for other in indices[:position]:
                table = self._unless_same(table, targets, strategies.tensors[other])
            if count > 1:
                table = self._before_loop(table, source.value, targets, count)
            if not self.values.may_change(source.value) and self._is_shared(source.value):
                self._charge_copy(source.value, table, targets, self.op_variable[op.index], times, count)
            else:
                self._connect(source.value, self.op_variable[op.index], self.tables.times(table, times))

    def _placement(self, value: int, number: int) -> Domain:
        """A single placement of a value."""
        return self.tables.domain(self.domains.table(value), np.array([number], np.int64))

    def _before_loop(self, table: int, value: int, targets: Domain, count: int) -> int:
        """The costs of reshards that run once before a loop, if their results need little memory."""

        def make() -> Floats:
            few = self._held_bytes(value, targets.numbers) <= self.objective.hardware.loop_bytes
            return np.where(few, self.tables[table] / count, self.tables[table])

        return self.tables.number(("before loop", table, self.domains.of(value).key, self.types[value], count), make)

    def _held_bytes(self, value: int, numbers: Ints) -> Floats:
        """The additional memory of a value in each of these placements, compared with each of its states."""
        type_, domain = self.types[value], self.domains.of(value)
        held, before = (domain.table.local(type_.shape, each) for each in (numbers, domain.numbers))
        found: Floats = (held[None, :] - before[:, None]) * element_bytes(type_.element)
        return found

    def _unless_same(self, table: int, targets: Domain, other: Domain) -> int:
        """The costs of reshards to an operand, without those shared with another operand."""
        same = targets.numbers == other.numbers
        name = "once", table, targets.key, other.key
        return self.tables.number(name, lambda: np.where(same[None, :], 0.0, self.tables[table]))

    def _charge_result(self, value: int, number: int, op: Op, times: float) -> None:
        """Charge the reshard of a result from the produced placement to that of the value."""
        variable, made = self.op_variable[op.index], self.class_of[op.index].tensors[number]
        if self.values.may_change(value) and self._variable(value) == variable:
            return
        moves = self._moves(self.types[value], made, (), self.domains.of(value))
        self._connect(value, variable, self.tables.times(self.tables.transposed(moves), times * self._moved(value)))

    def _connect(self, value: int, variable: int, table: int) -> None:
        """Add a cost for pairs of a value (rows) and a variable; for a fixed value, for the variable alone."""
        if self.values.may_change(value):
            self.problem.join(self._variable(value), variable, table)
        else:
            self.problem.add(variable, self.tables.row(table, 0))

    # ---- reshards ----

    def _moves(self, type_: TensorType, domain: Domain, copies: tuple[Copy, ...], targets: Domain) -> int:
        """The table of reshards from the states of a domain to others, or from a copy if that is cheaper."""

        def make() -> Floats:
            least = self.prices.moves(type_, domain.table, domain.numbers, targets.numbers)
            for copy, optional in copies:
                nearer = np.minimum(least, self.prices.moves(type_, copy.table, copy.numbers, targets.numbers))
                least = nearer if optional is None else np.where(domain.is_taken(optional)[:, None], nearer, least)
            return least

        name = "moves", type_, domain.key, tuple([(copy.key, optional) for copy, optional in copies]), targets.key
        return self.tables.number(name, make)

    def source(self, value: int, before: int | None = None) -> ReshardSource:
        """The source of a value's reshards, with the copies that constraints make (before a program position)."""
        values, root = self.values, self.values.constrained(value)
        if values.is_splittable[root]:
            return ReshardSource(value, ())
        optional = {each: bit for bit, each in enumerate(values.optional.get(values.carried[root], ()))}
        is_fixed = not values.may_change(root)
        found, pending = [], [root]
        while pending:
            for again in values.constraints.get(pending.pop(), ()):
                if values.may_change(again) or (again != value and not values.are_together(again, root)):
                    continue
                pending.append(again)
                is_made = before is None or values.constraint_uses[again].order < before
                # A fixed value has a variable for its common copy, which may be the placement of a constraint.
                if is_made and not (is_fixed and again in optional):
                    found.append(Copy(self.domains.of(again), optional.get(again)))
        return ReshardSource(root, tuple(found))

    def _is_shared(self, value: int) -> bool:
        """Whether a fixed value, or the result of its constraints, has several consumers."""
        users, pending = set[int](), [value]
        while pending:
            each = pending.pop()
            users.update(use.order for use in self.values.uses[each] if use.order not in self.optional_orders)
            pending += self.values.constraints.get(each, ())
        return len(users) > 1

    def is_taken(self, value: int, number: int, states: list[int]) -> bool:
        """Whether a solution uses an optional constraint of a value, given by number."""
        value = self.values.carried[value]
        if value in self.variable_of:
            return bool(self.domains.of(value).is_taken(number)[states[self.variable_of[value]]])
        constraint, table = self.values.optional[value][number], self.domains.table(value)
        target = table.number(self.values.sharding[constraint])
        copy = self.copy(value, states)
        at_hand = [self.domains.now(value), *(() if copy is None else (copy,))]
        if at_hand[-1] == target:
            return True
        moves = self.prices.moves(self.types[value], table, np.array(at_hand), np.array([target]))
        return bool(moves[0] == moves.min()) and self._is_run_with(constraint, target, states)

    def copy(self, value: int, states: list[int]) -> int | None:
        """The placement to which a fixed value is resharded for several consumers; None if there is none."""
        if value not in self._copies or not states[self._copies[value]]:  # state 0: no copy
            return None
        return int(self.domains.copies(value).numbers[states[self._copies[value]] - 1])

    def _is_run_with(self, value: int, placement: int, states: list[int]) -> bool:
        """Whether a consumer of the value runs with this placement of it in a solution."""
        for op in (use.op for use in self.values.uses[value] if use.op is not None):
            strategies, state = self.class_of[op.index], states[self.op_variable[op.index]]
            tensors = zip(op.operands, strategies.tensors, strict=False)
            if any(operand == value and tensor.numbers[state] == placement for operand, tensor in tensors):
                return True
        return False

    def _charge_copy(
        self, value: int, table: int, targets: Domain, variable: int | None, times: float, count: int
    ) -> None:  # fmt: skip
        """Charge the reshard of a fixed value to the targets: from its common copy, or from itself if that is cheaper.

        The targets belong to the states of `variable`; if it is None, there is only one.
        """
        domain, tables = self.domains.copies(value), self.tables
        moves = self._moves(self.types[value], domain, (), targets)

        def make() -> Floats:
            none = np.full((1, tables[moves].shape[1]), np.inf)
            either: Floats = np.minimum(np.concatenate([none, tables[moves]]), tables[table][0])
            return either

        either = tables.number(("copy", moves, table), make)
        copy, either = self._copy_variable(value, domain, times, count), tables.times(either, times)
        if variable is None:
            self.problem.add(copy, tables.column(either, 0))
        else:
            self.problem.join(copy, variable, either)

    def _copy_variable(self, value: int, domain: Domain, times: float, count: int) -> int:
        """The variable for the placement to which a fixed value is resharded for several consumers; state 0 is none."""
        found = self._copies.get(value)
        if found is None:
            own = self.domains.of(value)
            found = self._copies[value] = self._once(
                value, ("copy", own.key, domain.key), lambda: self.problem.variable(len(domain.numbers) + 1)
            )
            moves = self._moves(self.types[value], own, (), domain)
            if count > 1:
                moves = self._before_loop(moves, value, domain, count)
            row = self.tables.number(
                ("copied", moves), lambda: np.concatenate([[0.0], self.tables[moves][0] + self.objective.surprise_s])
            )
            self.problem.add(found, self.tables.times(row, times))
        return found

    # ---- needs besides operations ----

    def _charge_need(self, use: Consumer) -> None:
        """Charge the reshard of a value to a need that is not an operation: a placement, or that of another value."""
        values, tables, source = self.values, self.tables, self.source(use.value, use.order)
        root, other = source.value, values.carried[use.like] if use.need is None else -1
        if use.need is not None:
            targets = self._placement(use.value, self.domains.table(use.value).number(use.need))
        elif use.like == use.value or values.carried[root] == other:
            return
        else:
            targets = self.domains.of(other)
        moves = self._moves(self.types[use.value], self.domains.of(root), source.copies, targets)
        times = use.times * use.copies * self._moved(use.value)
        table = tables.times(moves, times)
        wanted = self._variable(other) if other >= 0 and values.may_change(other) else None
        have = self._variable(root) if values.may_change(root) else None
        if have is None and self._is_shared(root):
            self._charge_copy(root, moves, targets, wanted, times, 1)
        elif have is not None and wanted is not None:
            self.problem.join(have, wanted, table)
        elif have is not None:
            self.problem.add(have, tables.column(table, 0))
        elif wanted is not None:
            self.problem.add(wanted, tables.row(table, 0))
        else:
            self.problem.constant += float(tables[table][0, 0])

    def _charge_returned(self) -> None:
        """Charge the reshard of a result to the argument that it becomes in the next step."""
        for value in self.values.returned_unannotated:
            if self.values.may_change(value):
                table = self._moves(self.types[value], self.domains.of(value), (), self._return_targets(value))
                self.problem.add(self._variable(value), self.tables.row_minima(table))

    def _return_targets(self, value: int) -> Domain:
        """The placements in which a result without an annotation may be returned: even, and not partial.

        If there are arguments of its type, these are the shardings of the arguments.
        """
        domain, shape = self._whole.of(value), self.types[value].shape
        like = self.values.argument_shardings(value) if self.objective.next_step else []
        found = sorted({domain.table.number(each) for each in like if each.divides(shape)})
        if not found:
            found = sorted(
                {*domain.numbers[self._may_be_returned(domain, shape)].tolist(), *self._evenly(domain, shape)}
            )
        return self.tables.domain(domain.table, np.array(found, np.int64))

    def _may_be_returned(self, domain: Domain, shape: tuple[int, ...]) -> Bools:
        """The states in which a result of the program may be returned."""
        found: Bools = (domain.table.partial[domain.numbers] == 0) & domain.table.is_even(shape, domain.numbers)
        return found

    def _evenly(self, domain: Domain, shape: tuple[int, ...]) -> list[int]:
        """The even placements closest to the uneven states of a domain."""
        uneven = domain.numbers[~domain.table.is_even(shape, domain.numbers)]
        found = [domain.table.sharding(int(number)).evenly(shape) for number in uneven]
        return [domain.table.number(each) for each in found if all(map(self.parts.has, each.dim_axes()))]

    def returned_placement(self, value: int, state: int) -> int:
        """The placement of a result without an annotation for this state of its value: not partial, and even.

        If propagation gives it the sharding of an argument of its type, and every device has that shard already, it is
        that sharding.
        """
        domain = self.domains.of(value)
        number, targets = int(domain.numbers[state]), self._return_targets(value).numbers
        before, is_like = self._given[value], bool(self.values.argument_shardings(value))
        if is_like and domain.table.number(before) in targets and _is_part(before, domain.table.sharding(number)):
            return domain.table.number(before)
        if self._may_be_returned(domain, self.types[value].shape)[state]:
            return number
        costs = self.prices.moves(self.types[value], domain.table, np.array([number]), targets)
        return int(targets[costs[0].argmin()])


def _is_part(sharding: TensorSharding, of: TensorSharding) -> bool:
    """Whether every shard is contained in the shard of the same device under another sharding."""
    pairs = zip(sharding.dim_axes(), of.dim_axes(), strict=True)
    return not of.unreduced and all(starts_with(axes, held) for axes, held in pairs)


def _alike_in_layers(values: ValueTable) -> dict[int, Hashable]:
    """The positions of values in their repeated layers; values at equal positions are decided alike."""
    program = values.program
    arguments, found = set(program.body.arguments), dict[int, Hashable]()
    for value, (_, what) in values.in_layers.items():
        found[value] = what
        for index, operand in enumerate(program.ops[program.value_def[value]].operands):
            if operand in arguments:
                found.setdefault(operand, ("argument", what, index))
    return found

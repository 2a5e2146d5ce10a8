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
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import starts_with
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.domains import Domain, Domains, uneven_in
from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.op_classes import OpClass, OpClasses
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.decide.solver import Problem
from gspmd.transforms.decide.strategies import StrategyBook
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.tables import Tables
from gspmd.transforms.decide.value_table import Consumer, ValueTable
from gspmd.transforms.decide.widened import moved_types
from gspmd.transforms.decide.work import WorkBook
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints


class DirectValue(NamedTuple):
    """A value without a variable: the tensor `made` of one operation, and the operand `taken` of another."""

    maker: Op
    made: int
    user: Op
    taken: int


class _TargetDomain(NamedTuple):
    """Placements to which values are resharded, and their key."""

    key: Hashable
    numbers: Ints


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

    `variable_of` has the variables of values, `op_variable` and `class_of` those of operations and their ways, by
    index; `handed_on` the values without one; `optional_orders` those of constraints that bind nothing. Values with
    equal `alike` share a variable, and reshards of a value count `moved` times. With `values_stay`, values keep the
    shardings of propagation and only strategies are chosen.
    """

    def __init__(
        self,
        places: ValueTable,
        work: WorkBook,
        objective: Objective,
        values_stay: bool = False,
        alike: Mapping[int, Hashable] | None = None,
        moved: Callable[[int], float] = lambda value: 1.0,
    ) -> None:
        self.places, self.types = places, moved_types(places.program)
        self.objective, self.work = objective, work
        self._conditions = values_stay, alike, moved
        self._given = list(places.sharding)  # as by propagation, not as decided later
        needs = {use.need for uses in places.needs.values() for use in uses if use.need is not None}
        self.parts = AxisParts(places.annotated.mesh, {*places.sharding, *places.results, *needs})
        self.prices, self.tables = PriceBook(self.parts, self.objective.hardware), Tables()
        ways, sums = StrategyBook(self.parts, uneven_in(places, self.parts)), Sums(places)
        self.domains = Domains(places, self.parts, sums, ways.fits, objective.hardware.loop_bytes, values_stay)
        self._classes = OpClasses(places, work, self.domains, sums, self.prices, ways, objective)
        self.problem = Problem(self.tables)
        self.variable_of: dict[int, int] = {}
        self.op_variable: dict[int, int] = {}
        self.class_of: dict[int, OpClass] = {}
        self.handed_on: dict[int, DirectValue] = {}
        self._moved = moved
        self.optional_orders = {places.same[each].order for results in places.optional.values() for each in results}
        self._alike = _alike_in_layers(places) | dict(alike or {})
        self._shared: dict[Hashable, int] = {}  # the shared variables
        self._looked_at: set[int] = set()  # values of which it is known whether they are handed on
        self._copies: dict[int, int] = {}
        self._same: dict[Hashable, bool] = {}

    def build(self) -> Problem:
        """The variables and their costs."""
        for place in self.places.place.values():
            self._add_op(place)
        for use in self.places.all():
            if use.op is None and not self.places.is_free[use.value] and use.order not in self.optional_orders:
                self._add_need(use)
        self._add_ends()
        return self.problem

    def priced_by(self, objective: Objective) -> Problem:
        """The same problem under another objective, built again, with the same variables and states."""
        decided, self.places.sharding = self.places.sharding, list(self._given)
        try:
            found = ProblemBuilder(self.places, self.work, objective, *self._conditions).build()
        finally:
            self.places.sharding = decided
        assert found.sizes == self.problem.sizes, "an objective does not change the states"
        return found

    def shardings_of(self, op: Op, state: int) -> tuple[TensorSharding, ...]:
        """The placements of operands and results under one of an operation's strategies."""
        values = (*op.operands, *op.results)
        return tuple(
            self.domains.table(value).sharding(int(numbers[state]))
            for value, numbers in zip(values, self.class_of[op.index].tensors, strict=True)
        )

    # ---- variables ----

    def _variable(self, value: int) -> int:
        """The variable of a value whose sharding may change."""
        value = self.places.carried[value]
        found = self.variable_of.get(value)
        if found is None:
            domain, now = self.domains.of(value), self.domains.now(value)
            found = self._once(value, ("value", domain.key), lambda: self._new_variable(value, domain))

            # Ties go to propagation and to constraints.
            def surprise() -> Floats:
                unlike: Floats = np.where(domain.numbers == now, 0.0, self.objective.surprise_s)
                if domain.taken is not None:
                    unlike += self.objective.surprise_s * (domain.taken.max() - domain.taken > 0)
                return unlike

            self.problem.add(found, self.tables.number(("surprise", domain.key, now), surprise))
            self.variable_of[value] = found
            for constraint in self.places.optional.get(value, ()):
                self._add_optional(constraint)
        return found

    def _add_optional(self, constraint: int) -> None:
        """Charge states of a value that use a constraint for the reshard to it."""
        places, tables = self.places, self.tables
        place = places.same[constraint]
        source = self.source(place.value, place.order)
        domain, bit = self.domains.of(source.value), places.optional[places.carried[source.value]].index(constraint)
        target = self.domains.table(place.value).number(places.sharding[constraint])
        table = self._moves(
            self.types[place.value], domain, source.copies, _TargetDomain(("need", target), np.array([target]))
        )
        taken = tables.number(
            ("optional", table, domain.key, bit), lambda: np.where(domain.is_taken(bit), tables[table][:, 0], 0.0)
        )
        times = place.times * place.copies * self._moved(place.value)
        self.problem.add(self.variable_of[places.carried[source.value]], tables.times(taken, times))

    def _once(self, value: int, kind: Hashable, make: Callable[[], int]) -> int:
        """The variable of this kind for a value or its producer, shared by corresponding ones of all layers."""
        alike = self._alike.get(value)
        if alike is None:
            return make()
        found = self._shared.get((alike, kind))
        if found is None:
            found = self._shared[alike, kind] = make()
        return found

    def _new_variable(self, value: int, domain: Domain) -> int:
        """The variable of a value's producer, if it has the same states; else a new one."""
        maker = self.places.maker.get(value)
        if maker is not None and maker.index in self.op_variable and len(maker.results) == 1:
            ways, number = self.class_of[maker.index], len(maker.operands)
            key = "made", ways.key, domain.key
            if self._are_same(key, ways.tensors[number], domain.numbers) and not self._serves_several(value):
                return self.op_variable[maker.index]
        return self.problem.variable(len(domain.numbers))

    def _serves_several(self, value: int) -> bool:
        """Whether one reshard of a value may serve several consumers; elementwise operations follow their operand."""
        return len(self.places.uses[value]) > 1

    def _op_variable(self, op: Op, ways: OpClass) -> int:
        """The variable of an operation: shared by corresponding ones of all layers, or that of its producer."""

        def make() -> int:
            before = self._variable_before(op, ways)
            return self.problem.variable(len(ways.cost_s)) if before is None else before

        return self._once(op.results[0], ("op", ways.key), make) if op.results else make()

    def _variable_before(self, op: Op, ways: OpClass) -> int | None:
        """The variable of a producer with only this consumer, if it has the same states.

        A reshard between the two can take place before or after both instead.
        """
        for index, value in enumerate(op.operands):
            ends = self._ends(value)
            if ends is None or ends.maker.index not in self.class_of:
                continue
            made = self.class_of[ends.maker.index]
            key = "before", made.key, ends.made, ways.key, index
            is_same = self._are_same(key, made.tensors[ends.made], ways.tensors[index])
            if is_same and self.places.place[ends.maker.index].times == self.places.place[op.index].times:
                return self.op_variable[ends.maker.index]
        return None

    def _are_same(self, key: Hashable, left: Ints, right: Ints) -> bool:
        found = self._same.get(key)
        if found is None:
            found = self._same[key] = np.array_equal(left, right)
        return found

    def _ends(self, value: int) -> DirectValue | None:
        """The producer and the consumer of a value with exactly one use."""
        if value not in self._looked_at:
            self._looked_at.add(value)
            ends = self._find_ends(value)
            if ends is not None:
                self.handed_on[value] = ends
        return self.handed_on.get(value)

    def _find_ends(self, value: int) -> DirectValue | None:
        places, uses = self.places, self.places.uses[value]
        user = uses[0].op if len(uses) == 1 else None
        if user is None or user.operands.count(value) != 1 or places.runs[user.index]:
            return None
        if not places.is_made_and_taken(value):
            return None
        maker = places.maker[value]
        return DirectValue(maker, len(maker.operands) + maker.results.index(value), user, user.operands.index(value))

    # ---- operations ----

    def _add_op(self, place: Consumer) -> None:
        op, tables = place.op, self.tables
        assert op is not None, "it is the place of an operation"
        ways, times = self._classes.of(op), place.times * place.copies
        self.class_of[op.index] = ways
        variable = self.op_variable[op.index] = self._op_variable(op, ways)
        work = tables.number(("work", ways.key), lambda: ways.cost_s)
        self.problem.add(variable, tables.times(work, times))
        indices: dict[int, list[int]] = {}
        for index, value in enumerate(op.operands):
            if not self.places.is_free[value]:
                indices.setdefault(value, []).append(index)
        for value, taken in indices.items():
            ends = self._ends(value)
            if ends is not None:
                self._hand_on(value, ends, times)
            else:
                self._take(value, taken, op, times)
        for number, value in enumerate(op.results, len(op.operands)):
            if self._ends(value) is None:
                self._leave(value, number, op, times)

    def _hand_on(self, value: int, ends: DirectValue, times: float) -> None:
        """Charge the reshard of a value between its producer and its only consumer."""
        made, needed, type_ = self.class_of[ends.maker.index], self.class_of[ends.user.index], self.types[value]
        sources, targets, table = made.tensors[ends.made], needed.tensors[ends.taken], self.domains.table(value)
        name = "on", type_, made.key, ends.made, needed.key, ends.taken
        moves = self.tables.number(name, lambda: self.prices.moves(type_, table, sources, targets))
        a, b = self.op_variable[ends.maker.index], self.op_variable[ends.user.index]
        if a != b:
            self.problem.join(a, b, self.tables.times(moves, times * self._moved(value)))

    def _take(self, value: int, indices: list[int], op: Op, times: float) -> None:
        """Charge the reshards of a value to the placements that an operation needs, once each."""
        ways, runs = self.class_of[op.index], self.places.runs[op.index]
        source = self.source(value, self.places.place[op.index].order)
        count, times = runs[indices[0]] if runs else 1, times * self._moved(value)
        for position, index in enumerate(indices):
            targets = _TargetDomain(("to", ways.key, index), ways.tensors[index])
            table = self._moves(self.types[value], self.domains.of(source.value), source.copies, targets)
            for other in indices[:position]:
                table = self._unless_same(table, ways, index, other)
            if count > 1:
                table = self._before_loop(table, source.value, targets, count)
            if not self.places.may_change(source.value) and self._is_shared(source.value):
                self._take_copy(source.value, table, targets, self.op_variable[op.index], times, count)
            else:
                self._connect(source.value, self.op_variable[op.index], self.tables.times(table, times))

    def _before_loop(self, table: int, value: int, targets: _TargetDomain, count: int) -> int:
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

    def _unless_same(self, table: int, ways: OpClass, index: int, other: int) -> int:
        """The costs of reshards to an operand, without those shared with another operand."""
        same = ways.tensors[index] == ways.tensors[other]
        name = "once", table, ways.key, index, other
        return self.tables.number(name, lambda: np.where(same[None, :], 0.0, self.tables[table]))

    def _leave(self, value: int, number: int, op: Op, times: float) -> None:
        """Charge the reshard of a result from the produced placement to that of the value."""
        variable, ways, type_ = self.op_variable[op.index], self.class_of[op.index], self.types[value]
        if self.places.may_change(value) and self._variable(value) == variable:
            return
        made, domain = ways.tensors[number], self.domains.of(value)
        name = "made", type_, ways.key, number, domain.key
        moves = self.tables.number(name, lambda: self.prices.moves(type_, domain.table, made, domain.numbers))
        self._connect(value, variable, self.tables.times(self.tables.turned(moves), times * self._moved(value)))

    def _connect(self, value: int, variable: int, table: int) -> None:
        """Add a cost for pairs of a value (rows) and a variable; for a fixed value, for the variable alone."""
        if self.places.may_change(value):
            self.problem.join(self._variable(value), variable, table)
        else:
            self.problem.add(variable, self.tables.row(table, 0))

    # ---- reshards ----

    def _moves(self, type_: TensorType, domain: Domain, copies: tuple[Copy, ...], targets: _TargetDomain) -> int:
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
        """The source of a value's reshards and the copies that constraints have made, before a place or at all."""
        places, root = self.places, self.places.constrained(value)
        if places.is_free[root]:
            return ReshardSource(value, ())
        optional = {each: bit for bit, each in enumerate(places.optional.get(places.carried[root], ()))}
        is_fixed = not places.may_change(root)
        found, pending = [], [root]
        while pending:
            for again in places.again.get(pending.pop(), ()):
                if places.may_change(again) or (again != value and not places.are_together(again, root)):
                    continue
                pending.append(again)
                is_made = before is None or places.same[again].order < before
                # The common placement of a fixed value is a variable anyway, and may be that of a constraint.
                if is_made and not (is_fixed and again in optional):
                    found.append(Copy(self.domains.of(again), optional.get(again)))
        return ReshardSource(root, tuple(found))

    def _is_shared(self, value: int) -> bool:
        """Whether a fixed value, or the result of its constraints, has several consumers."""
        users, pending = set[int](), [value]
        while pending:
            each = pending.pop()
            users.update(use.order for use in self.places.uses[each] if use.order not in self.optional_orders)
            pending += self.places.again.get(each, ())
        return len(users) > 1

    def is_taken(self, value: int, number: int, states: list[int]) -> bool:
        """Whether a solution uses an optional constraint of a value, given by number."""
        value = self.places.carried[value]
        if value in self.variable_of:
            return bool(self.domains.of(value).is_taken(number)[states[self.variable_of[value]]])
        constraint, table = self.places.optional[value][number], self.domains.table(value)
        target = table.number(self.places.sharding[constraint])
        copy = self.copy(value, states)
        at_hand = [self.domains.now(value), *(() if copy is None else (copy,))]
        if at_hand[-1] == target:
            return True
        moves = self.prices.moves(self.types[value], table, np.array(at_hand), np.array([target]))
        return bool(moves[0] == moves.min()) and self._is_run_with(constraint, target, states)

    def copy(self, value: int, states: list[int]) -> int | None:
        """The placement to which a fixed value is resharded for several consumers; None if there is none."""
        if value not in self._copies or not states[self._copies[value]]:  # the first state is for none
            return None
        return int(self.domains.copies(value).numbers[states[self._copies[value]] - 1])

    def _is_run_with(self, value: int, placement: int, states: list[int]) -> bool:
        """Whether a solution has a consumer of the value with this placement of it."""
        for op in (use.op for use in self.places.uses[value] if use.op is not None):
            ways, state = self.class_of[op.index], states[self.op_variable[op.index]]
            tensors = zip(op.operands, ways.tensors, strict=False)
            if any(operand == value and numbers[state] == placement for operand, numbers in tensors):
                return True
        return False

    def _take_copy(
        self, value: int, table: int, targets: _TargetDomain, variable: int | None, times: float, count: int
    ) -> None:  # fmt: skip
        """Bring a fixed value to what is needed, in each state of a variable or at all, from what it was moved to for
        several places, or from itself.
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
            targets = _TargetDomain(("copy", domain.key), domain.numbers)
            moves = self._moves(self.types[value], own, (), targets)
            if count > 1:
                moves = self._before_loop(moves, value, targets, count)
            row = self.tables.number(
                ("copied", moves), lambda: np.concatenate([[0.0], self.tables[moves][0] + self.objective.surprise_s])
            )
            self.problem.add(found, self.tables.times(row, times))
        return found

    # ---- needs besides operations ----

    def _add_need(self, use: Consumer) -> None:
        """Charge the reshard of a value to a need that is not an operation: a placement, or that of another value."""
        places, tables, source = self.places, self.tables, self.source(use.value, use.order)
        root, other = source.value, places.carried[use.like] if use.need is None else -1
        if use.need is not None:
            target = self.domains.table(use.value).number(use.need)
            targets = _TargetDomain(("need", target), np.array([target]))
        elif use.like == use.value or places.carried[root] == other:
            return
        else:
            goal = self.domains.of(other)
            targets = _TargetDomain(("like", goal.key), goal.numbers)
        moves = self._moves(self.types[use.value], self.domains.of(root), source.copies, targets)
        times = use.times * use.copies * self._moved(use.value)
        table = tables.times(moves, times)
        wanted = self._variable(other) if other >= 0 and places.may_change(other) else None
        have = self._variable(root) if places.may_change(root) else None
        if have is None and self._is_shared(root):
            self._take_copy(root, moves, targets, wanted, times, 1)
        elif have is not None and wanted is not None:
            self.problem.join(have, wanted, table)
        elif have is not None:
            self.problem.add(have, tables.column(table, 0))
        elif wanted is not None:
            self.problem.add(wanted, tables.row(table, 0))
        else:
            self.problem.constant += float(tables[table][0, 0])

    def _add_ends(self) -> None:
        """Charge the reshard of a result to the argument that it becomes in the next step."""
        for value in self.places.free_ends:
            if self.places.may_change(value):
                table = self._moves(self.types[value], self.domains.of(value), (), self._ends_of(value))
                self.problem.add(self._variable(value), self.tables.least_of_rows(table))

    def _ends_of(self, value: int) -> _TargetDomain:
        """The target shardings of a free result: those of arguments of its type if there are any, else all that are
        finished and evenly split.
        """
        domain, shape = self.domains.of(value), self.types[value].shape
        like = self.places.ends_like(value) if self.objective.next_step else []
        found = sorted({domain.table.number(each) for each in like if each.divides(shape)})
        if not found:
            found = sorted({*domain.numbers[self._is_end(domain, shape)].tolist(), *self._evenly(domain, shape)})
        numbers = np.array(found, np.int64)
        return _TargetDomain(("ends", numbers.tobytes()), numbers)

    def _is_end(self, domain: Domain, shape: tuple[int, ...]) -> Bools:
        """The states in which a result of the program may be returned."""
        found: Bools = (domain.table.partial[domain.numbers] == 0) & domain.table.is_even(shape, domain.numbers)
        return found

    def _evenly(self, domain: Domain, shape: tuple[int, ...]) -> list[int]:
        """The even parts of the uneven states of a domain."""
        uneven = domain.numbers[~domain.table.is_even(shape, domain.numbers)]
        found = [domain.table.sharding(int(number)).evenly(shape) for number in uneven]
        return [domain.table.number(each) for each in found if all(map(self.parts.has, each.dim_axes()))]

    def end(self, value: int, state: int) -> int:
        """The placement of a result without an annotation for this state of its value: not partial, and even.

        Where propagation has it as an argument of its type lies, and that is a part of what a device has, it is that.
        """
        domain = self.domains.of(value)
        number, targets = int(domain.numbers[state]), self._ends_of(value).numbers
        before, is_like = self._given[value], bool(self.places.ends_like(value))
        if is_like and domain.table.number(before) in targets and _is_part(before, domain.table.sharding(number)):
            return domain.table.number(before)
        if self._is_end(domain, self.types[value].shape)[state]:
            return number
        costs = self.prices.moves(self.types[value], domain.table, np.array([number]), targets)
        return int(targets[costs[0].argmin()])


def _is_part(sharding: TensorSharding, of: TensorSharding) -> bool:
    """Whether a device's shard is contained in its shard under another sharding."""
    pairs = zip(sharding.dim_axes(), of.dim_axes(), strict=True)
    return not of.unreduced and all(starts_with(axes, held) for axes, held in pairs)


def _alike_in_layers(places: ValueTable) -> dict[int, Hashable]:
    """The positions of values in their repeated layers; values at equal positions are decided alike."""
    program = places.program
    arguments, found = set(program.body.arguments), dict[int, Hashable]()
    for value, (_, what) in places.in_layers.items():
        found[value] = what
        for index, operand in enumerate(program.ops[program.value_def[value]].operands):
            if operand in arguments:
                found.setdefault(operand, ("argument", what, index))
    return found

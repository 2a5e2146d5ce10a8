"""The cost of an operation with other strategies: if the rest of the decision stays the same, or follows."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.objective import BYTES_ALONE
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import solve
from gspmd.transforms.ir.program import Op
from gspmd.transforms.paths.placements import Floats, Ints

MAX_ALTERNATIVES = 32
"""The number of candidates listed for an operation. There may be hundreds; the cheapest are listed."""


class Strategy(NamedTuple):
    """A strategy: the shardings of operands and results, the bytes that a device sends for it, and its cost.

    `time_s` is the cost under the objective, including arithmetic and memory traffic. Of a strategy that would be
    cheaper alone than the chosen one, it is what the whole program costs more, after another decision for the rest.
    """

    shardings: tuple[TensorSharding, ...]
    bytes: float
    time_s: float
    is_chosen: bool


class Alternatives:
    """The candidates for the operations of a solved problem."""

    def __init__(self, problem: ProblemBuilder, states: list[int]) -> None:
        self._problem, self._states, self._cost_s = problem, states, problem.problem.cost(states)
        self._bytes = PriceBook(problem.parts, BYTES_ALONE.hardware, problem.prices)

    def of(self, op: Op) -> list[Strategy]:
        """The candidates, the cheapest first. A reshard for another operation costs nothing here."""
        problem = self._problem
        strategies, times = problem.class_of[op.index], problem.values.consumers[op.index].times
        chosen = self._states[problem.op_variable[op.index]]
        cost_s = strategies.cost_s + self._moves(op, problem.prices)
        listed = [
            int(n) for n in np.argsort(cost_s, kind="stable") if cost_s[n] < problem.prices.never_s or n == chosen
        ]
        shown = [n for position, n in enumerate(listed) if position < MAX_ALTERNATIVES or n == chosen]
        sent = self._moves(op, self._bytes)
        found = []
        for n in shown:
            shardings, time_s = problem.shardings_of(op, n), times * cost_s[n]
            if cost_s[n] < cost_s[chosen]:
                time_s = times * cost_s[chosen] + self._more_s(op, n)
            found.append(Strategy(shardings, times * (sent[n] + self._inside(op, shardings)), time_s, n == chosen))
        return sorted(found, key=lambda strategy: strategy.time_s)

    def _more_s(self, op: Op, state: int) -> float:
        """What the program costs more with this strategy, if all else is decided again."""
        problem, variable = self._problem.problem, self._problem.op_variable[op.index]
        forced = dataclasses.replace(problem, unary=list(problem.unary))
        others = np.arange(problem.sizes[variable]) != state
        forced.add(variable, problem.tables.new(np.where(others, self._problem.prices.never_s, 0.0)))
        return solve(forced).cost - self._cost_s

    def _moves(self, op: Op, prices: PriceBook) -> Floats:
        """The costs of the reshards of operands and results, by candidate. A value is resharded to a sharding once."""
        problem, values = self._problem, self._problem.values
        strategies, total, runs = problem.class_of[op.index], np.zeros(1), values.runs[op.index]
        for index, value in enumerate(op.operands):
            if not values.is_splittable[value] and value not in op.operands[:index]:
                needed = strategies.tensors[index]
                moved = prices.moves(problem.types[value], needed.table, self._at_hand(op, value), needed.numbers)
                total = total + moved.min(axis=0) / (runs[index] if runs else 1)
        for index, value in enumerate(op.results, len(op.operands)):
            now, made = np.array([problem.domains.now(value)]), strategies.tensors[index]
            total = total + prices.moves(problem.types[value], made.table, made.numbers, now)[:, 0]
        return total

    def _at_hand(self, op: Op, value: int) -> Ints:
        """The placement of a value, and the placements to which it is resharded for other operations."""
        problem = self._problem
        source = problem.source(value)
        found = {problem.domains.now(source.value)}
        for copy in source.copies:
            if copy.optional is None or problem.is_taken(source.value, copy.optional, self._states):
                found.update(copy.domain.numbers.tolist())
        for use in problem.values.uses[source.value]:
            if use.op is not None and use.op.index != op.index:
                strategies, state = problem.class_of[use.op.index], self._states[problem.op_variable[use.op.index]]
                found.add(int(strategies.tensors[use.op.operands.index(source.value)].numbers[state]))
            elif use.need is not None and use.order not in problem.optional_orders:
                found.add(problem.domains.table(value).number(use.need))
        return np.array(sorted(found))

    def _inside(self, op: Op, shardings: tuple[TensorSharding, ...]) -> float:
        count, values = len(op.operands), self._problem.values
        form = self._problem.work.local_form(values.rule(op), op.info, shardings[:count], shardings[count:])
        return sum(each.bytes for each in form or ())

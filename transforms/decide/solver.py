"""Minimize a sum of unary and pairwise costs, with a lower bound.

Variables with at most two neighbors are eliminated exactly. For the rest, messages between neighbors raise a lower
bound, and solutions are read from them: sequential tree-reweighted message passing (Kolmogorov, Convergent
Tree-Reweighted Message Passing for Energy Minimization, 2006). Variables are processed in program order. Messages drift
in one direction for many rounds, so rounds start from extrapolated messages: with Nesterov's momentum, which is lost
when the bound falls (O'Donoghue and Candes, Adaptive Restart for Accelerated Gradient Schemes, 2015). The best
combination of the solutions read is found exactly: most variables have one state in all of them, and the others few.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gspmd.transforms.decide.tables import Tables
from gspmd.transforms.paths.placements import Bools, Floats, Ints

GAP = 1e-3
"""The relative gap at which the search stops."""

FIRST_READ = 3
"""The rounds of messages before the first solution is read; each next one is read after twice as many rounds."""

MAX_AVERAGE_STATES = 2.0
"""The average number of states per variable for which the best solution is found exactly without taking longer."""

MAX_STATES = 1 << 14
"""The largest number of states of two variables that are merged, which bounds the size of tables."""


@dataclasses.dataclass(slots=True)
class Problem:
    """Variables with their numbers of states, and costs: of states, of pairs (a, b) with a < b, and a constant."""

    tables: Tables
    sizes: list[int] = dataclasses.field(default_factory=list)
    unary: list[int | None] = dataclasses.field(default_factory=list)
    edges: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    constant: float = 0.0

    def variable(self, size: int) -> int:
        """Add a variable."""
        self.sizes.append(size)
        self.unary.append(None)
        return len(self.sizes) - 1

    def add(self, variable: int, table: int) -> None:
        """Add a cost to states."""
        self.unary[variable] = self.tables.plus(self.unary[variable], table)

    def join(self, a: int, b: int, table: int) -> None:
        """Add a cost to pairs of states: rows are those of `a`."""
        if a == b:
            self.add(a, self.tables.diagonal(table))
            return
        if a > b:
            a, b, table = b, a, self.tables.transposed(table)
        known = self.edges.get((a, b))
        self.edges[a, b] = table if known is None else self.tables.plus(known, table)

    def cost(self, states: Sequence[int]) -> float:
        """The cost of a solution."""
        total = self.constant + sum(self.tables[u][states[v]] for v, u in enumerate(self.unary) if u is not None)
        return float(total + sum(self.tables[t][states[a], states[b]] for (a, b), t in self.edges.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class Solution:
    """A state for each variable, the cost of these states, and a lower bound of the cost of any solution."""

    states: list[int]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """An upper bound of the relative distance from the optimum."""
        return (self.cost - self.bound) / self.bound if self.bound > 0 else 0.0


def solve(problem: Problem, passes: int = 100, patience: int = 100) -> Solution:
    """The best solution found within `passes` rounds of messages, and its bound.

    Stops early after `patience` reads in a row without a better solution; the bound may need more rounds than that.
    """
    rest = _Elimination(problem)
    rest.eliminate()
    core = rest.remaining()
    if not core:
        return rest.solution({}, 0.0, 0.0)
    return rest.solution(*_Messages(rest, core).run(passes, patience, rest.constant))


class _Elimination:
    """A problem whose variables are eliminated one after the other, with their costs moved to their neighbors."""

    def __init__(self, problem: Problem) -> None:
        self.tables, self.sizes = problem.tables, list(problem.sizes)
        self.unary = list(problem.unary)
        # By neighbor: the table, with the variable's own states as rows.
        self.neighbors: list[dict[int, int]] = [{} for _ in problem.sizes]
        for (a, b), table in problem.edges.items():
            self.neighbors[a][b] = table
            self.neighbors[b][a] = -1 - table  # transposed on demand
        self.constant = problem.constant
        self._eliminated = bytearray(len(self.sizes))
        # Eliminated variables: the neighbors and the table of choices; or the two variables that were merged.
        self._done: list[tuple[int, tuple[int, ...], int]] = []

    def table(self, a: int, b: int) -> int:
        """The pair costs of two neighbors; rows are states of the first."""
        found = self.neighbors[a][b]
        if found < 0:
            found = self.neighbors[a][b] = self.tables.transposed(-1 - found)
        return found

    def remaining(self) -> list[int]:
        """The remaining variables."""
        return [v for v in range(len(self.sizes)) if not self._eliminated[v]]

    def eliminate(self, exactly: bool = False) -> None:
        """Eliminate all variables with at most two neighbors; with `exactly`, all variables while tables stay small."""
        self._fold_single_states()
        queue = [(len(near), v) for v, near in enumerate(self.neighbors)]
        heapq.heapify(queue)
        while queue:
            degree, v = heapq.heappop(queue)
            near = self.neighbors[v]
            if self._eliminated[v] or degree != len(near):
                continue
            if degree > 2:
                if not exactly:
                    return
                if not self._merge_to_two(v, queue):
                    return
            if exactly and math.prod(self.sizes[u] for u in near) > MAX_STATES:
                return
            self._eliminated[v] = 1
            for u in self._eliminate(v):
                heapq.heappush(queue, (len(self.neighbors[u]), u))

    def _fold_single_states(self) -> None:
        """Move the costs of a variable with one state to its neighbors."""
        for v, size in enumerate(self.sizes):
            if size == 1 and len(self.neighbors[v]) > 2:
                for u in list(self.neighbors[v]):
                    table = self.table(u, v)
                    row = self.tables.column(table, 0)
                    self.unary[u] = self.tables.plus(self.unary[u], row)
                    del self.neighbors[u][v], self.neighbors[v][u]

    def _merge_to_two(self, v: int, queue: list[tuple[int, int]]) -> bool:
        """Merge neighbors of a variable until two are left; returns whether these have few enough states."""
        while len(self.neighbors[v]) > 2:
            a, b = sorted(self.neighbors[v], key=lambda u: self.sizes[u])[:2]
            if self.sizes[a] * self.sizes[b] > MAX_STATES:
                return False
            joint = self._merge(a, b)
            heapq.heappush(queue, (len(self.neighbors[joint]), joint))
            for u in self.neighbors[joint]:
                heapq.heappush(queue, (len(self.neighbors[u]), u))
        return True

    def _merge(self, a: int, b: int) -> int:
        """Merge two variables into one with a state for each pair."""
        tables, sizes = self.tables, (self.sizes[a], self.sizes[b])
        costs = np.zeros(sizes) if b not in self.neighbors[a] else tables[self.table(a, b)]
        for v, shape in ((a, (-1, 1)), (b, (1, -1))):
            unary = self.unary[v]
            if unary is not None:
                costs = costs + tables[unary].reshape(shape)
        joint = len(self.sizes)
        self.sizes.append(sizes[0] * sizes[1])
        self.unary.append(tables.new(costs.ravel()))
        self.neighbors.append({})
        self._eliminated.append(0)
        for u in (self.neighbors[a].keys() | self.neighbors[b].keys()) - {a, b}:
            both = np.zeros((*sizes, self.sizes[u]))
            if u in self.neighbors[a]:
                both += tables[self.table(a, u)][:, None, :]
            if u in self.neighbors[b]:
                both += tables[self.table(b, u)][None, :, :]
            table = tables.new(both.reshape(-1, self.sizes[u]))
            self.neighbors[joint][u] = table
            self.neighbors[u][joint] = -1 - table
            for v in (a, b):
                self.neighbors[u].pop(v, None)
        self._eliminated[a] = self._eliminated[b] = 1
        self._done.append((joint, (a, b), -1))
        return joint

    def _eliminate(self, v: int) -> tuple[int, ...]:
        near, unary = tuple(self.neighbors[v]), self.unary[v]
        if not near:
            costs = np.zeros(1) if unary is None else self.tables[unary]
            best = int(costs.argmin())
            self.constant += float(costs[best])
            self._done.append((v, (), best))
            return ()
        if len(near) == 1:
            (u,) = near
            table, choice = self.tables.min_plus_vector(unary, self.table(u, v))
            self.unary[u] = self.tables.plus(self.unary[u], table)
            del self.neighbors[u][v]
        else:
            a, b = near
            table, choice = self.tables.min_plus_product(self.table(a, v), unary, self.table(v, b))
            del self.neighbors[a][v], self.neighbors[b][v]
            if b in self.neighbors[a]:
                table = self.tables.plus(self.table(a, b), table)
            self.neighbors[a][b] = table
            self.neighbors[b][a] = -1 - table
        self._done.append((v, near, choice))
        return near

    def solution(self, states: dict[int, int], cost: float, bound: float) -> Solution:
        """The solution for all variables, from the states of the remaining ones, their cost and its lower bound."""
        states = dict(states)
        for v, near, choice in reversed(self._done):
            if choice == -1:
                states[near[0]], states[near[1]] = divmod(states[v], self.sizes[near[1]])
            elif not near:
                states[v] = choice
            else:
                states[v] = int(self.tables.choices[choice][tuple(states[u] for u in near)])
        cost, bound = cost + self.constant, bound + self.constant
        return Solution([states[v] for v in range(len(self.sizes))], cost, min(bound, cost))


class _Edge(NamedTuple):
    """Two neighbors, an earlier and a later variable, and the rows with the messages to each of them.

    Each table has the states of the variable that sends as rows.
    """

    a: int
    b: int
    row_a: int
    row_b: int
    from_a: Floats
    from_b: Floats


class _Messages:
    """Message passing among the remaining variables.

    `rows[n]` are the costs of a variable's states and, one row each, the messages from its neighbors. `kept[n]` are the
    numbers of these states: those that the bound excludes from any better solution are removed.
    """

    def __init__(self, rest: _Elimination, core: list[int]) -> None:
        number = {v: n for n, v in enumerate(core)}
        tables, self.core, self._tables = rest.tables, core, rest.tables
        self.kept: list[Ints] = [np.arange(rest.sizes[v]) for v in core]
        rows = [np.zeros((len(rest.neighbors[v]) + 1, rest.sizes[v])) for v in core]
        used, edges = [1] * len(core), list[_Edge]()
        for a, v in enumerate(core):
            if (unary := rest.unary[v]) is not None:
                rows[a][0] = tables[unary]
            for w in rest.neighbors[v]:
                b = number[w]
                if a < b:
                    edges.append(_Edge(a, b, used[a], used[b], tables[rest.table(v, w)], tables[rest.table(w, v)]))
                    used[a], used[b] = used[a] + 1, used[b] + 1
        self._costs: list[Floats] = []  # of each state in the last backward pass, from the last variable to the first
        self._few = MAX_AVERAGE_STATES  # the average number of states that variables may keep
        self._link(edges, rows, rows)
        self.weight = [1.0 / max(len(b), len(a), 1) for b, a in zip(self.before, self.after, strict=True)]

    def _link(self, edges: list[_Edge], rows: list[Floats], earlier: list[Floats]) -> None:
        """Store rows, and those after the previous round, contiguously."""
        self._edges = edges
        self._every_row, self.rows = _stored(rows)
        self._earlier, self._earlier_rows = _stored(earlier)
        # By variable, for earlier and later neighbors: the neighbor, the costs of pairs with the neighbor's states as
        # rows, the row with the messages from the neighbor, and the row with the messages to it.
        self.before: list[list[tuple[int, Floats, Floats, Floats]]] = [[] for _ in rows]
        self.after: list[list[tuple[int, Floats, Floats, Floats]]] = [[] for _ in rows]
        for edge in edges:
            to_a, to_b = self.rows[edge.a][edge.row_a], self.rows[edge.b][edge.row_b]
            self.after[edge.a].append((edge.b, edge.from_b, to_a, to_b))
            self.before[edge.b].append((edge.a, edge.from_a, to_b, to_a))

    def run(self, passes: int, patience: int, constant: float) -> tuple[dict[int, int], float, float]:
        """The best solution of the core, its cost and lower bound; `constant` is the cost of the rest."""
        best, least, next_read, in_vain, momentum = self._read(forward=True), math.inf, FIRST_READ, 0, 0
        bound, now, is_near = -math.inf, -math.inf, False
        for number in range(1, passes + 1):
            # Tight messages may show a better solution.
            is_read = is_near or number == min(next_read, passes)
            # Costs above the bound are known only after a round without extrapolation.
            self._extrapolate(0 if is_read else momentum)
            self._forward()
            found = [best, self._read(forward=False)] if is_read else []
            before, now = now, self._backward()
            momentum, bound = 0 if now < before else momentum + 1, max(bound, now)
            if is_read:
                next_read, beyond = 2 * number, self._beyond()
                found_before = least
                best, least, width = self._best_of_few([*found, self._read(forward=True)], beyond)
                bound = max(bound, min(least, before + width))
                in_vain = 0 if least < found_before else in_vain + 1
            is_near = least <= bound + GAP * (bound + constant)
            if is_read:
                if is_near or in_vain == patience:
                    break
                best = self._exclude(beyond, least - before, best)
        return {v: int(kept[state]) for v, kept, state in zip(self.core, self.kept, best, strict=True)}, least, bound

    def _exclude(self, beyond: list[Floats], most: float, best: list[int]) -> list[int]:
        """Remove the states that cost more than `most` above the bound; returns the solution with the new numbers."""
        kept = [_marked(costs <= most, state) for costs, state in zip(beyond, best, strict=True)]
        self.kept = [numbers[states] for numbers, states in zip(self.kept, kept, strict=True)]
        of_kept, tables = [states.tobytes() for states in kept], dict[tuple[int, bytes, bytes], Floats]()

        def left(table: Floats, a: int, b: int) -> Floats:
            """The costs of the states that are left; alike edges share them."""
            key = id(table), of_kept[a], of_kept[b]
            if key not in tables:
                tables[key] = table.take(kept[a], axis=0).take(kept[b], axis=1)
            return tables[key]

        edges = [e._replace(from_a=left(e.from_a, e.a, e.b), from_b=left(e.from_b, e.b, e.a)) for e in self._edges]
        rows, earlier = (
            [each.take(states, axis=1) for each, states in zip(all_, kept, strict=True)]
            for all_ in (self.rows, self._earlier_rows)
        )
        self._link(edges, rows, earlier)
        return [int(np.searchsorted(states, state)) for states, state in zip(kept, best, strict=True)]

    def _extrapolate(self, momentum: int) -> None:
        """Move messages on in the direction of the previous round, after so many rounds with a rising bound."""
        drift = self._every_row - self._earlier
        np.copyto(self._earlier, self._every_row)
        if momentum > 1:
            self._every_row += (momentum - 1) / (momentum + 2) * drift

    def _forward(self) -> None:
        reduce = np.minimum.reduce
        add = np.add.reduce
        for rows, after, weight in zip(self.rows, self.after, self.weight, strict=True):
            if after:
                share = add(rows, 0)
                share *= weight
                for _, table, here, there in after:
                    reduce(table + (share - here), axis=1, out=there)

    def _backward(self) -> float:
        """The backward pass; returns the lower bound: the cost of each chain of variables at its first one."""
        bound = 0.0
        reduce, add = np.minimum.reduce, np.add.reduce
        self._costs.clear()
        for rows, before, weight in zip(reversed(self.rows), reversed(self.before), reversed(self.weight), strict=True):
            costs = add(rows, 0)
            self._costs.append(costs)
            begin = 1.0 - weight * len(before)  # the share of chains that begin here
            if begin:
                bound += begin * float(reduce(costs))
            share = costs * weight
            for _, table, here, there in before:
                reduce(table + (share - here), axis=1, out=there)
        return bound

    def _read(self, forward: bool) -> list[int]:
        """Read a solution: each state is the best for the neighbors already read and the messages of the others.

        Forward after a backward pass, or backward after a forward pass.
        """
        states = [0] * len(self.rows)
        order = range(len(self.rows)) if forward else reversed(range(len(self.rows)))
        read, unread = (self.before, self.after) if forward else (self.after, self.before)
        for n in order:
            costs = self.rows[n][0]
            for u, table, _, _ in read[n]:
                costs = costs + table[states[u]]
            for _, _, here, _ in unread[n]:
                costs = costs + here
            states[n] = int(costs.argmin())
        return states

    def _beyond(self) -> list[Floats]:
        """By variable, the cost of each state above the bound before the last backward pass.

        These costs may be overestimates above the bound after it.
        """
        return [costs - costs.min() for costs in reversed(self._costs)]

    def _best_of_few(self, solutions: list[list[int]], beyond: list[Floats]) -> tuple[list[int], float, float]:
        """The best combination of the states of some solutions and the states with the least cost above the bound.

        Also its cost, and the cost above the bound up to which all solutions were compared.
        """
        listed = np.sort(np.concatenate(beyond))
        while True:
            width = float(listed[min(int(self._few * len(beyond)), len(listed) - 1)]) if self._few > 1 else 0.0
            read = np.array(solutions).T
            kept = [_marked(costs < width, states) for costs, states in zip(beyond, read, strict=True)]
            found = self._best_of(kept)
            if found is not None:
                self._few = min(2 * self._few, MAX_AVERAGE_STATES)
                return found, self._cost(found), width
            if self._few <= 1:  # then with fewer solutions
                if len(solutions) == 1:
                    return solutions[0], self._cost(solutions[0]), 0.0
                solutions = sorted(solutions, key=self._cost)[:-1]
            self._few /= 2

    def _best_of(self, kept: list[Ints]) -> list[int] | None:
        """The best solution with these states; None if that takes too long."""
        smaller = Problem(self._tables)
        made = self._tables.new
        values = [smaller.variable(len(states)) for states in kept]
        for n, after in enumerate(self.after):
            smaller.add(n, made(self.rows[n][0][kept[n]]))
            for u, table, _, _ in after:
                smaller.join(n, u, made(table[kept[u][:, None], kept[n]].T))
        rest = _Elimination(smaller)
        rest.eliminate(exactly=True)
        if rest.remaining():
            return None
        found = rest.solution({}, 0.0, 0.0)
        return [int(kept[n][found.states[n]]) for n in values]

    def _cost(self, states: list[int]) -> float:
        total = 0.0
        for n, rows in enumerate(self.rows):
            total += rows[0][states[n]] + sum(table[states[u], states[n]] for u, table, _, _ in self.after[n])
        return float(total)


def _marked(marks: Bools, more: int | Ints) -> Ints:
    """The numbers of all marks, after these are marked, too."""
    marks[more] = True
    return np.flatnonzero(marks)


def _stored(rows: list[Floats]) -> tuple[Floats, list[Floats]]:
    """All rows as one contiguous array, and as views of it."""
    every = np.concatenate([each.ravel() for each in rows])
    parts = np.split(every, np.cumsum([each.size for each in rows])[:-1])
    return every, [part.reshape(each.shape) for part, each in zip(parts, rows, strict=True)]

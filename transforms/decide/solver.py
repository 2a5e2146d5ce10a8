"""The least of a sum of costs of variables and of pairs of these, with a proven bound.

What has at most two neighbours is eliminated, exactly. For what is left, messages between neighbours make a lower
bound as large as they can, and solutions are read off them: sequential tree-reweighted message passing (Kolmogorov,
Convergent Tree-Reweighted Message Passing for Energy Minimization, 2006). Variables are taken in the order of the
program. The best mixture of the solutions that were read is found exactly: most variables are alike in all of them, and
the others have few states.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence

import numpy as np

from gspmd.transforms.decide.tables import Tables
from gspmd.transforms.paths.placements import Floats, Ints

GAP = 1e-3
"""How far from the bound a solution may be, as a part of it, to be taken without looking further."""

EVERY = 3
"""After how many passes a solution is read, at first, and later after half as many as there were: reading takes time
that messages could have."""

FEW = 2.0
"""How many states a variable keeps, on average, where the best of few is found exactly: as many as take no longer."""

FEWER = 0.5
"""What part of the states is left at most before the others are taken out, which takes about as long as a pass."""

MOST_STATES = 1 << 14
"""How many states two variables may have that are made one, which bounds what their tables hold."""


@dataclasses.dataclass(slots=True)
class Problem:
    """Variables with so many states each; costs of states, of pairs (the first number less than the second), of all."""

    tables: Tables
    sizes: list[int] = dataclasses.field(default_factory=list)
    unary: list[int | None] = dataclasses.field(default_factory=list)
    edges: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    constant: float = 0.0

    def variable(self, size: int) -> int:
        """A new one."""
        self.sizes.append(size)
        self.unary.append(None)
        return len(self.sizes) - 1

    def add(self, variable: int, table: int) -> None:
        """Let states cost this besides."""
        self.unary[variable] = self.tables.plus(self.unary[variable], table)

    def join(self, a: int, b: int, table: int) -> None:
        """Let pairs of states cost this besides: rows are those of `a`."""
        if a == b:
            self.add(a, self.tables.diagonal(table))
            return
        if a > b:
            a, b, table = b, a, self.tables.turned(table)
        known = self.edges.get((a, b))
        self.edges[a, b] = table if known is None else self.tables.plus(known, table)

    def cost(self, states: Sequence[int]) -> float:
        """What a solution costs."""
        total = self.constant + sum(self.tables[u][states[v]] for v, u in enumerate(self.unary) if u is not None)
        return float(total + sum(self.tables[t][states[a], states[b]] for (a, b), t in self.edges.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class Solution:
    """A state for each variable, what they cost, and what any solution costs at least."""

    states: list[int]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How much less the best may cost, as a part of the bound."""
        return (self.cost - self.bound) / self.bound if self.bound > 0 else 0.0


def solve(problem: Problem, passes: int = 100, patience: int = 3) -> Solution:
    """The best solution that is found while messages are passed so often, and until no better one was read so often."""
    rest = _Elimination(problem)
    rest.eliminate()
    core = rest.left()
    if not core:
        return rest.solution({}, 0.0, 0.0)
    messages = _Messages(rest, core)
    states, cost, bound, left = messages.run(passes, patience, rest.constant)
    if left > 0:
        smaller, kept = messages.without_dear_states(rest.constant)
        inner = solve(smaller, left, patience)
        bound = max(bound, min(cost, inner.bound - rest.constant))
        if inner.cost - rest.constant < cost:
            states = [int(each[state]) for each, state in zip(kept, inner.states, strict=True)]
            cost = inner.cost - rest.constant
    return rest.solution(dict(zip(core, states, strict=True)), cost, bound)


class _Elimination:
    """A problem of which variables are taken out one after the other, such that the others know what that costs."""

    def __init__(self, problem: Problem) -> None:
        self.tables, self.sizes = problem.tables, list(problem.sizes)
        self.unary = list(problem.unary)
        self.neighbours: list[dict[int, int]] = [{} for _ in problem.sizes]  # by neighbour: the table, own rows first
        for (a, b), table in problem.edges.items():
            self.neighbours[a][b] = table
            self.neighbours[b][a] = -1 - table  # turned when it is needed
        self.constant = problem.constant
        self._gone = bytearray(len(self.sizes))
        # What was taken out: its neighbours and the number of its choices; or the two that became one variable.
        self._done: list[tuple[int, tuple[int, ...], int]] = []

    def table(self, a: int, b: int) -> int:
        """The costs of pairs of two neighbours; rows are those of the first."""
        found = self.neighbours[a][b]
        if found < 0:
            found = self.neighbours[a][b] = self.tables.turned(-1 - found)
        return found

    def left(self) -> list[int]:
        """What is still there."""
        return [v for v in range(len(self.sizes)) if not self._gone[v]]

    def eliminate(self, exactly: bool = False) -> None:
        """Take out all that has at most two neighbours; or everything, as far as tables stay small."""
        self._settle()
        queue = [(len(near), v) for v, near in enumerate(self.neighbours)]
        heapq.heapify(queue)
        while queue:
            degree, v = heapq.heappop(queue)
            near = self.neighbours[v]
            if self._gone[v] or degree != len(near):
                continue
            if degree > 2:
                if not exactly:
                    return
                if not self._make_two(v, queue):
                    return
            if exactly and math.prod(self.sizes[u] for u in near) > MOST_STATES:
                return
            self._gone[v] = 1
            for u in self._eliminate(v):
                heapq.heappush(queue, (len(self.neighbours[u]), u))

    def _settle(self) -> None:
        """Let neighbours pay for what has no choice."""
        for v, size in enumerate(self.sizes):
            if size == 1 and len(self.neighbours[v]) > 2:
                for u in list(self.neighbours[v]):
                    table = self.table(u, v)
                    row = self.tables.column(table, 0)
                    self.unary[u] = self.tables.plus(self.unary[u], row)
                    del self.neighbours[u][v], self.neighbours[v][u]

    def _make_two(self, v: int, queue: list[tuple[int, int]]) -> bool:
        """Make neighbours of a variable one until there are two; returns whether these have few enough states."""
        while len(self.neighbours[v]) > 2:
            a, b = sorted(self.neighbours[v], key=lambda u: self.sizes[u])[:2]
            if self.sizes[a] * self.sizes[b] > MOST_STATES:
                return False
            joint = self._merge(a, b)
            heapq.heappush(queue, (len(self.neighbours[joint]), joint))
            for u in self.neighbours[joint]:
                heapq.heappush(queue, (len(self.neighbours[u]), u))
        return True

    def _merge(self, a: int, b: int) -> int:
        """Make one variable of two, with a state for each pair."""
        tables, sizes = self.tables, (self.sizes[a], self.sizes[b])
        costs = np.zeros(sizes) if b not in self.neighbours[a] else tables[self.table(a, b)]
        for v, shape in ((a, (-1, 1)), (b, (1, -1))):
            unary = self.unary[v]
            if unary is not None:
                costs = costs + tables[unary].reshape(shape)
        joint = len(self.sizes)
        self.sizes.append(sizes[0] * sizes[1])
        self.unary.append(tables.made(costs.ravel()))
        self.neighbours.append({})
        self._gone.append(0)
        for u in (self.neighbours[a].keys() | self.neighbours[b].keys()) - {a, b}:
            both = np.zeros((*sizes, self.sizes[u]))
            if u in self.neighbours[a]:
                both += tables[self.table(a, u)][:, None, :]
            if u in self.neighbours[b]:
                both += tables[self.table(b, u)][None, :, :]
            table = tables.made(both.reshape(-1, self.sizes[u]))
            self.neighbours[joint][u] = table
            self.neighbours[u][joint] = -1 - table
            for v in (a, b):
                self.neighbours[u].pop(v, None)
        self._gone[a] = self._gone[b] = 1
        self._done.append((joint, (a, b), -1))
        return joint

    def _eliminate(self, v: int) -> tuple[int, ...]:
        near, unary = tuple(self.neighbours[v]), self.unary[v]
        if not near:
            costs = np.zeros(1) if unary is None else self.tables[unary]
            best = int(costs.argmin())
            self.constant += float(costs[best])
            self._done.append((v, (), best))
            return ()
        if len(near) == 1:
            (u,) = near
            table, choice = self.tables.row_sum(unary, self.table(u, v))
            self.unary[u] = self.tables.plus(self.unary[u], table)
            del self.neighbours[u][v]
        else:
            a, b = near
            table, choice = self.tables.joined(self.table(a, v), unary, self.table(v, b))
            del self.neighbours[a][v], self.neighbours[b][v]
            if b in self.neighbours[a]:
                table = self.tables.plus(self.table(a, b), table)
            self.neighbours[a][b] = table
            self.neighbours[b][a] = -1 - table
        self._done.append((v, near, choice))
        return near

    def solution(self, states: dict[int, int], cost: float, bound: float) -> Solution:
        """That of everything, from the states of what is left; what these cost, and cost at least."""
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


class _Messages:
    """Message passing among the variables that are left.

    `rows[n]` are the costs of a variable's states and, one row each, the messages from its neighbours.
    """

    def __init__(self, rest: _Elimination, core: list[int]) -> None:
        number = {v: n for n, v in enumerate(core)}
        tables = self.tables = rest.tables
        self.rows: list[Floats] = []
        self._beyond: list[Floats] = []  # by variable: how much more than the bound before it costs to have each state
        self._few = FEW  # how many states a variable may keep, as far as is known
        self._most = math.inf  # the most of that which a better solution may have
        for v in core:
            rows = np.zeros((len(rest.neighbours[v]) + 1, rest.sizes[v]))
            if (unary := rest.unary[v]) is not None:
                rows[0] = tables[unary]
            self.rows.append(rows)
        # By variable, of earlier and of later neighbours: the neighbour, the costs of pairs with the neighbour's states
        # as rows, the row of the neighbour's messages here, and the row of those from here there.
        self.before: list[list[tuple[int, Floats, Floats, Floats]]] = [[] for _ in core]
        self.after: list[list[tuple[int, Floats, Floats, Floats]]] = [[] for _ in core]
        used = [1] * len(core)
        for v in core:
            a = number[v]
            for w in rest.neighbours[v]:
                b = number[w]
                if a < b:
                    here, there = self.rows[a][used[a]], self.rows[b][used[b]]
                    used[a], used[b] = used[a] + 1, used[b] + 1
                    self.after[a].append((b, tables[rest.table(w, v)], here, there))
                    self.before[b].append((a, tables[rest.table(v, w)], there, here))
        self.weight = [1.0 / max(len(b), len(a), 1) for b, a in zip(self.before, self.after, strict=True)]

    def run(self, passes: int, patience: int, constant: float) -> tuple[list[int], float, float, int]:
        """The best solution of the core, what it costs, and costs at least; `constant` is what the rest costs.

        With the number of passes that are left, if most states turn out to be too dear for any better solution.
        """
        best, least, bound, next_read, in_vain = self._read(forward=True), math.inf, -math.inf, EVERY, 0
        for number in range(1, passes + 1):
            is_read = number == min(next_read, passes)
            self._forward()
            found = [best, self._read(forward=False)] if is_read else []
            before, (bound, self._beyond) = bound, self._backward()
            if not is_read:
                continue
            next_read += max(EVERY, number // 2)
            found_before, (best, least, width) = least, self._best_of_few([*found, self._read(forward=True)])
            in_vain = in_vain + 1 if least >= found_before else 0
            if least <= max(bound + GAP * (bound + constant), before + width):
                return best, least, max(bound, min(least, before + width)), 0
            self._most = least - before
            cheap = sum(int(np.count_nonzero(more <= self._most)) for more in self._beyond)
            if in_vain == patience:
                break
            if cheap <= FEWER * sum(map(len, self._beyond)):
                return best, least, bound, passes - number
        return best, least, bound, 0

    def without_dear_states(self, constant: float) -> tuple[Problem, list[Ints]]:
        """The problem that is left without the states of which the bound says that no better solution has them.

        With the states that are kept. Costs are as messages have moved them, so that nothing is to be sent again.
        """
        smaller, made = Problem(self.tables, constant=constant), self.tables.made
        kept = [np.nonzero(more <= self._most)[0] for more in self._beyond]
        for n, states in enumerate(kept):
            smaller.add(smaller.variable(len(states)), made(self.rows[n].sum(axis=0)[states]))
        for n, after in enumerate(self.after):
            for u, table, here, there in after:
                costs = table - here - there[:, None]
                smaller.join(n, u, made(costs[kept[u][:, None], kept[n]].T))
        return smaller, kept

    def _forward(self) -> None:
        reduce = np.minimum.reduce
        add = np.add.reduce
        for rows, after, weight in zip(self.rows, self.after, self.weight, strict=True):
            if after:
                share = add(rows, 0)
                share *= weight
                for _, table, here, there in after:
                    reduce(table + (share - here), axis=1, out=there)

    def _backward(self) -> tuple[float, list[Floats]]:
        """The same back; returns what any solution costs at least, and of each state of a variable how much more.

        That is on top of what the bound was before these messages: on top of what it is now, it may be too much.
        """
        bound = 0.0
        beyond: list[Floats] = []
        reduce, add = np.minimum.reduce, np.add.reduce
        for rows, before, weight in zip(reversed(self.rows), reversed(self.before), reversed(self.weight), strict=True):
            more = add(rows, 0)
            least = reduce(more)
            bound += least
            more -= least
            beyond.append(more)
            share = more * weight
            for _, table, here, there in before:
                reduce(table + (share - here), axis=1, out=there)
                least = reduce(there)
                there -= least
                bound += least
        return float(bound), beyond[::-1]

    def _read(self, forward: bool) -> list[int]:
        """A solution: what is best with the neighbours that are read already, and the messages of the others.

        Forward, after messages have come back; or backward, after they have gone forward.
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

    def _best_of_few(self, solutions: list[list[int]]) -> tuple[list[int], float, float]:
        """The best solution of the states that cost least beyond the bound, and those of some solutions.

        With what it costs, and up to how much beyond the bound all solutions were compared.
        """
        beyond = self._beyond
        listed = np.sort(np.concatenate(beyond))
        while True:
            width = float(listed[min(int(self._few * len(beyond)), len(listed) - 1)]) if self._few > 1 else 0.0
            kept = [
                np.union1d(np.nonzero(more < width)[0], s)
                for more, s in zip(beyond, np.array(solutions).T, strict=True)
            ]
            found = self._best_of(kept)
            if found is not None:
                self._few = min(2 * self._few, FEW)
                return found, self._cost(found), width
            if self._few <= 1:  # then of fewer solutions
                if len(solutions) == 1:
                    return solutions[0], self._cost(solutions[0]), 0.0
                solutions = sorted(solutions, key=self._cost)[:-1]
            self._few /= 2

    def _best_of(self, kept: list[Ints]) -> list[int] | None:
        """The best solution of which every variable has one of these states; None if that takes too much."""
        smaller = Problem(self.tables)
        made = self.tables.made
        places = [smaller.variable(len(states)) for states in kept]
        for n, after in enumerate(self.after):
            smaller.add(n, made(self.rows[n][0][kept[n]]))
            for u, table, _, _ in after:
                smaller.join(n, u, made(table[kept[u][:, None], kept[n]].T))
        rest = _Elimination(smaller)
        rest.eliminate(exactly=True)
        if rest.left():
            return None
        found = rest.solution({}, 0.0, 0.0)
        return [int(kept[n][found.states[n]]) for n in places]

    def _cost(self, states: list[int]) -> float:
        total = 0.0
        for n, rows in enumerate(self.rows):
            total += rows[0][states[n]] + sum(table[states[u], states[n]] for u, table, _, _ in self.after[n])
        return float(total)

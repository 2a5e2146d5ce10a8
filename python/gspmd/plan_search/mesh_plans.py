"""The plans of a program over one mesh: what is given, solutions of its decision problem, and what they cost exactly.

Solutions are found by the problem's own prices, one after the other, without hiding anything behind anything else. So a
few that differ are partitioned, and their prices decide: what is given first, then the best solution, the best ones
among the ways that people know, and those that are as good but for one role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.costs.outcome import Outcome
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import tell
from gspmd.dialect.sharding import TensorSharding
from gspmd.plan_search.known_ways import known_ways
from gspmd.plan_search.plan_problem import Choice, Mask, PlanProblem
from gspmd.plan_search.pricing import PlanPrices, Question, State, is_better, rank
from gspmd.plan_search.roles import DecidedRole
from gspmd.text_report import time_text

AS_IT_IS, BEFORE = "as it is", "the plan before"
_KNOWN = 1.5  # the cost of known ways that are compared with, in parts of that of the best solution
_ALIKE = 1.02  # the cost of solutions that may be the best, in parts of that of the best one
_NEXT, _NEAR = 16, 2  # of how many roles the next best is found, and how many such solutions are partitioned
_AGAIN, _SPARE = 4, 0.98  # how often the limit is brought down where more is held than the problem says, and by what
_SIMPLER = 1 + 3e-4  # by how much a step may be longer for a plan that decides less
_OPENED = 8  # plans that are partitioned to find out what need not be decided
_SMALL = 1e-3  # of the largest role: what is left to propagation if nothing speaks against it
_COMPILED = 2.0  # how much longer a known way's step may be than the plan's for it to be compiled, too


class MeshPlans:
    """Plans over one mesh. `known` are those with a name, `best` is the first solution, `state` what is best so far.

    `fixed` are the shardings of roles that have to be kept, by number.
    """

    def __init__(self, module: ir.Module, mesh: Mesh, question: Question, has_time: Callable[[], bool]) -> None:
        self.problem = PlanProblem(module, mesh, question)
        self.prices = PlanPrices(module, self.problem.roles, question)
        self.has_time = has_time
        self.fixed: dict[int, TensorSharding] = {}
        self.known: dict[str, State] = {AS_IT_IS: tuple(None for _ in self.problem.roles.roles)}
        self.state = self.known[AS_IT_IS]
        self.next_best: dict[int, Choice] = {}
        self.is_complete = False
        self.best = self.problem.choose()
        self.is_unsummed = False  # whether values inside are left alone where sums are taken later

    @property
    def mesh(self) -> Mesh:
        return self.problem.mesh

    @property
    def roles(self) -> Sequence[DecidedRole]:
        return self.problem.roles.roles

    @property
    def outcome(self) -> Outcome | None:
        return self.prices.price(self.state)

    def start_from(self, state: State, pinned: frozenset[str]) -> None:
        """Take decisions of an earlier plan, of which some are kept."""
        self.known[BEFORE] = state
        self.fixed = {
            number: sharding
            for number, (role, sharding) in enumerate(zip(self.roles, state, strict=True))
            if role.label in pinned and sharding is not None
        }

    def begin(self) -> Choice:
        """Price the first solution, or one that fits; returns it."""
        if self.fixed:
            self.best = self.problem.choose(self._may_be())
        return self._try_fitting(self.best)

    def search(self) -> None:
        """Find the best state, as long as there is time; what is given is priced in any case, and first."""
        for state in list(self.known.values()):
            self._try(state)
        first = self.begin()
        self._try(first.unsummed)
        self.is_unsummed = self.state == self._kept(first.unsummed) != self._kept(first.state)
        for name, mask in known_ways(self.problem.roles, self.mesh):
            choice = self.problem.choose(self._may_be(mask)) if self.has_time() else None
            if choice is not None and choice.cost_s <= _KNOWN * self.best.cost_s:
                self.known[name] = self._written(choice)
                self._try(self.known[name])
        if self.outcome is None or not self.outcome.fits:
            return
        for choice in self._alike():
            if self.has_time():
                self._try(self._written(choice))
        self._simplify()
        self.is_complete = self.has_time()

    # ---- solutions ----

    def _try(self, state: State) -> None:
        """Partition the program so, and take it if it is the best."""
        state = self._kept(state)
        outcome = self.prices.price(state)
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.axes)
        now = self.outcome
        if self._is_kept(state) and (is_better(outcome, now) or not self._is_kept(self.state)):
            self.state = state
        best = "none" if now is None else time_text(now.step_s)
        tell(f"{axes}: best step {best}, {len(self.prices.found)} plans", 1, 1)

    def _try_fitting(self, choice: Choice) -> Choice:
        """Try a solution, and where it does not fit one that holds less, until one does or nothing is less."""
        limit = most = self.prices.question.most_bytes
        self._try(choice.state)
        for _ in range(_AGAIN):
            outcome = self.prices.price(self._kept(choice.state))
            if outcome is None or outcome.fits or not choice.held_bytes or not self.has_time():
                break
            limit = min(limit, most * choice.held_bytes / outcome.memory_bytes) * _SPARE
            less = self.problem.choose_within(limit, self._may_be())
            if less.state == choice.state:
                break
            choice = less
            self._try(choice.state)
        return choice

    def _written(self, choice: Choice) -> State:
        return choice.unsummed if self.is_unsummed else choice.state

    def _kept(self, state: State) -> State:
        return tuple(self.fixed.get(number, sharding) for number, sharding in enumerate(state))

    def _is_kept(self, state: State) -> bool:
        return all(state[number] == sharding for number, sharding in self.fixed.items())

    def _may_be(self, mask: Mask | None = None) -> Mask | None:
        """How roles may lie: as they are kept, and else as a way to split models says."""
        if not self.fixed:
            return mask
        fixed = {self.roles[number].label: sharding for number, sharding in self.fixed.items()}

        def may_be(role: DecidedRole, sharding: TensorSharding) -> bool:
            if role.label in fixed:
                return fixed[role.label].dim_axes() == sharding.dim_axes()
            return mask is None or mask(role, sharding)

        return may_be

    def _alike(self) -> Iterator[Choice]:
        """Solutions that cost about as much as the best one: with traffic that is fused, or with one role otherwise."""
        yield self.problem.choose(self._may_be(), hardware=self.problem.fused)
        largest = sorted(enumerate(self.roles), key=lambda item: -item[1].bytes)
        for number, role in [each for each in largest if self._is_open(each[0])][:_NEXT]:
            if self.has_time():
                self.next_best[number] = self.problem.choose(self._may_be(_otherwise(role, self.best.state[number])))
        cost_s = self.best.cost_s
        near = {round(each.cost_s / cost_s, 4): each for each in self.next_best.values()}
        yield from [near[part] for part in sorted(near) if 1 < part <= _ALIKE][:_NEAR]

    def _is_open(self, number: int) -> bool:
        return self.problem.is_open(number) and number not in self.fixed

    # ---- what need not be decided ----

    def _simplify(self) -> None:
        """Leave to propagation what it does as well: values inside, then small roles and what follows others."""
        inside = [n for n, role in enumerate(self.roles) if role.values and self.state[n] is not None]
        largest = max((role.bytes for role in self.roles if role.arguments), default=0.0)
        small = [n for n in self._decided() if self.roles[n].bytes <= _SMALL * largest]
        follows = [n for n in self._decided() if n not in small and self._follows(n)]
        pending, tries = [follows, small, inside], _OPENED
        while pending and self.has_time() and tries:
            part = pending.pop()
            if not part:
                continue
            opened = tuple(None if n in part else sharding for n, sharding in enumerate(self.state))
            tries -= opened not in self.prices.found
            if _is_as_good(self.prices.price(opened), self.outcome):
                self.state = opened
            elif len(part) > 1:
                pending += [part[len(part) // 2 :], part[: len(part) // 2]]

    def _decided(self) -> list[int]:
        found = (n for n, sharding in enumerate(self.state) if sharding is not None and self.roles[n].arguments)
        return [n for n in found if n not in self.fixed]

    def _follows(self, number: int) -> bool:
        """Whether a role is split as a larger or earlier one like it, as the optimizer's state is as its parameters."""
        role = self.roles[number]
        return role.is_state and any(
            other.is_state
            and (other.type.shape, other.colors, self.state[n]) == (role.type.shape, role.colors, self.state[number])
            and n > number
            for n, other in enumerate(self.roles)
        )

    def contenders(self, plan: Outcome) -> list[State]:
        """What else may be the fastest once it is compiled: the best known ways, then other states that fit.

        A compiler may see what the estimate does not, and then known ways differ from the plan by more than solutions
        do that are near it. Of states that cost the same there is one.
        """
        fitting = {
            state: outcome
            for state, outcome in sorted(self.prices.found.items(), key=lambda item: rank(item[1]))
            if outcome is not None and outcome.fits and self._is_kept(state)
        }
        ways = {self._kept(state) for name, state in self.known.items() if name not in (AS_IT_IS, BEFORE)}
        near = [state for state in fitting if state in ways and fitting[state].step_s <= _COMPILED * plan.step_s]
        different = {plan: self.state}
        for state in (*near, *fitting):
            different.setdefault(fitting[state], state)
        return list(different.values())[1:]

    def baselines(self) -> Mapping[str, Outcome]:
        """What is known by name, and costs."""
        priced = {name: self.prices.found.get(self._kept(state)) for name, state in self.known.items()}
        priced[AS_IT_IS] = self.prices.price(self.known[AS_IT_IS])
        return {name: outcome for name, outcome in priced.items() if outcome is not None}


def _otherwise(role: DecidedRole, than: TensorSharding | None) -> Mask:
    return lambda each, sharding: each is not role or sharding != than


def _is_as_good(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether it is worse by no more than is worth a decision."""
    if new is None or old is None or new.fits != old.fits:
        return False
    figures = (new.step_s, old.step_s) if new.fits else (new.memory_bytes, old.memory_bytes)
    return figures[0] <= figures[1] * _SIMPLER

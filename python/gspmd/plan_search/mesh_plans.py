"""The plans of a program over one mesh: the given program, solutions of its decision problem, and their exact costs.

Solutions are found at the problem's prices, which do not model overlap. So a few distinct solutions are partitioned,
and their exact prices decide: first the given program, then the best solution, the best well-known parallelisms, and
solutions of equal cost that differ in one role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.costs.outcome import Outcome
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import tell
from gspmd.dialect.sharding import TensorSharding
from gspmd.plan_search.known_strategies import known_strategies
from gspmd.plan_search.plan_problem import Mask, PlanProblem, PlanSolution
from gspmd.plan_search.pricing import PlanPrices, SearchSettings, State, is_better, rank
from gspmd.plan_search.roles import DecidedRole
from gspmd.text_report import time_text
from gspmd.transforms.decide.frame import sharing

AS_IT_IS, BEFORE = "as it is", "the plan before"
_KNOWN = 1.5  # largest cost of well-known parallelisms in the comparison, relative to the best solution
_ALIKE = 1.02  # largest cost of solutions that are partitioned, relative to the best one
_NEXT, _NEAR = 16, 2  # the number of roles with a runner-up, and of such solutions that are partitioned
_AGAIN, _SPARE = 4, 0.98  # how often, and by how much, the memory limit is lowered if a program exceeds the prediction
_SIMPLER = 1 + 3e-4  # accepted relative increase of the step time for a plan with fewer decisions
_OPENED = 8  # plans that are partitioned to find unnecessary decisions
_SMALL = 1e-3  # roles smaller than this share of the largest one are left to propagation by default
_COMPILED = 2.0  # largest step time of a well-known parallelism that is compiled, too, relative to the plan


class MeshPlans:
    """The plans over one mesh. `known` are those with a name, `best` is the first solution, `state` the best so far.

    `fixed` are the pinned shardings of roles, by number.
    """

    def __init__(self, module: ir.Module, mesh: Mesh, question: SearchSettings, has_time: Callable[[], bool]) -> None:
        self.problem = PlanProblem(module, mesh, question)
        self.prices = PlanPrices(module, self.problem.roles, question)
        self.has_time = has_time
        self.fixed: dict[int, TensorSharding] = {}
        self.known: dict[str, State] = {AS_IT_IS: tuple(None for _ in self.problem.roles.roles)}
        self.state = self.known[AS_IT_IS]
        self.next_best: dict[int, PlanSolution] = {}
        self.is_complete = False
        self.best = self.problem.choose()
        self.is_unsummed = False  # whether values inside have no constraint if their sums are taken later

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
        """Start from the decisions of an earlier plan, of which some are pinned."""
        self.known[BEFORE] = state
        self.fixed = {
            number: sharding
            for number, (role, sharding) in enumerate(zip(self.roles, state, strict=True))
            if role.label in pinned and sharding is not None
        }

    def begin(self) -> PlanSolution:
        """Price the first solution, or the first that fits, and return it."""
        if self.fixed:
            self.best = self.problem.choose(self._may_be())
        return self._try_fitting(self.best)

    @sharing()
    def search(self) -> None:
        """Find the best state within the time limit; the given program is always priced, and first."""
        for state in list(self.known.values()):
            self._try(state)
        first = self.begin()
        self._try(first.unsummed)
        self.is_unsummed = self.state == self._kept(first.unsummed) != self._kept(first.state)
        for name, mask in known_strategies(self.problem.roles, self.mesh):
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
        """Partition the program with a state, and keep the state if it is the best."""
        state = self._kept(state)
        outcome = self.prices.price(state)
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.axes)
        now = self.outcome
        if self._is_kept(state) and (is_better(outcome, now) or not self._is_kept(self.state)):
            self.state = state
        best = "none" if now is None else time_text(now.step_s)
        tell(f"{axes}: best step {best}, {len(self.prices.found)} plans", 1, 1)

    def _try_fitting(self, choice: PlanSolution) -> PlanSolution:
        """Try a solution; while it does not fit, try one that needs less memory."""
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

    def _written(self, choice: PlanSolution) -> State:
        return choice.unsummed if self.is_unsummed else choice.state

    def _kept(self, state: State) -> State:
        return tuple(self.fixed.get(number, sharding) for number, sharding in enumerate(state))

    def _is_kept(self, state: State) -> bool:
        return all(state[number] == sharding for number, sharding in self.fixed.items())

    def _may_be(self, mask: Mask | None = None) -> Mask | None:
        """The allowed shardings of roles: the pinned ones, and otherwise those of a parallelism."""
        if not self.fixed:
            return mask
        fixed = {self.roles[number].label: sharding for number, sharding in self.fixed.items()}

        def may_be(role: DecidedRole, sharding: TensorSharding) -> bool:
            if role.label in fixed:
                return fixed[role.label].dim_axes() == sharding.dim_axes()
            return mask is None or mask(role, sharding)

        return may_be

    def _alike(self) -> Iterator[PlanSolution]:
        """Solutions of about the same cost: with more fusion, or with another sharding of one role."""
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

    # ---- unnecessary decisions ----

    def _simplify(self) -> None:
        """Drop decisions that propagation reaches as well: values inside, then small and dependent roles."""
        inside = [n for n, role in enumerate(self.roles) if role.values and self.state[n] is not None]
        largest = max((role.bytes for role in self.roles if role.arguments), default=0.0)
        minor = [n for n in self._decided() if self.roles[n].bytes <= _SMALL * largest or self._follows(n)]
        pending, tries = [minor, inside], _OPENED
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
        """Whether a role has the sharding of a larger or earlier similar one, as optimizer state does."""
        role = self.roles[number]
        return role.is_state and any(
            other.is_state
            and (other.type.shape, other.colors, self.state[n]) == (role.type.shape, role.colors, self.state[number])
            and n > number
            for n, other in enumerate(self.roles)
        )

    def contenders(self, plan: Outcome) -> list[State]:
        """Other candidates for the fastest compiled plan: the best well-known parallelisms, then other states that fit.

        If a compiler behaves differently from the estimate, parallelisms differ more from the plan than nearby
        solutions do. Of several states with equal cost, only one is included.
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
        """The priced plans with a name."""
        priced = {name: self.prices.found.get(self._kept(state)) for name, state in self.known.items()}
        priced[AS_IT_IS] = self.prices.price(self.known[AS_IT_IS])
        return {name: outcome for name, outcome in priced.items() if outcome is not None}


def _otherwise(role: DecidedRole, than: TensorSharding | None) -> Mask:
    return lambda each, sharding: each is not role or sharding != than


def _is_as_good(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether the increase of cost is too small to justify a decision."""
    if new is None or old is None or new.fits != old.fits:
        return False
    figures = (new.step_s, old.step_s) if new.fits else (new.memory_bytes, old.memory_bytes)
    return figures[0] <= figures[1] * _SIMPLER

"""The decision problem of a program with the shardings of arguments as variables, one for each role.

It is the problem of `gspmd-decide` (`transforms/decide`), with every even placement in the domain of an argument.
Results are resharded to the argument that they become in the next step. Bytes that are live at the memory peaks have a
price, which is raised until the program fits.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.explanations.conflicts import mark_places, place_of
from gspmd.explanations.explanation import explain
from gspmd.partitioned_calls import leave_to_rules
from gspmd.plan_search.meshes import is_annotated, put_mesh
from gspmd.plan_search.pricing import SearchSettings, State
from gspmd.plan_search.roles import DecidedRole, Roles, find_roles
from gspmd.reading import read_program
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.analysis.memory import aliases_in, largest_moments
from gspmd.transforms.decide.frame import frames
from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import Problem, solve
from gspmd.transforms.decide.value_table import ValueTable
from gspmd.transforms.decide.work import WorkBook
from gspmd.transforms.decide.write import shardings
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.modules import context_of, main_function
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.signature import DONATION, dictionaries, set_dictionaries
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.paths.placements import MAX_PARTS, Floats
from gspmd.transforms.reroll import mark_layers

_FUSED = 0.1  # share of the memory traffic that counts if more fusion is assumed
_MOMENTS = 5  # moments at which memory has a price: the beginning and the peaks
_DOUBLINGS, _HALVINGS = 24, 6  # steps of the price of memory: until the program fits, and of the bisection after that

Mask: TypeAlias = Callable[[DecidedRole, TensorSharding], bool]
"""Whether arguments of a role may have this placement."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlanSolution:
    """A solution: the sharding of each role, its cost in seconds, and the lower bound.

    `summed` are the numbers of roles inside the program some of whose values are partial. `held_bytes` is the peak
    memory of a device in the problem, and `work_s` the part of the cost that is not communication between operations.
    """

    state: State
    cost_s: float
    bound_s: float
    held_bytes: float
    work_s: float
    summed: frozenset[int] = frozenset()

    @property
    def unsummed(self) -> State:
        """The same without constraints on partial values inside, since a constraint would take their sums."""
        return tuple(None if number in self.summed else each for number, each in enumerate(self.state))

    @property
    def gap(self) -> float:
        """An upper bound of the relative distance from the optimum."""
        return (self.cost_s - self.bound_s) / self.bound_s if self.bound_s > 0 else 0.0


class _BuiltProblem(NamedTuple):
    builder: ProblemBuilder
    problem: Problem


class PlanProblem:
    """The problem of a program over one mesh, with its `roles`; `explained` names its values."""

    def __init__(self, module: ir.Module, mesh: Mesh, question: SearchSettings) -> None:
        bare, entries = _without_donation(module)
        self.mesh = mesh
        self._groups = _grouped(mesh) if not is_annotated(module) else {}
        if self._groups:
            sizes = ((name, math.prod(size for _, size in group)) for name, group in self._groups.items())
            put_mesh(bare, Mesh(tuple(sizes), name=mesh.name))
        self.explained = explain(bare, **question.arguments)
        explainer = self.explained.explainer
        self._hardware = read_hardware(question.target, self.explained.mesh)
        self.roles: Roles = find_roles(self.explained, self._hardware)
        with bare.context, ir.Location.unknown():
            mark_places(explainer)
            explainer.completion.write()
            top = explainer.completion.annotated.module
            mark_layers(main_function(top))
            annotated = AnnotatedProgram(top)
            self._work = WorkBook(every_row(), context_of(top))
            book = RuleBook(self._work.table, bool(question.arguments.get("replicate_unsupported")))
            self._values = ValueTable(annotated, book, _next_step(annotated.program, entries))
        self._frames = frames()
        self._arguments = annotated.program.body.arguments
        self._problems: dict[tuple[str, float], _BuiltProblem] = {}
        self._options: dict[int, list[TensorSharding]] = {}
        self._made = {place_of(op.ir.location): op.results for op in annotated.program.ops if op.results}
        self._moments = _held_moments(annotated.program, entries)

    # ---- solutions ----

    def choose(
        self, may_be: Mask | None = None, price_s: float = 0.0, hardware: Hardware | None = None
    ) -> PlanSolution:
        """The cheapest solution with these limits on arguments, if a live byte costs so many seconds.

        The cost of the solution does not include that price. Other costs are those of the target, or of `hardware`.
        """
        built = self._build(hardware)
        problem = dataclasses.replace(built.problem, unary=list(built.problem.unary))
        for number, role in enumerate(self.roles.roles):
            if may_be is not None and self.is_open(number):
                variable = built.builder.variable_of[self._argument(role)]
                banned = np.array([not may_be(role, each) for each in self.options(number)])
                if not banned.all():
                    problem.add(variable, problem.tables.new(np.where(banned, built.builder.prices.never_s, 0.0)))
        for variable, row in self._held_rows(built.builder).items() if price_s else ():
            problem.add(variable, problem.tables.new(row * price_s))
        found = solve(problem)
        decided = shardings(built.builder, found.states)
        cost_s, work_s = built.problem.cost(found.states), _work_s(built.builder, found.states)
        return PlanSolution(
            self._state(decided), cost_s, found.bound, self._held(decided), work_s, self._summed(decided)
        )

    @property
    def fused(self) -> Hardware:
        """The target with a higher memory bandwidth, as if fusion saved that much traffic."""
        return dataclasses.replace(self._hardware, memory_bytes_per_s=self._hardware.memory_bytes_per_s / _FUSED)

    def _build(self, hardware: Hardware | None = None) -> _BuiltProblem:
        priced = hardware or self._hardware
        key = priced.name, priced.memory_bytes_per_s
        found = self._problems.get(key)
        if found is None:
            found = self._problems[key] = self._built(priced)
        return found

    def _built(self, hardware: Hardware, moved: Callable[[int], float] = lambda value: 1.0) -> _BuiltProblem:
        alike = {
            self._arguments[argument]: ("role", number)
            for number, role in enumerate(self.roles.roles)
            for argument in role.arguments
        }
        objective = Objective(hardware, repeated=0.0, next_step=False)
        builder = ProblemBuilder(self._values, self._work, objective, self._frames, alike=alike, moved=moved)
        return _BuiltProblem(builder, builder.build())

    def choose_within(self, most_bytes: float, may_be: Mask | None = None) -> PlanSolution:
        """The same under a memory limit, as the problem counts memory; the smallest solution if none fits."""
        found = self.choose(may_be)
        if found.held_bytes <= most_bytes:
            return found
        least, low_s, price_s = found, 0.0, 1e-3 * found.cost_s / found.held_bytes
        for _ in range(_DOUBLINGS):
            found = self.choose(may_be, price_s)
            least = min(least, found, key=lambda choice: choice.held_bytes)
            if found.held_bytes <= most_bytes:
                break
            low_s, price_s = price_s, 2 * price_s
        else:
            return least
        for _ in range(_HALVINGS):
            middle_s = (low_s + price_s) / 2
            between = self.choose(may_be, middle_s)
            if between.held_bytes <= most_bytes:
                found, price_s = min(found, between, key=lambda choice: choice.cost_s), middle_s
            else:
                low_s = middle_s
        return found

    def is_open(self, number: int) -> bool:
        """Whether the sharding of a role is a variable."""
        role = self.roles.roles[number]
        is_free = bool(role.arguments) and role.given is None
        return is_free and self._argument(role) in self._build().builder.variable_of

    def options(self, number: int) -> list[TensorSharding]:
        """The allowed placements of an open role."""
        found = self._options.get(number)
        if found is None:
            domain = self._build().builder.domains.of(self._argument(self.roles.roles[number]))
            shardings_ = [domain.table.sharding(n) for n in domain.numbers.tolist()]
            found = self._options[number] = [self._over_mesh(each) for each in shardings_]
        return found

    def _argument(self, role: DecidedRole) -> int:
        """The value of the first argument of a role."""
        return self._arguments[role.arguments[0]]

    def _state(self, decided: Mapping[int, TensorSharding]) -> State:
        """The sharding of each role; for intermediate values, the one that accounts for the most time."""
        found: list[TensorSharding | None] = []
        for role in self.roles.roles:
            if role.given is not None or (role.arguments and self._argument(role) not in decided):
                found.append(None)
            elif role.arguments:
                found.append(self._over_mesh(decided[self._argument(role)]))
            else:
                times_s: dict[TensorSharding, float] = defaultdict(float)
                for place, time_s in zip(role.made, role.times_s, strict=True):
                    value = self._made[place][0] if place in self._made else -1
                    sharding = decided.get(value)
                    if sharding is not None:
                        times_s[dataclasses.replace(sharding, unreduced=())] += time_s
                most = max(times_s, key=lambda each: times_s[each], default=None)
                found.append(None if most is None else self._over_mesh(most))
        return tuple(found)

    def _summed(self, decided: Mapping[int, TensorSharding]) -> frozenset[int]:
        """The roles inside the program some of whose values are partial."""
        left = {value for value, sharding in decided.items() if sharding.unreduced}
        made = {place: results[0] in left for place, results in self._made.items()}
        roles = enumerate(self.roles.roles)
        return frozenset(number for number, role in roles if any(made.get(place, False) for place in role.made))

    def _over_mesh(self, sharding: TensorSharding) -> TensorSharding:
        """The sharding over the mesh itself, if the problem has groups of its axes."""
        if not self._groups:
            return sharding
        dims = tuple(
            tuple(self.mesh.axis(name) for axis in axes for name, _ in self._groups[axis.name])
            for axes in sharding.dim_axes()
        )
        return replicated(self.mesh, sharding.rank).with_axes(dims)

    # ---- stages of a pipeline ----

    def pipelined_s(self, microbatches: int, batch: int) -> float:
        """The cost of the best solution if the batch, whose color is `batch`, is processed in so many parts.

        Values without a batch dimension are resharded for each part.
        """
        explained, tied = self.explained.explainer.program, self.roles.tied

        def moved(value: int) -> float:
            op = self._values.producer.get(self._values.carried[value])
            place = None if op is None else place_of(op.ir.location)
            slots: tuple[int, ...] = ()
            if place is not None and op is not None and place < len(explained.ops):
                slots = (explained.ops[place].result_slots[op.results.index(self._values.carried[value])],)
            elif value in self._arguments:
                slots = (explained.slot_of(explained.body.arguments[self._arguments.index(value)]),)
            rank = len(self._values.program.value_type[value].shape)
            return 1.0 if batch in set(tied.of_slots(slots, (rank,) * len(slots))) else float(microbatches)

        return solve(self._built(self._hardware, moved).problem).cost

    # ---- memory ----

    def _held_rows(self, builder: ProblemBuilder) -> dict[int, Floats]:
        """The memory of a device, averaged over the peaks, by variable and state."""
        rows: dict[int, Floats] = {}
        for moment in self._moments:
            for value in moment:
                root = builder.values.carried[value]
                domain, type_ = builder.domains.of(root), builder.types[root]
                if root in builder.variable_of:
                    variable, numbers = builder.variable_of[root], domain.numbers
                elif root in builder.direct:
                    direct = builder.direct[root]
                    variable = builder.op_variable[direct.producer.index]
                    numbers = builder.class_of[direct.producer.index].tensors[direct.result].numbers
                else:
                    continue
                held = domain.table.local(type_.shape, numbers) * (element_bytes(type_.element) / len(self._moments))
                rows[variable] = rows[variable] + held if variable in rows else held
        return rows

    def _held(self, decided: Mapping[int, TensorSharding]) -> float:
        """The peak memory of a device."""
        values, known = self._values, dict[int, float]()
        for value in {value for moment in self._moments for value in moment}:
            root = values.carried[value]
            type_ = values.program.value_type[root]
            sharding = decided.get(root) or values.sharding[root]
            known[value] = bytes_of_part(type_, sharding)
        return max((sum(known[value] for value in moment) for moment in self._moments), default=0.0)


def _work_s(builder: ProblemBuilder, states: Sequence[int]) -> float:
    """Seconds of arithmetic and memory traffic in operations."""
    total_s = 0.0
    for place in builder.values.consumers.values():
        assert place.op is not None, "it is an operation"
        cost_s = builder.class_of[place.op.index].cost_s[states[builder.op_variable[place.op.index]]]
        total_s += float(cost_s) * place.times * place.copies
    return total_s


def bytes_of_part(type_: TensorType, sharding: TensorSharding) -> float:
    """The bytes of a value on a device."""
    if sharding.rank != len(type_.shape):
        return 0.0
    return float(np.prod(sharding.local_shape(type_.shape), dtype=np.float64)) * element_bytes(type_.element)


def _without_donation(module: ir.Module) -> tuple[ir.Module, list[dict[str, ir.Attribute]]]:
    """A copy of the program without the annotations of arguments, and these annotations.

    Calls with their own partitioning functions are split by their rules, which describe all strategies at once.
    """
    copy = read_program(module)
    with in_memory(copy) as top:
        leave_to_rules(top)
        function = main_function(top)
        count = len(function.regions[0].arguments)
        given = dictionaries(function, "arg_attrs", count)
        kept = [{name: said for name, said in entry.items() if name not in DONATION} for entry in given]
        set_dictionaries(function, "arg_attrs", kept)
    return copy, given


def _grouped(mesh: Mesh) -> dict[str, list[tuple[str, int]]]:
    """Groups of neighboring axes, by name, if there are too many axes for all shardings.

    The smallest neighbors are grouped. Empty if there are few axes.
    """
    groups = [[each] for each in mesh.axes]
    if len([size for _, size in mesh.axes if size > 1]) <= MAX_PARTS:
        return {}
    while len(groups) > MAX_PARTS:
        sizes = [math.prod(size for _, size in group) for group in groups]
        first = min(range(len(groups) - 1), key=lambda number: sizes[number] * sizes[number + 1])
        groups[first : first + 2] = [groups[first] + groups[first + 1]]
    return {"_".join(name for name, _ in group): group for group in groups}


def _next_step(program: Program, entries: Sequence[Mapping[str, ir.Attribute]]) -> dict[int, int]:
    """The argument that each result becomes in the next step: the one donated for it, or the next of its type.

    If a type has more results than arguments, these are not state.
    """
    body, types = program.body, program.value_type
    found = aliases_in(program, entries)
    free: dict[TensorType, list[int]] = defaultdict(list)
    for number, value in enumerate(body.arguments):
        if number not in found.values() and types[value].shape:
            free[types[value]].append(number)
    for number, value in enumerate(body.returned):
        if number not in found and free.get(types[value]):
            found[number] = free[types[value]].pop(0)
    return {number: argument for number, argument in found.items() if types[body.returned[number]].shape}


def _held_moments(program: Program, entries: Sequence[Mapping[str, ir.Attribute]]) -> list[list[int]]:
    """The values that are live at the beginning and at the memory peaks."""
    moments = largest_moments(program, Buffers(program), aliases_in(program, entries), _MOMENTS)
    return [[each.value for each in held if program.value_type[each.value].shape] for held in moments]

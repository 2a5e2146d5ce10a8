"""What decisions on a program's arguments cost, found by partitioning it."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.dialect.axes import size_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.errors import Error
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import following
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.isolation import Worker
from gspmd.pass_manager.manager import run_pipeline
from gspmd.plan_search.role import DecidedRole, Roles
from gspmd.reading import read_program
from gspmd.suggestions.annotating import annotate_arguments, constrain_results
from gspmd.transforms.refine import Refine

_WORTH_HELP_S = 0.25  # for less, a process is not started
_PATIENCE_S = 600.0

Dims: TypeAlias = tuple[tuple[str, ...], ...]
"""The axes of each dimension, the most major first."""

State: TypeAlias = tuple[Dims | None, ...]
"""What is decided of each role; None where that is left to propagation."""


def sharding_of(mesh: Mesh, dims: Dims) -> TensorSharding:
    """The sharding over a mesh with these axes."""
    return replicated(mesh, len(dims)).with_axes(tuple(tuple(map(mesh.axis, names)) for names in dims))


def divides(role: DecidedRole, mesh: Mesh, dims: Dims) -> bool:
    """Whether all shards are of one size."""
    return all(n % size_of(tuple(map(mesh.axis, names))) == 0 for n, names in zip(role.type.shape, dims, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every state: the mesh, the target, what a device may hold, and arguments of `partition`.

    `axes`, `name` and `device_ids` are the mesh's, in plain values, so that another process can be asked.
    """

    axes: tuple[tuple[str, int], ...]
    name: str
    device_ids: tuple[int, ...]
    target: str
    most_bytes: float
    arguments: Mapping[str, Any]

    @property
    def mesh(self) -> Mesh:
        return Mesh(self.axes, self.device_ids, self.name)


Decided: TypeAlias = tuple[tuple[int | tuple[int, int], Dims], ...]
"""What is decided upon: arguments by number, results of operations by the numbers of both."""


def annotated(module: ir.Module, mesh: Mesh, decided: Decided) -> ir.Module:
    """A copy of the program with decisions written to its arguments, and to what operations make."""
    copy = read_program(module)
    results = {at: sharding_of(mesh, dims) for at, dims in decided if not isinstance(at, int)}
    arguments = {at: sharding_of(mesh, dims) for at, dims in decided if isinstance(at, int)}
    if results:
        constrain_results(copy, results)
    if arguments:
        annotate_arguments(copy, arguments)
    return copy


def plan_price(module: ir.Module, decided: Decided, question: Question, is_rough: bool) -> Outcome | None:
    """What the program costs with these decisions; None where it cannot be partitioned so.

    A rough price is without `gspmd-refine`, which is the slowest pass.
    """
    with following(_nobody), telling(_unheard):
        try:
            copy = annotated(module, question.mesh, decided)
            product = _quickly(copy, question) if is_rough else api.partition(copy, **question.arguments)
            return outcome_of(product, question.target, question.most_bytes)
        except Error:
            return None


def _quickly(module: ir.Module, question: Question) -> api.Partitioned:
    rest = {name: value for name, value in question.arguments.items() if name != "custom_rules"}
    passes = [pass_ for pass_ in api.passes_of(None, **rest) if not isinstance(pass_, Refine)]
    run_pipeline(passes, module, api.attaching(question.arguments.get("custom_rules")))
    return api.Partitioned(module)


def plan_price_of_text(text: str, decided: Decided, question: Question, is_rough: bool) -> Outcome | None:
    """The same for a program as text, as another process is asked."""
    return plan_price(_read(text), decided, question, is_rough)


@functools.lru_cache(maxsize=2)
def _read(text: str) -> ir.Module:
    return read_program(text)


@dataclasses.dataclass(slots=True)
class PlanPrices:
    """Prices states of a program over one mesh, each once, with the help of other processes."""

    module: ir.Module
    roles: Roles
    question: Question
    helpers: Helpers
    rough: dict[State, Outcome | None] = dataclasses.field(default_factory=dict)
    exact: dict[State, Outcome | None] = dataclasses.field(default_factory=dict)

    @property
    def mesh(self) -> Mesh:
        return self.question.mesh

    def price(self, state: State, is_rough: bool = False) -> Outcome | None:
        """What a state costs; None where the program cannot be partitioned so."""
        known = self.known(is_rough)
        if state not in known:
            known[state] = plan_price(self.module, self.decided(state), self.question, is_rough)
        return known[state]

    def known(self, is_rough: bool) -> dict[State, Outcome | None]:
        """The prices of one kind that there are."""
        return self.rough if is_rough else self.exact

    def price_some(self, states: Sequence[State], is_rough: bool = False) -> None:
        """Price as many of the first states that are not priced yet as can be at the same time."""
        known = self.known(is_rough)
        new = [state for state in dict.fromkeys(states) if state not in known]
        if not new:
            return
        started = time.monotonic()
        asked = {state: self.helpers.ask(self.module, self.decided(state), self.question, is_rough)
                 for state in new[1 : 1 + self.helpers.count]}  # fmt: skip
        self.price(new[0], is_rough)
        for state, answer in asked.items():
            found = answer()
            if not isinstance(found, BaseException):
                known[state] = found
        self.helpers.took(time.monotonic() - started)

    def decided(self, state: State) -> Decided:
        """What a state decides upon."""
        pairs = [(role, dims) for role, dims in zip(self.roles.roles, state, strict=True) if dims is not None]
        arguments = tuple((number, dims) for role, dims in pairs for number in role.arguments)
        return arguments + tuple((value.place, dims) for role, dims in pairs for value in role.values)

    def annotated(self, state: State) -> ir.Module:
        """The program with these decisions written to it."""
        return annotated(self.module, self.mesh, self.decided(state))


class Helpers:
    """Other processes that price states, where that takes long enough to be worth it.

    Nobody waits until they have started, which takes seconds.
    """

    def __init__(self, most: int) -> None:
        self._most, self._is_of_use = most, True
        self._threads: ThreadPoolExecutor | None = None
        self._started: list[Future[None]] = []
        self._workers = threading.local()
        self._all: list[Worker] = []
        self._text: tuple[ir.Module, str] | None = None

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_of_use = False
        for worker in self._all:
            worker.abandon()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._all:
            worker.stop()

    def took(self, seconds: float) -> None:
        """Hear how long one price took."""
        if seconds >= _WORTH_HELP_S and self._threads is None and self._most:
            self._threads = ThreadPoolExecutor(self._most)
            self._started = [self._threads.submit(self._start) for _ in range(self._most)]

    @property
    def count(self) -> int:
        """How many can be asked now."""
        return sum(each.done() and each.exception() is None for each in self._started) if self._is_of_use else 0

    def ask(
        self, module: ir.Module, decided: Decided, question: Question, is_rough: bool
    ) -> Callable[[], Outcome | BaseException | None]:
        """Begin to price a state; what is returned waits for the answer, or for why there is none."""
        assert self._threads is not None, "there are helpers"
        if self._text is None or self._text[0] is not module:
            self._text = module, str(module)
        future = self._threads.submit(self._call, self._text[1], decided, question, is_rough)

        def answer() -> Outcome | BaseException | None:
            error = future.exception()
            if error is not None:
                self._is_of_use = False  # they cannot help here
                return error
            return future.result()

        return answer

    def _start(self) -> None:
        """Start the process of this thread."""
        self._workers.own = Worker(_PATIENCE_S)
        self._all.append(self._workers.own)
        if self._is_of_use:
            self._workers.own.call(begin_to_help)

    def _call(self, text: str, decided: Decided, question: Question, is_rough: bool) -> Outcome | None:
        worker: Worker = self._workers.own
        return worker.call(plan_price_of_text, text, decided, question, is_rough)


def begin_to_help() -> None:
    """What another process does first: nothing, once it has read this file and all that it needs."""


def _nobody(step: object) -> None:
    """Hears of the passes of a trial, which are no steps of the whole."""


def _unheard(diagnostic: object) -> None:
    """Hears what passes say of programs that nobody asked for."""


def rank(outcome: Outcome | None) -> tuple[float, ...]:
    """What outcomes are compared by: whether the program fits, then time, then bytes; what cannot be run comes last."""
    if outcome is None:
        return (2.0,)
    if not outcome.fits:
        return (1.0, outcome.memory_bytes, outcome.step_s)
    return (0.0, outcome.step_s, outcome.sent_bytes, outcome.memory_bytes)

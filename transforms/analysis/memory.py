"""The peak memory of a device, from the liveness of values in its program.

Arguments are live throughout, results from their definition to the end, and other values until their last use. A result
that is aliased to a donated argument takes its memory once the argument is dead; a loop carry is updated in place.
`buffers.py` decides which values are in memory at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from jaxlib.mlir import ir

from gspmd.transforms.analysis.buffers import Buffers, bytes_of_value, overwrites
from gspmd.transforms.ir.memory_spaces import HostValues, says_host
from gspmd.transforms.ir.operations import Attribute
from gspmd.transforms.ir.program import MANUAL, WHILE, Body, Op, Program
from gspmd.transforms.ir.signature import dictionaries
from gspmd.transforms.ops import traits_of

ARGUMENT, RESULT, TEMPORARY = "argument", "result", "temporary"
_PARTS = 20  # parts of a program in which peaks are looked for separately


@dataclasses.dataclass(slots=True, eq=False)
class Allocation:
    """Memory whose latest occupant is `value`; `kind` is its purpose."""

    value: int
    bytes: int
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """The live bytes of a device after the operation with the index `op`.

    At the beginning, where only arguments are live, and at the end `op` is -1.
    """

    op: int
    held: int
    temporaries: int


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a device in bytes.

    `arguments` and `results` are those of @main, `aliased` the results in donated arguments, `temporaries` the peak of
    temporaries, and `peak` the peak of everything; `at_peak` lists the values live then, the largest first. Values in
    host memory count only in `host`, as a peak of their own. `moments` has an entry for each definition, in order;
    `peak_moment` is the index of the peak.
    """

    arguments: int
    results: int
    aliased: int
    temporaries: int
    peak: int
    host: int
    at_peak: tuple[Allocation, ...]
    moments: tuple[Moment, ...]
    peak_moment: int

    @property
    def allocated(self) -> int:
        """The memory needed if all results are allocated at the beginning."""
        return self.arguments + self.results - self.aliased + self.temporaries


def memory_of(program: Program, buffers: Buffers, aliases: Mapping[int, int] | None = None) -> Memory:
    """The memory of a per-device program. `aliases` maps a result to the argument whose memory it takes, by index.

    Without them, they are those that the program declares.
    """
    aliases = aliases_in(program) if aliases is None else aliases
    hosts = _host_values(program)
    sizes, on_device = _sizes(program), _sizes(program, hosts)
    first = _LivenessWalk(program, buffers, aliases, on_device)
    first.run()
    second = _LivenessWalk(program, buffers, aliases, on_device, snapshot_at=first.peak_step)
    second.run()
    body = program.body
    return Memory(
        sum(on_device[v] for v in body.arguments),
        sum(on_device[v] for v in body.returned),
        sum(on_device[body.returned[result]] for result in aliases),
        first.temporary_peak,
        first.peak,
        _host_peak(program, buffers, aliases, [size - own for size, own in zip(sizes, on_device, strict=True)]),
        tuple(sorted((h for h in second.snapshot if h.value not in hosts), key=lambda held: (-held.bytes, held.value))),
        tuple(first.moments),
        first.peak_step,
    )


def moments_of(program: Program, buffers: Buffers) -> tuple[Moment, ...]:
    """The moments of `memory_of`, without the rest."""
    walk = _LivenessWalk(program, buffers, aliases_in(program), _sizes(program, _host_values(program)))
    walk.run()
    return tuple(walk.moments)


def largest_moments(
    program: Program, buffers: Buffers, aliases: Mapping[int, int], most: int
) -> list[tuple[Allocation, ...]]:
    """The live values at the beginning and at up to `most` peaks in different parts of a program.

    The device is assumed to have enough memory; values in host memory count as well.
    """
    sizes = _sizes(program)
    first = _LivenessWalk(program, buffers, aliases, sizes)
    first.run()
    apart = max(len(first.moments) // _PARTS, 1)
    chosen = [0]
    for step in sorted(range(len(first.moments)), key=lambda step: -first.moments[step].held):
        if len(chosen) <= most and all(abs(step - other) >= apart for other in chosen[1:]):
            chosen.append(step)
    found = []
    for step in chosen:
        walk = _LivenessWalk(program, buffers, aliases, sizes, snapshot_at=step)
        walk.run()
        found.append(tuple(walk.snapshot))
    return found


def _sizes(program: Program, without: Set[int] = frozenset()) -> list[int]:
    """The bytes of all values, 0 for those that are left out."""
    return [0 if value in without else bytes_of_value(program, value) for value in range(len(program.value_type))]


def _host_values(program: Program) -> set[int]:
    """The values in host memory."""
    if not says_host(program):
        return set()
    kinds = HostValues(program.function, lambda name: traits_of(name).stays_on_host).kinds
    return {value for value, made in enumerate(program.value_ir) if made in kinds}


def _host_peak(program: Program, buffers: Buffers, aliases: Mapping[int, int], sizes: Sequence[int]) -> int:
    if not any(sizes):
        return 0
    walk = _LivenessWalk(program, buffers, aliases, sizes)
    walk.run()
    return walk.peak


def aliases_in(program: Program, entries: Sequence[Mapping[str, Attribute]] | None = None) -> dict[int, int]:
    """The argument whose memory each result takes, by index.

    `entries` are the attributes of the arguments; by default those of the program.
    """
    body = program.body
    if entries is None:
        entries = dictionaries(program.function, "arg_attrs", len(body.arguments))
    sizes = [[bytes_of_value(program, value) for value in values] for values in (body.arguments, body.returned)]
    return aliases_of(entries, *sizes)


def aliases_of(
    arguments: Sequence[Mapping[str, Attribute]], argument_bytes: Sequence[int], results: Sequence[int]
) -> dict[int, int]:
    """The argument whose memory each result takes, from the attributes of the arguments and the sizes in bytes.

    `tf.aliasing_output` names the result; an argument donated without one (`jax.buffer_donor`) takes the first result
    of its size.
    """
    found: dict[int, int] = {}
    for index, attributes in enumerate(arguments):
        if "tf.aliasing_output" in attributes:
            found[ir.IntegerAttr(attributes["tf.aliasing_output"]).value] = index
    for index, attributes in enumerate(arguments):
        if "jax.buffer_donor" in attributes and index not in found.values():
            fits = (r for r, size in enumerate(results) if r not in found and size == argument_bytes[index])
            result = next(fits, None)
            if result is not None:
                found[result] = index
    return found


class _LivenessWalk:
    """One pass through the program, given the sizes of its values in bytes.

    `snapshot_at` are the moments at which the live values are recorded.
    """

    def __init__(
        self,
        program: Program,
        buffers: Buffers,
        aliases: Mapping[int, int],
        sizes: Sequence[int],
        snapshot_at: int = -1,
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.buffers = buffers
        self.aliases = aliases
        self.snapshot_at = snapshot_at
        self.snapshot: list[Allocation] = []
        self.moments: list[Moment] = []
        self.held: dict[Allocation, None] = {}
        self.memory: dict[int, Allocation] = {}  # by value
        self.total = self.temporary = self.peak = self.temporary_peak = self.peak_step = 0

    def run(self) -> None:
        body = self.program.body
        for argument in body.arguments:
            self.memory[argument] = self.hold(argument, ARGUMENT)
        goals = {result: self.memory[body.arguments[argument]] for result, argument in self.aliases.items()}
        self._look()
        self._block(body, goals, RESULT)
        self._copies(body, goals)

    def _copies(self, body: Body, goals: Mapping[int, Allocation]) -> None:
        """Allocate results that have no memory of their own at the end, such as returned arguments."""
        taken: set[Allocation] = set()
        for index, value in enumerate(body.returned):
            held = self.memory.get(self.buffers.root(value))
            if index not in goals and (held is None or held.kind == ARGUMENT or held in taken):
                held = self.hold(value, RESULT)
            if held is not None:
                taken.add(held)
        self._look()

    # ---- memory ----

    def hold(self, value: int, kind: str) -> Allocation:
        held = Allocation(value, self.sizes[value], kind)
        self.held[held] = None
        self._count(held, held.bytes)
        return held

    def reuse(self, held: Allocation, value: int, kind: str) -> None:
        """Put a value into the memory of another one."""
        self._count(held, -held.bytes)
        held.value, held.kind = value, kind
        self._count(held, held.bytes)

    def _free(self, held: Allocation) -> None:
        if held in self.held:
            del self.held[held]
            self._count(held, -held.bytes)

    def _count(self, held: Allocation, change: int) -> None:
        self.total += change
        if held.kind == TEMPORARY:
            self.temporary += change

    def _look(self, op: int = -1) -> None:
        step = len(self.moments)
        if self.total > self.peak:
            self.peak, self.peak_step = self.total, step
        self.temporary_peak = max(self.temporary_peak, self.temporary)
        if step == self.snapshot_at:
            self.snapshot = [dataclasses.replace(held) for held in self.held]
        self.moments.append(Moment(op, self.total, self.temporary))

    # ---- blocks ----

    def _block(self, block: Body, goals: Mapping[int, Allocation], kind: str = TEMPORARY) -> None:
        """Walk a block. `goals` is the memory for returned values, by index; other values are of `kind`."""
        scope = _Scope(self, block, goals, kind)
        for position, op in enumerate(block.ops):
            if self.buffers.is_virtual(op):
                continue
            for index, result in enumerate(op.results):
                self.memory[result] = scope.place(op, index, position)
            self._look(op.index)
            self._regions(op)
            for held in scope.ending(op, position):
                self._free(held)
        for held in scope.mine:
            if held.kind == TEMPORARY:
                self._free(held)

    def _regions(self, op: Op) -> None:
        """Walk regions: a loop returns into its carry, other operations into their results.

        A manual computation reads its operands in place.
        """
        goals = {index: self.memory[result] for index, result in enumerate(op.results)}
        for index, region in enumerate(op.regions):
            given = self._given(op, region) if op.info.name == MANUAL else goals.values()
            for argument, held in zip(region.arguments, given, strict=False):
                self.memory[argument] = held
            self._block(region, {} if op.info.name == WHILE and index == 0 else goals)

    def _given(self, op: Op, region: Body) -> list[Allocation]:
        """The memory of the block arguments of a manual computation, which are its operands in place."""
        sources = [sorted(self.buffers.sources([operand])) for operand in op.operands]
        return [
            self.memory[found[0]] if found else self.hold(argument, TEMPORARY)
            for argument, found in zip(region.arguments, sources, strict=True)
        ]


class _Scope:
    """The memory of one block: its own values, and the last use of each value."""

    def __init__(self, walk: _LivenessWalk, block: Body, goals: Mapping[int, Allocation], kind: str) -> None:
        self.walk = walk
        self.buffers = walk.buffers
        self.kind = kind
        self.mine: dict[Allocation, None] = {}
        self.last = self._last_uses(block)
        self.returned: dict[int, int] = {}
        for index, value in enumerate(block.returned):
            self.returned.setdefault(self.buffers.root(value), index)
        self.goals = dict(goals)
        self.until = dict.fromkeys(goals.values(), -1)
        for argument in block.arguments:
            held = walk.memory.get(argument)
            if held is not None:
                self.until[held] = max(self.until.get(held, -1), self.last.get(argument, -1))

    def _last_uses(self, block: Body) -> dict[int, int]:
        last: dict[int, int] = {}
        for position, op in enumerate(block.ops):
            if not self.buffers.is_virtual(op):
                last.update(dict.fromkeys(self._uses(op), position))
        last.update(dict.fromkeys(self.buffers.sources(block.returned), len(block.ops)))
        return last

    def _uses(self, op: Op) -> frozenset[int]:
        values = self.buffers.sources(op.operands)
        for region in op.regions:
            values |= self.buffers.sources(region.returned)
            for inner in region.ops:
                values |= self._uses(inner)
        return values

    def place(self, op: Op, index: int, position: int) -> Allocation:
        """The memory for a result."""
        result = op.results[index]
        index_returned = self.returned.get(result)
        kind = TEMPORARY if index_returned is None or index_returned in self.goals else self.kind
        held = self._goal(result, position)
        if held is None:
            held = self._reused(op, index, position)
            if held is None:
                held = self.walk.hold(result, kind)
            else:
                self.walk.reuse(held, result, kind)
            self.mine[held] = None
        self.until[held] = self.last.get(result, position)
        return held

    def _goal(self, result: int, position: int) -> Allocation | None:
        """The memory in which the result has to end, if its previous occupant is dead."""
        held = self.goals.get(self.returned.get(result, -1))
        return held if held is not None and self.until[held] <= position else None

    def _reused(self, op: Op, index: int, position: int) -> Allocation | None:
        """The memory of an operand at its last use, if the operation can overwrite it."""
        loop = op.info.name == WHILE
        if not loop and not overwrites(op):
            return None
        operands = op.operands[index : index + 1] if loop else op.operands
        size = self.walk.sizes[op.results[index]]
        for value in sorted(self.buffers.sources(operands)):
            held = self.walk.memory[value]
            if held in self.mine and held.bytes == size and self.until[held] == position and held.kind == TEMPORARY:
                return held
        return None

    def ending(self, op: Op, position: int) -> list[Allocation]:
        """The values that are dead after an operation."""
        held = dict.fromkeys(self.walk.memory[value] for value in (*sorted(self._uses(op)), *op.results))
        return [each for each in held if each in self.mine and self.until[each] == position and each.kind == TEMPORARY]

"""The producers and consumers of a program's values, and the values whose sharding may change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, overlap, size_of, starts_with
from gspmd.dialect.own_attributes import ANNOTATED, GIVEN, IN_MIDDLE
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.analysis.trip_count import LoopNest
from gspmd.transforms.emit.partial_values import is_taking_apart
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Body, Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops import traits_of_op
from gspmd.transforms.ops.rules import RuleBook


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Consumer:
    """A place that takes values: an operation, or one that wants a value as `need`, or as the value `like` is.

    A free result of the program wants a value like itself, but evenly split. The place is in the block number `block`,
    which runs `times` times. In layers that others are taken out beside it stands for `copies` places.
    """

    order: int
    block: int
    times: int
    op: Op | None = None
    value: int = -1
    need: TensorSharding | None = None
    like: int = -1
    copies: float = 1.0

    @property
    def taken(self) -> Sequence[int]:
        """The values that it reads."""
        return (self.value,) if self.op is None else self.op.operands


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedValue:
    """The result `index` of an operation, with another sharding than by propagation.

    For an argument of @main, `op` is the function.
    """

    op: Operation
    index: int
    before: TensorSharding
    after: TensorSharding


class ValueTable:
    """The places of a program whose shardings are complete, as lists and dictionaries by the number of a value.

    `sharding` is that of each value, as it is decided so far. A value that a loop carries has one, whatever it is
    called before, in and behind the loop: that of the loop's result, which `carried` has; `names` has the others of
    each such, and `handed_on` are those that the loop only reads. `maker` has the operation of every result that
    may change, `boundary` the number of every argument that may; `free_results` are the results of the program that
    have the sharding of the value returned, whatever that is, as far as it is even, and `ends_like` says what each
    of these values, `free_ends`, may be like.
    `uses` are the places that take a value, `needs` those among them that are no operations. `place`, `held` (the
    manual axes around it), `runs` (as in `Situation`) and `rule_number` are by operation. `same` has of a constraint's
    result the place that wants its operand so, `again` of an operand the results; `optional` has of a value the
    results of constraints that bind nothing: it may be taken as they say, or not. `in_layers` has of what
    operations of repeated layers make in which layer that is, and what it is there.
    With `next_step`, which has of results by number the arguments that they become in the next step, `is_open`: nothing
    but annotations limits what a value may be. What propagation has found, where nobody has annotated anything, says
    nothing. `assume_finite` is as in `linear_operands`.
    """

    def __init__(
        self, annotated: AnnotatedProgram, rules: RuleBook, next_step: Mapping[int, int] | None = None,
        all_bind: bool = False, assume_finite: bool = False,
    ) -> None:  # fmt: skip
        self.annotated, self.program, self._rules = annotated, annotated.program, rules
        self.assume_finite = assume_finite
        self.is_open, self._next_step, self._all_bind = next_step is not None, next_step or {}, all_bind
        count = len(self.program.value_type)
        self.sharding: list[TensorSharding] = [replicated(annotated.mesh, 0)] * count
        self.is_free = [False] * count
        self.uses: list[list[Consumer]] = [[] for _ in range(count)]
        self.needs: dict[int, list[Consumer]] = {}
        self.maker: dict[int, Op] = {}
        self.boundary: dict[int, int] = {}
        self.free_results: dict[int, int] = {}
        self.carried: list[int] = list(range(count))
        self.names: dict[int, list[int]] = {}
        self.handed_on: set[int] = set()
        self._free_of_type: dict[TensorType, list[int]] = {}  # the arguments of `boundary`
        self._limits: dict[int, TensorSharding] = {}  # what a constraint with open dimensions asks of its result
        self.place: dict[int, Consumer] = {}
        self.held: dict[int, Axes] = {}
        self.runs: dict[int, tuple[int, ...]] = {}
        self.rule_number: dict[int, int] = {}
        self.same: dict[int, Consumer] = {}
        self.again: dict[int, list[int]] = {}
        self._order = self._blocks = 0
        self._copies = 1.0  # of the operation that is read
        self.in_layers: dict[int, tuple[int, tuple[int, int]]] = {}
        self._home = [0] * count  # by value: the block that it is in
        self.held_around: list[Axes] = [()] * count  # by value: the manual axes around it
        self._loops = LoopNest[int]()  # around what is read
        self.results = self._read_main()
        self._ends_like = self._find_ends_like()
        self.optional = {} if all_bind else self._find_optional()

    def _read_main(self) -> list[TensorSharding]:
        """Read the program; returns the shardings of its results."""
        body = self.program.body
        arguments, results = self.annotated.free_ends()
        for number, (value, sharding) in enumerate(zip(body.arguments, self.annotated.arguments, strict=True)):
            self.sharding[value] = sharding or self.whole(value)
            if number in arguments:
                self.boundary[value] = number
        wanted = [
            sharding or self.whole(value) for value, sharding in zip(body.returned, self.annotated.results, strict=True)
        ]
        self._read(body, (), 1)
        self._copies = 1.0
        for number, (value, need) in enumerate(zip(body.returned, wanted, strict=True)):
            have = self.at(value)
            is_free = number in results and self.may_change(value) and self._evenly(value, have) == need
            if is_free:
                self.free_results[number] = value
            if is_free and number in self._next_step:
                self._want_alike([value], [body.arguments[self._next_step[number]]], 0, 1)
            elif not is_free or have != need:
                self._want([value], [None if is_free else need], 0, 1)
        for value, uses in enumerate(self.uses):
            needs = [use for use in uses if use.op is None and use.value == value]
            if needs:
                self.needs[value] = needs
        return wanted

    @property
    def free_ends(self) -> Iterable[int]:
        """The values returned as results without an annotation."""
        return self._ends_like.keys()

    def ends_like(self, value: int) -> list[TensorSharding]:
        """The shardings of arguments of the same type, for a value returned as a free result; none for others.

        A gradient, or what a parameter becomes, may lie as the parameter does.
        """
        given = self._ends_like.get(value)
        if given is None:
            return []
        free = self._free_of_type.get(self.program.value_type[value], ())
        return list(dict.fromkeys([*given, *(self.sharding[argument] for argument in free)]))

    def _find_ends_like(self) -> dict[int, list[TensorSharding]]:
        """By value returned as a free result, the shardings of annotated arguments of the same type."""
        types, given = self.program.value_type, dict[TensorType, dict[TensorSharding, None]]()
        for value in self.program.body.arguments:
            if value not in self.boundary:
                given.setdefault(types[value], {})[self.sharding[value]] = None
            else:
                self._free_of_type.setdefault(types[value], []).append(value)
        ends = [self.carried[value] for value in self.free_results.values()]
        return {value: list(given.get(types[value], ())) for value in ends}

    def constrained(self, value: int) -> int:
        """The value to which a chain of constraints applies, given the result of one of them."""
        while value in self.same and not self.may_change(value):
            value = self.same[value].value
        return value

    def _find_optional(self) -> dict[int, list[int]]:
        """By the value that they constrain, the results of constraints on which nothing hangs.

        Only operations of their own block take them, none of which says where they are to be, and places that say
        themselves what they need.
        """
        found: dict[int, list[int]] = {}
        results = {place.order: value for value, place in self.same.items()}
        optional = set[int]()
        for value in sorted(self.same, key=lambda value: self.same[value].order, reverse=True):
            root = self.constrained(value)
            if self.may_change(value) or not self.are_together(value, root):
                continue
            home = self._home[value]
            if all(
                (
                    use.block == home
                    and (use.need is not None if use.op is None else not traits_of_op(use.op.info).placement)
                )
                or results.get(use.order) in optional
                for use in self.uses[value]
            ):
                optional.add(value)
                found.setdefault(self.carried[root], []).insert(0, value)
        return found

    def rule(self, op: Op) -> OpShardingRule:
        """The rule of an operation that has a place."""
        return self._rules.rules[self.rule_number[op.index]]

    def _evenly(self, value: int, sharding: TensorSharding) -> TensorSharding:
        return sharding.evenly(self.program.value_type[value].shape)

    def write(self, before: Mapping[int, TensorSharding], ends: Mapping[int, TensorSharding]) -> list[ChangedValue]:
        """Write what has changed to the module, of values that were as said; returns that, in program order.

        `ends` are the shardings of free results, by what is returned.
        """
        changed = [value for value, old in sorted(before.items()) if old != self.sharding[value]]
        for op in {op.index: op for value in changed if (op := self.maker.get(value)) is not None}.values():
            self.annotated.set_of_op(op, tuple([self.sharding[value] for value in op.results]))
        results = list(self.results)
        for number, value in self.free_results.items():
            results[number] = self._evenly(value, ends.get(self.carried[value], self.at(value)))
        if changed or results != self.results:
            self.annotated.set_signature([self.sharding[v] for v in self.program.body.arguments], results)
        return [self._changed_value(value, before[value]) for value in changed]

    def _changed_value(self, value: int, before: TensorSharding) -> ChangedValue:
        maker, after = self.maker.get(value), self.sharding[value]
        if maker is None:
            return ChangedValue(self.program.function, self.boundary[value], before, after)
        return ChangedValue(maker.ir, maker.results.index(value), before, after)

    def fits(self, value: int, sharding: TensorSharding) -> bool:
        """Whether a value may have this sharding.

        An argument of the program is split no further. A result of the type of an argument without annotations, which
        it may become, lies as such an argument does, or is split less; one that lies as none of them is split no
        further. The result of a constraint is as that asks for, where it is not left open.
        """
        if value in self._limits and not _is_as_asked(sharding, self._limits[value]):
            return False
        if self.is_open:
            return True
        is_end = value in self._ends_like
        if not is_end and value not in self.boundary:
            return True
        old = self.sharding[value]
        is_no_finer = size_of(sharding.used_axes()) <= size_of(old.used_axes())
        if is_end:
            type_, alike = self.program.value_type[value], self.ends_like(value)
            pairs = zip(sharding.dim_axes(), old.dim_axes(), strict=True)
            is_less = all(not new or new == before for new, before in pairs)
            is_open = type_ not in self._free_of_type or (is_no_finer and old not in alike)
            return is_less or sharding in alike or (is_open and sharding.divides(type_.shape))
        return is_no_finer and sharding.divides(self.program.value_type[value].shape)

    def is_limited(self, value: int) -> bool:
        """Whether the shardings of a variable value are restricted."""
        if value in self._limits or self.is_open:
            return value in self._limits
        return value in self.names or value in self.boundary or value in self._ends_like

    def is_made_and_taken(self, value: int) -> bool:
        """Whether an operation makes a value that may change, and no loop, branch, constraint or result has it, too."""
        maker = self.maker.get(value)
        if maker is None or maker.index not in self.place or not self.may_change(value):
            return False
        return not any(value in held for held in (self.names, self.again, self.same, self._ends_like))

    def are_together(self, value: int, other: int) -> bool:
        """Whether two values are defined in one block."""
        return self._home[value] == self._home[other]

    def all(self) -> list[Consumer]:
        """Every place, in the order of the program."""
        needs = [use for uses in self.needs.values() for use in uses]
        return sorted((*self.place.values(), *needs), key=lambda use: use.order)

    def whole(self, value: int) -> TensorSharding:
        """The sharding of a replicated value."""
        return replicated(self.annotated.mesh, len(self.program.value_type[value].shape))

    def may_change(self, value: int) -> bool:
        """Whether a value has no annotation."""
        value = self.carried[value]
        return value in self.maker or value in self.boundary

    def at(self, value: int) -> TensorSharding:
        """The current sharding of a value."""
        return self.sharding[self.carried[value]]

    def _read(self, block: Body, held: Axes, times: int) -> None:
        """Read a block that runs so many times."""
        number = self._blocks
        self._blocks += 1
        for op in block.ops:
            self._order += 1
            if not number:
                self._copies = self._read_layer(op)
            given = self.annotated.of_op(op) or tuple([self.whole(value) for value in op.results])
            for value, sharding in zip(op.results, given, strict=True):
                self.sharding[value] = sharding
                self.is_free[value] = op.splittable
                self._home[value] = number
                self.held_around[value] = held
            if op.info.name in (CONSTRAINT, BARRIER):
                if GIVEN in op.ir.attributes and not self.is_free[op.operands[0]]:
                    self._limits[op.results[0]] = self.annotated.codec.read(op.ir.attributes[GIVEN])
                    self.maker[op.results[0]] = op
                    self._want_alike(op.operands, op.results, number, times)
                elif op.info.name == BARRIER and self.is_open:
                    self.maker.update(dict.fromkeys(op.results, op))
                    self._want_alike(op.operands, op.results, number, times)
                else:
                    self._want(op.operands, given, number, times)
                is_same = op.info.name == CONSTRAINT and not self.is_free[op.operands[0]]
                if is_same and not (self._all_bind and self._limits.get(op.results[0]) is None):
                    self.same[op.results[0]] = self.uses[op.operands[0]][-1]
                    self.again.setdefault(op.operands[0], []).append(op.results[0])
            elif op.info.name == MANUAL:
                self._read_manual(op, held, number, times)
            elif op.regions:
                self._read_regions(op, held, number, times)
            elif not op.splittable:
                self._read_compute(op, held, number, times)

    def _read_layer(self, op: Op) -> float:
        """The number of operations in layers for which one of @main stands."""
        said = op.ir.attributes.get(IN_MIDDLE)
        if said is None:
            return 1.0
        layer, number, missing = ir.DenseI64ArrayAttr(said)
        for index, value in enumerate(op.results):
            self.in_layers[value] = layer, (number, index)
        return 1.0 + float(missing) / 2

    def _read_compute(self, op: Op, held: Axes, block: int, times: int) -> None:
        self.held[op.index] = held
        self.rule_number[op.index] = self._rules.of_op(op.info, op.ir)
        use = self.place[op.index] = Consumer(self._order, block, times, op, copies=self._copies)
        for value in dict.fromkeys(op.operands):
            self.uses[value].append(use)
        runs = tuple([self._loops.runs_with(self._home[value]) for value in op.operands])
        self.runs[op.index] = runs if any(count > 1 for count in runs) else ()
        if ANNOTATED not in op.ir.attributes and not is_taking_apart(op.ir):
            for value in op.results:
                self.maker[value] = op

    def _read_regions(self, op: Op, held: Axes, block: int, times: int) -> None:
        is_loop = op.info.name == WHILE
        if ANNOTATED not in op.ir.attributes:
            self.maker.update(dict.fromkeys(op.results, op))
            if is_loop:
                self.handed_on.update(_handed_on(op))
        if is_loop:
            self._want_alike(op.operands, op.results, block, times)
            times *= self._loops.enter(block, op.ir)
        for index, region in enumerate(op.regions):
            for argument, result in zip(region.arguments, op.results, strict=False):
                self._home[argument] = self._blocks
                self.held_around[argument] = held
                self.carried[argument] = result
                self.names.setdefault(result, [result]).append(argument)
            inside = self._blocks
            self._read(region, held, times)
            if not (is_loop and index == 0):
                self._want_alike(region.returned, op.results, inside, times)
        if is_loop:
            self._loops.leave()
        bodies = [region.returned for region in op.regions[is_loop:]]
        for result, *returned in zip(op.results, *bodies, strict=True):
            if all(self._is_asked_for(value, self.sharding[result]) for value in returned):
                self.maker.pop(result, None)

    def _is_asked_for(self, value: int, sharding: TensorSharding) -> bool:
        """Whether a constraint gives this sharding to a value that a loop or branch returns."""
        return value in self.same and value not in self.maker and self.sharding[value] == sharding

    def _read_manual(self, op: Op, held: Axes, number: int, times: int) -> None:
        region, block = self.annotated.region(op), op.regions[0]
        self._want(op.operands, region.in_shardings, number, times)
        for argument, sharding in zip(block.arguments, region.in_shardings, strict=True):
            self.sharding[argument] = region.inside(sharding)
            self._home[argument] = self._blocks
            self.held_around[argument] = held + region.axes
        inside = self._blocks
        self._read(block, held + region.axes, times)
        returned = [region.inside(sharding) for sharding in region.out_shardings]
        self._want(block.returned, returned, inside, times)

    def _want(self, values: Iterable[int], needs: Iterable[TensorSharding | None], block: int, times: int) -> None:
        """Record needs of values: a sharding, or only an even one."""
        self._order += 1
        for value, need in zip(values, needs, strict=True):
            like = value if need is None else -1
            self.uses[value].append(Consumer(self._order, block, times, None, value, need, like, self._copies))

    def _want_alike(self, values: Iterable[int], others: Iterable[int], block: int, times: int) -> None:
        """Record that each value is needed with the sharding of another one."""
        self._order += 1
        for value, other in zip(values, others, strict=True):
            place = Consumer(self._order, block, times, None, value, None, other, self._copies)
            self.uses[value].append(place)
            self.uses[other].append(place)


def _is_as_asked(sharding: TensorSharding, asked: TensorSharding) -> bool:
    """Whether a sharding satisfies a constraint, whose open dimensions may be split further."""
    pairs = zip(sharding.dim_axes(), asked.dims, strict=True)
    if not all(starts_with(axes, dim.axes) if dim.is_open else axes == dim.axes for axes, dim in pairs):
        return False
    return not overlap(sharding.used_axes(), asked.replicated)


def _handed_on(loop: Op) -> list[int]:
    """The results of a loop whose carries the body only reads."""
    body = loop.regions[-1]
    ends = zip(loop.results, body.arguments, body.returned, strict=True)
    return [result for result, argument, returned in ends if argument == returned]

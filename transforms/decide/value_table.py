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
    """A consumer of values: an operation, or another use of `value` with the sharding `need` or that of value `like`.

    A result of the program without an annotation needs its value with the value's own sharding, evenly split. `order`
    is the position in the program. The consumer is in block number `block`, which runs `times` times. If repeated
    layers are folded, it stands for `copies` consumers.
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
    def reads(self) -> Sequence[int]:
        """The values that it reads."""
        return (self.value,) if self.op is None else self.op.operands


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedValue:
    """A value whose sharding differs from propagation: result `index` of an operation, or argument `index` of @main.

    For an argument, `op` is the function.
    """

    op: Operation
    index: int
    before: TensorSharding
    after: TensorSharding


class ValueTable:
    """The values of a propagated program with their producers and consumers, as lists and dictionaries by value number.

    - `sharding` is the current sharding of each value. A loop carry has one sharding, that of the loop's result:
      `carried` maps the arguments in the loop to this result, and `aliases` maps the result to all of these.
      `only_read` are the results of loops that only read the carry.
    - `producer` is the producer of each result whose sharding may change; `unannotated_arguments` the number of each
      such argument.
    - `unannotated_results` are the results of the program without an annotation, by number; `returned_unannotated`
      their values.
    - `uses` are all consumers of a value; `needs` are those that are not operations.
    - `consumers`, `held` (the manual axes around it), `runs` (by operand, how often it runs for one reshard of the
      operand) and `rule_number` are by operation.
    - `constraint_uses` maps the result of a constraint to the use of its operand; `constraints` maps an operand to the
      results of its constraints. `optional` maps a value to the results of its constraints that do not bind.
    - `in_layers` maps the results of operations in repeated layers to their layer and their key in it.

    `next_step` maps results, by number, to the arguments that they become in the next step. With it, the table is open
    (`is_open`): annotations limit shardings, and the result of propagation does not. `assume_finite` is as in
    `linear_operands`.
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
        self.is_splittable = [False] * count
        self.uses: list[list[Consumer]] = [[] for _ in range(count)]
        self.needs: dict[int, list[Consumer]] = {}
        self.producer: dict[int, Op] = {}
        self.unannotated_arguments: dict[int, int] = {}
        self.unannotated_results: dict[int, int] = {}
        self.carried: list[int] = list(range(count))
        self.aliases: dict[int, list[int]] = {}
        self.only_read: set[int] = set()
        self._unannotated_of_type: dict[TensorType, list[int]] = {}  # the arguments of `unannotated_arguments`
        self._limits: dict[int, TensorSharding] = {}  # by result: a constraint with open dimensions
        self.consumers: dict[int, Consumer] = {}
        self.held: dict[int, Axes] = {}
        self.runs: dict[int, tuple[int, ...]] = {}
        self.rule_number: dict[int, int] = {}
        self.constraint_uses: dict[int, Consumer] = {}
        self.constraints: dict[int, list[int]] = {}
        self._order = self._blocks = 0
        self._copies = 1.0  # of the current operation
        self.in_layers: dict[int, tuple[int, tuple[int, int]]] = {}
        self._home = [0] * count  # by value: its block
        self.held_around: list[Axes] = [()] * count  # by value: the manual axes around it
        self._loops = LoopNest[int]()  # around the current operation
        self.results = self._read_main()
        self._argument_shardings = self._find_argument_shardings()
        self.optional = {} if all_bind else self._find_optional()

    def _read_main(self) -> list[TensorSharding]:
        """Read the program; returns the shardings of its results."""
        body = self.program.body
        arguments, results = self.annotated.free_ends()
        for number, (value, sharding) in enumerate(zip(body.arguments, self.annotated.arguments, strict=True)):
            self.sharding[value] = sharding or self.whole(value)
            if number in arguments:
                self.unannotated_arguments[value] = number
        wanted = [
            sharding or self.whole(value) for value, sharding in zip(body.returned, self.annotated.results, strict=True)
        ]
        self._read(body, (), 1)
        self._copies = 1.0
        for number, (value, need) in enumerate(zip(body.returned, wanted, strict=True)):
            have = self.at(value)
            is_unannotated = number in results and self.may_change(value) and self._evenly(value, have) == need
            if is_unannotated:
                self.unannotated_results[number] = value
            if is_unannotated and number in self._next_step:
                self._want_alike([value], [body.arguments[self._next_step[number]]], 0, 1)
            elif not is_unannotated or have != need:
                self._want([value], [None if is_unannotated else need], 0, 1)
        for value, uses in enumerate(self.uses):
            needs = [use for use in uses if use.op is None and use.value == value]
            if needs:
                self.needs[value] = needs
        return wanted

    @property
    def returned_unannotated(self) -> Iterable[int]:
        """The values returned as results without an annotation."""
        return self._argument_shardings.keys()

    def argument_shardings(self, value: int) -> list[TensorSharding]:
        """The shardings of the arguments that have the type of a value returned without an annotation; else none.

        A gradient or an updated parameter may have the sharding of the parameter.
        """
        given = self._argument_shardings.get(value)
        if given is None:
            return []
        free = self._unannotated_of_type.get(self.program.value_type[value], ())
        return list(dict.fromkeys([*given, *(self.sharding[argument] for argument in free)]))

    def _find_argument_shardings(self) -> dict[int, list[TensorSharding]]:
        """By value returned without an annotation: the shardings of annotated arguments of the same type."""
        types, given = self.program.value_type, dict[TensorType, dict[TensorSharding, None]]()
        for value in self.program.body.arguments:
            if value not in self.unannotated_arguments:
                given.setdefault(types[value], {})[self.sharding[value]] = None
            else:
                self._unannotated_of_type.setdefault(types[value], []).append(value)
        ends = [self.carried[value] for value in self.unannotated_results.values()]
        return {value: list(given.get(types[value], ())) for value in ends}

    def constrained(self, value: int) -> int:
        """The value at the start of the chain of constraints that ends with this value."""
        while value in self.constraint_uses and not self.may_change(value):
            value = self.constraint_uses[value].value
        return value

    def _find_optional(self) -> dict[int, list[int]]:
        """By constrained value, the results of constraints that do not bind.

        Such a result has consumers in its own block only: operations that place nothing in a memory or a layout, and
        uses that have a sharding of their own.
        """
        found: dict[int, list[int]] = {}
        results = {consumer.order: value for value, consumer in self.constraint_uses.items()}
        optional = set[int]()
        for value in sorted(self.constraint_uses, key=lambda value: self.constraint_uses[value].order, reverse=True):
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
        """The rule of an operation."""
        return self._rules.rules[self.rule_number[op.index]]

    def _evenly(self, value: int, sharding: TensorSharding) -> TensorSharding:
        return sharding.evenly(self.program.value_type[value].shape)

    def write(self, before: Mapping[int, TensorSharding], returned: Mapping[int, TensorSharding]) -> list[ChangedValue]:
        """Write shardings that differ from `before` to the module; returns the changed values in program order.

        `returned` are the shardings of results without an annotation, by the returned value.
        """
        changed = [value for value, old in sorted(before.items()) if old != self.sharding[value]]
        for op in {op.index: op for value in changed if (op := self.producer.get(value)) is not None}.values():
            self.annotated.set_of_op(op, tuple([self.sharding[value] for value in op.results]))
        results = list(self.results)
        for number, value in self.unannotated_results.items():
            results[number] = self._evenly(value, returned.get(self.carried[value], self.at(value)))
        if changed or results != self.results:
            self.annotated.set_signature([self.sharding[v] for v in self.program.body.arguments], results)
        return [self._changed_value(value, before[value]) for value in changed]

    def _changed_value(self, value: int, before: TensorSharding) -> ChangedValue:
        producer, after = self.producer.get(value), self.sharding[value]
        if producer is None:
            return ChangedValue(self.program.function, self.unannotated_arguments[value], before, after)
        return ChangedValue(producer.ir, producer.results.index(value), before, after)

    def fits(self, value: int, sharding: TensorSharding) -> bool:
        """Whether a value may have this sharding.

        An argument is split evenly, over no more devices than by propagation. A result without an annotation may have
        the sharding of an argument of its type, or that of propagation with some dimensions unsplit. It may have any
        other even sharding if no argument of its type lacks an annotation; or if this is no finer than by propagation,
        and that of propagation is not the sharding of such an argument. The result of a constraint satisfies the
        constraint.
        """
        if value in self._limits and not _is_as_asked(sharding, self._limits[value]):
            return False
        if self.is_open:
            return True
        is_end = value in self._argument_shardings
        if not is_end and value not in self.unannotated_arguments:
            return True
        old = self.sharding[value]
        is_no_finer = size_of(sharding.used_axes()) <= size_of(old.used_axes())
        if is_end:
            type_, alike = self.program.value_type[value], self.argument_shardings(value)
            pairs = zip(sharding.dim_axes(), old.dim_axes(), strict=True)
            is_less = all(not new or new == before for new, before in pairs)
            is_open = type_ not in self._unannotated_of_type or (is_no_finer and old not in alike)
            return is_less or sharding in alike or (is_open and sharding.divides(type_.shape))
        return is_no_finer and sharding.divides(self.program.value_type[value].shape)

    def is_limited(self, value: int) -> bool:
        """Whether the shardings of a variable value are restricted."""
        if value in self._limits or self.is_open:
            return value in self._limits
        return value in self.aliases or value in self.unannotated_arguments or value in self._argument_shardings

    def is_between_operations(self, value: int) -> bool:
        """Whether a value may change and is no loop carry, branch result, constraint or result of the program."""
        producer = self.producer.get(value)
        if producer is None or producer.index not in self.consumers or not self.may_change(value):
            return False
        return not any(
            value in held for held in (self.aliases, self.constraints, self.constraint_uses, self._argument_shardings)
        )

    def are_together(self, value: int, other: int) -> bool:
        """Whether two values are defined in one block."""
        return self._home[value] == self._home[other]

    def all(self) -> list[Consumer]:
        """All consumers, in program order."""
        needs = [use for uses in self.needs.values() for use in uses]
        return sorted((*self.consumers.values(), *needs), key=lambda use: use.order)

    def whole(self, value: int) -> TensorSharding:
        """The sharding of a replicated value."""
        return replicated(self.annotated.mesh, len(self.program.value_type[value].shape))

    def may_change(self, value: int) -> bool:
        """Whether a value has no annotation."""
        value = self.carried[value]
        return value in self.producer or value in self.unannotated_arguments

    def at(self, value: int) -> TensorSharding:
        """The current sharding of a value."""
        return self.sharding[self.carried[value]]

    def _read(self, block: Body, held: Axes, times: int) -> None:
        """Read a block that runs `times` times."""
        number = self._blocks
        self._blocks += 1
        for op in block.ops:
            self._order += 1
            if not number:
                self._copies = self._read_layer(op)
            given = self.annotated.of_op(op) or tuple([self.whole(value) for value in op.results])
            for value, sharding in zip(op.results, given, strict=True):
                self.sharding[value] = sharding
                self.is_splittable[value] = op.splittable
                self._home[value] = number
                self.held_around[value] = held
            if op.info.name in (CONSTRAINT, BARRIER):
                if GIVEN in op.ir.attributes and not self.is_splittable[op.operands[0]]:
                    self._limits[op.results[0]] = self.annotated.codec.read(op.ir.attributes[GIVEN])
                    self.producer[op.results[0]] = op
                    self._want_alike(op.operands, op.results, number, times)
                elif op.info.name == BARRIER and self.is_open:
                    self.producer.update(dict.fromkeys(op.results, op))
                    self._want_alike(op.operands, op.results, number, times)
                else:
                    self._want(op.operands, given, number, times)
                is_same = op.info.name == CONSTRAINT and not self.is_splittable[op.operands[0]]
                if is_same and not (self._all_bind and self._limits.get(op.results[0]) is None):
                    self.constraint_uses[op.results[0]] = self.uses[op.operands[0]][-1]
                    self.constraints.setdefault(op.operands[0], []).append(op.results[0])
            elif op.info.name == MANUAL:
                self._read_manual(op, held, number, times)
            elif op.regions:
                self._read_regions(op, held, number, times)
            elif not op.splittable:
                self._read_compute(op, held, number, times)

    def _read_layer(self, op: Op) -> float:
        """The number of operations for which an operation of @main stands, if layers are folded."""
        position = op.ir.attributes.get(IN_MIDDLE)
        if position is None:
            return 1.0
        layer, number, missing = ir.DenseI64ArrayAttr(position)
        for index, value in enumerate(op.results):
            self.in_layers[value] = layer, (number, index)
        return 1.0 + float(missing) / 2

    def _read_compute(self, op: Op, held: Axes, block: int, times: int) -> None:
        self.held[op.index] = held
        self.rule_number[op.index] = self._rules.of_op(op.info, op.ir)
        use = self.consumers[op.index] = Consumer(self._order, block, times, op, copies=self._copies)
        for value in dict.fromkeys(op.operands):
            self.uses[value].append(use)
        runs = tuple([self._loops.runs_with(self._home[value]) for value in op.operands])
        self.runs[op.index] = runs if any(count > 1 for count in runs) else ()
        if ANNOTATED not in op.ir.attributes and not is_taking_apart(op.ir):
            for value in op.results:
                self.producer[value] = op

    def _read_regions(self, op: Op, held: Axes, block: int, times: int) -> None:
        is_loop = op.info.name == WHILE
        if ANNOTATED not in op.ir.attributes:
            self.producer.update(dict.fromkeys(op.results, op))
            if is_loop:
                self.only_read.update(_only_read(op))
        if is_loop:
            self._want_alike(op.operands, op.results, block, times)
            times *= self._loops.enter(block, op.ir)
        for index, region in enumerate(op.regions):
            for argument, result in zip(region.arguments, op.results, strict=False):
                self._home[argument] = self._blocks
                self.held_around[argument] = held
                self.carried[argument] = result
                self.aliases.setdefault(result, [result]).append(argument)
            inside = self._blocks
            self._read(region, held, times)
            if not (is_loop and index == 0):
                self._want_alike(region.returned, op.results, inside, times)
        if is_loop:
            self._loops.leave()
        bodies = [region.returned for region in op.regions[is_loop:]]
        for result, *returned in zip(op.results, *bodies, strict=True):
            if all(self._is_asked_for(value, self.sharding[result]) for value in returned):
                self.producer.pop(result, None)

    def _is_asked_for(self, value: int, sharding: TensorSharding) -> bool:
        """Whether a constraint gives this sharding to a value that a loop or branch returns."""
        return value in self.constraint_uses and value not in self.producer and self.sharding[value] == sharding

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
        """Record uses of values with a sharding; with None, any even one."""
        self._order += 1
        for value, need in zip(values, needs, strict=True):
            like = value if need is None else -1
            self.uses[value].append(Consumer(self._order, block, times, None, value, need, like, self._copies))

    def _want_alike(self, values: Iterable[int], others: Iterable[int], block: int, times: int) -> None:
        """Record uses of values with the shardings of other values."""
        self._order += 1
        for value, other in zip(values, others, strict=True):
            consumer = Consumer(self._order, block, times, None, value, None, other, self._copies)
            self.uses[value].append(consumer)
            self.uses[other].append(consumer)


def _is_as_asked(sharding: TensorSharding, asked: TensorSharding) -> bool:
    """Whether a sharding satisfies a constraint, whose open dimensions may be split further."""
    pairs = zip(sharding.dim_axes(), asked.dims, strict=True)
    if not all(starts_with(axes, dim.axes) if dim.is_open else axes == dim.axes for axes, dim in pairs):
        return False
    return not overlap(sharding.used_axes(), asked.replicated)


def _only_read(loop: Op) -> list[int]:
    """The results of a loop whose body only reads the carry."""
    body = loop.regions[-1]
    ends = zip(loop.results, body.arguments, body.returned, strict=True)
    return [result for result, argument, returned in ends if argument == returned]

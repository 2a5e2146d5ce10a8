"""The derivations of propagation, in terms of the user's program."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from gspmd.dialect.axes import Axes
from gspmd.dialect.common_mesh import order_of
from gspmd.dialect.device_order import expand
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.location_marks import GIVEN
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.unexplained import Unexplained
from gspmd.explanations.value_names import GivenNames
from gspmd.transforms.ir.boundary_orders import read_orders
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Op
from gspmd.transforms.ir.signature import argument_name, dictionaries, result_name
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.propagate import Completion
from gspmd.transforms.propagate.derivation import AxisPosition, Chain, Derivations, Link
from gspmd.transforms.propagate.factors import LEVELS
from gspmd.transforms.propagate.write import boundary_shardings

_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')


@dataclasses.dataclass(frozen=True, slots=True)
class DerivationStep:
    """One step back: dimension `dimension` of `value` got its axes from dimension `from_dimension` of `from_value`.

    In `operation` (which defines `operation_value`, at `location`) they are `target` and `source`, for example `result
    0` and `operand 1`. `level` names the level of propagation, `priority` is the user's.
    """

    value: str
    dimension: int
    from_value: str
    from_dimension: int
    operation: str
    operation_value: str
    target: str
    source: str
    location: SourceLocation | None
    level: str
    priority: int

    def to_dict(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "location": str(self.location) if self.location else None}


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """The annotation at the end of a derivation: `kind` is `argument`, `result`, `constraint` or `operation`.

    `sharding` is as the user wrote it; `label` is the framework's name of the value, if any.
    """

    kind: str
    value: str
    label: str
    dimension: int
    sharding: str
    location: SourceLocation | None

    @property
    def text(self) -> str:
        """`argument state['w'] (%arg3) [{"x"}, {}]`."""
        name = f"{self.label} ({self.value})" if self.label and self.label != self.value else self.value
        return f"{self.kind} {name} {self.sharding}"

    def to_dict(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "location": str(self.location) if self.location else None}


@dataclasses.dataclass(frozen=True, slots=True)
class Derivation:
    """The derivation of the axes `axes` (written `"x", "y"`) of a dimension.

    Of a long derivation, `steps` are those near the value, and `left_out` is the number of further steps to the origin.
    """

    dimension: int
    axes: str
    steps: tuple[DerivationStep, ...]
    origin: Origin
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON keys: `dimension`, `axes`, `steps`, `left_out`, `origin`."""
        return {
            "dimension": self.dimension,
            "axes": self.axes,
            "steps": [step.to_dict() for step in self.steps],
            "left_out": self.left_out,
            "origin": self.origin.to_dict(),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class NamedSlot:
    """A value with its slot and sharding, before its derivation; see `ExplainedValue`."""

    name: str
    kind: str
    label: str
    operation: str
    type: TensorType
    location: SourceLocation | None
    slot: int
    sharding: TensorSharding
    called_for: str = ""
    used_by: str = ""
    frames: tuple[str, ...] = ()
    device_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _NamedOperation:
    """The name of an operation, kept because passes may rewrite it."""

    name: str
    value: str
    location: SourceLocation | None


class Explainer:
    """Names the slots, nodes and annotations of a propagated program. Reads the module only in its constructor."""

    def __init__(self, completion: Completion, names: GivenNames) -> None:
        self.completion = completion
        self.names = names
        self.program = completion.annotated.program
        self.value_names = names.of_program(self.program)
        self.unexplained = Unexplained()
        self._derivations = Derivations(completion.solver)
        self._labels()
        self.ops = [self._named(op) for op in self.program.ops]
        self.blocks = self.program.blocks()
        graph = completion.graph
        self._entries = {
            slot: (self.program.ops[index], position)
            for index, slots in graph.entry_slots.items()
            for position, slot in enumerate(slots)
        }
        self.refined: dict[int, tuple[Axes, ...]] = {}  # the shardings of slots after propagation
        self._origins: dict[int, Origin] = {}
        annotations: list[tuple[int, Origin]] = self.unexplained.attempt(
            "what is annotated", lambda: [*self._annotations()], []
        )
        for slot, origin in annotations:
            self._origins[slot] = origin
            if slot in graph.leaders:  # an annotation of one member of a group holds for all
                self._origins.setdefault(graph.leader(slot), origin)
        self._origins |= {slot: self._origins[constrained] for slot, constrained in graph.asked.items()}
        self.sites: list[NamedSlot] = self.unexplained.attempt("which values there are", lambda: [*self._sites()], [])
        self._made: dict[tuple[int, TensorSharding], tuple[Derivation, ...]] = {}

    def _labels(self) -> None:
        function = self.completion.annotated.function
        arguments = self.program.body.arguments
        entries = dictionaries(function, "arg_attrs", len(arguments))
        self.argument_labels = [
            argument_name(self.program.value_ir[value].location, entry) or ""
            for value, entry in zip(arguments, entries, strict=True)
        ]
        entries = dictionaries(function, "res_attrs", len(self.program.body.returned))
        self.result_labels = [result_name(entry) or "" for entry in entries]
        ends, mesh = read_orders(function), self.completion.annotated.mesh
        self._argument_ids, self._result_ids = (
            [() if order is None or order == expand(order_of(mesh)) else order for order in orders]
            for orders in (ends.arguments, ends.results)
        )

    def _named(self, op: Op) -> _NamedOperation:
        value = self.value_names[op.results[0]] if op.results else ""
        return _NamedOperation(op.info.name, value, source_location(op.ir.location))

    # ---- values ----

    def _sites(self) -> Iterator[NamedSlot]:
        program, graph = self.program, self.completion.graph
        arguments, results = boundary_shardings(self.completion.annotated, graph, self.completion.solver)
        for value, label, sharding in zip(program.body.arguments, self.argument_labels, arguments, strict=True):
            type_, slot, text = program.value_type[value], program.slot_of(value), str(program.value_ir[value].location)
            place, name = source_location(program.value_ir[value].location), self.value_names[value]
            ids = self._argument_ids[program.body.arguments.index(value)]
            yield NamedSlot(name, "argument", label, "", type_, place, slot, sharding, "", "", _frames(text), ids)
        uses = self._constant_uses()
        for op in program.ops:
            yield from self._op_sites(op, uses)
        rows = zip(program.body.returned, graph.result_slots, self.result_labels, results, strict=True)
        for index, (value, slot, label, sharding) in enumerate(rows):
            type_, ids = program.value_type[value], self._result_ids[index]
            yield NamedSlot(f"result {index}", "result", label, "", type_, None, slot, sharding, device_ids=ids)

    def _op_sites(self, op: Op, uses: dict[int, list[tuple[int, str]]]) -> Iterator[NamedSlot]:
        """The results of an operation and the block arguments of its regions."""
        text = str(op.ir.location)
        called_for, frames = self.names.called_for(GIVEN.numbers(text)), _frames(text)

        def site(value: int, kind: str, slot: int, user: str = "") -> NamedSlot:
            sharding = self._sharding(slot)
            name, type_, place = self.value_names[value], self.program.value_type[value], self.ops[op.index].location
            return NamedSlot(name, kind, "", op.info.name, type_, place, slot, sharding, called_for, user, frames)

        for value in op.results:
            slots = uses.get(value, []) if op.splittable else [(self.program.slot_of(value), "")]
            for slot, user in slots:
                yield site(value, "operation", slot, user)
        for region in op.regions:
            for value in region.arguments:
                yield site(value, "block argument", self.program.slot_of(value))

    def _sharding(self, slot: int) -> TensorSharding:
        solver = self.completion.solver
        return solver.interner.values[solver.state[slot]].closed()

    def _constant_uses(self) -> dict[int, list[tuple[int, str]]]:
        """For each constant: one slot for each distinct sharding among its uses, and one of these uses."""
        found: dict[int, dict[TensorSharding, tuple[int, str]]] = {}

        def add(values: list[int], slots: list[int], user: str) -> None:
            for value, slot in zip(values, slots, strict=True):
                definer = self.program.value_def[value]
                if definer >= 0 and self.program.ops[definer].splittable:
                    found.setdefault(value, {}).setdefault(self._sharding(slot), (slot, user))

        for op in self.program.ops:
            add(op.operands, op.operand_slots, f"{op.info.name} {self.ops[op.index].value}".strip())
        for block in self.blocks:
            add(block.returned, block.returned_slots, "return")
        return {value: list(uses.values()) for value, uses in found.items()}

    # ---- annotations ----

    def _annotations(self) -> Iterator[tuple[int, Origin]]:
        program, annotated = self.program, self.completion.annotated
        for index, sharding in enumerate(annotated.arguments):
            if sharding is not None:
                value = program.body.arguments[index]
                location = source_location(program.value_ir[value].location)
                name, label = self.value_names[value], self.argument_labels[index]
                yield program.slot_of(value), Origin("argument", name, label, 0, print_dims(sharding), location)
        for op in program.ops:
            given = annotated.of_op(op)
            kind = "constraint" if op.info.name == CONSTRAINT else "operation"
            for value, slot, sharding in zip(op.results, op.result_slots, given or (), strict=False):
                location = self.ops[op.index].location
                yield slot, Origin(kind, self.value_names[value], "", 0, print_dims(sharding), location)
        for slot, (op, position) in self._entries.items():
            name, location = self.value_names[op.operands[position]], self.ops[op.index].location
            text = print_dims(annotated.region(op).in_shardings[position])
            origin = Origin("constraint", name, "", 0, text, location)
            yield slot, origin
            yield program.slot_of(op.regions[0].arguments[position]), origin
        for index, slot in enumerate(self.completion.graph.result_slots):
            sharding = annotated.results[index]
            if sharding is not None:
                label = self.result_labels[index]
                yield slot, Origin("result", f"result {index}", label, 0, print_dims(sharding), None)

    # ---- derivations ----

    def derivations(self, slot: int, sharding: TensorSharding) -> tuple[Derivation, ...]:
        """The derivation of each axis of each dimension; axes with a common derivation are grouped.

        Empty for a sharding that the value got only after propagation.
        """
        slot = self.completion.graph.decider(slot)
        if self.refined.get(slot) == sharding.dim_axes():
            return ()
        key = (slot, sharding)
        if key not in self._made:
            self._made[key] = self.unexplained.attempt(
                f"how {self.slot_name(slot)} got its sharding", lambda: (*self._derive(slot, sharding),), ()
            )
        return self._made[key]

    def _derive(self, slot: int, sharding: TensorSharding) -> Iterator[Derivation]:
        mesh = self.completion.annotated.mesh
        for dim, axes in enumerate(sharding.dim_axes()):
            groups: dict[tuple[Any, ...], tuple[Axes, Chain]] = {}
            for axis in axes:
                for chain in self._derivations.chains(AxisPosition(slot, dim, axis)):
                    part = chain.origin.axis
                    known, _ = groups.get(_path(chain), ((), chain))
                    groups[_path(chain)] = ((*known, part), chain)
            for parts, chain in groups.values():
                steps = tuple(self._step(link) for link in chain.links)
                origin = dataclasses.replace(self._origins[chain.origin.slot], dimension=chain.origin.dim)
                yield Derivation(dim, print_axes(parts, mesh), steps, origin, chain.left_out)

    def slot_name(self, slot: int) -> str:
        """The value of a slot."""
        if slot < len(self.program.slot_value):
            return self.value_names[self.program.slot_value[slot]]
        if slot in self.completion.graph.result_slots:
            return f"result {self.completion.graph.result_slots.index(slot)}"
        op, position = self._entries[slot]
        return self.value_names[op.operands[position]]

    def _step(self, link: Link) -> DerivationStep:
        change = link.change
        node = self.completion.solver.nodes[change.node]
        if node.op == len(self.program.ops):
            named = _NamedOperation("func.return", "", None)
        else:
            named = self.ops[node.op]
        return DerivationStep(
            value=self.slot_name(link.place.slot),
            dimension=link.place.dim,
            from_value=self.slot_name(link.given.slot),
            from_dimension=link.given.dim,
            operation=named.name,
            operation_value=named.value,
            target=self._tensor(change.node, link.target),
            source=self._tensor(change.node, link.source),
            location=named.location,
            level=LEVELS[change.level],
            priority=change.priority,
        )

    def _tensor(self, index: int, tensor: int) -> str:
        """`operand 1`, or the name of a value that control flow connects."""
        graph, node = self.completion.graph, self.completion.solver.nodes[index]
        if node.op == len(self.program.ops):
            position = graph.result_slots.index(node.slots[1])
            return f"operand {position}" if tensor == 0 else f"result {position}"
        op = self.program.ops[node.op]
        if op.info.name == MANUAL and node.slots[1] in self._entries:
            position = self._entries[node.slots[1]][1]
            inside = node.slots[0] == graph.leader(self.program.slot_of(op.regions[0].arguments[position]))
            return f"{'argument' if inside and tensor == 0 else 'operand'} {position}"
        if op.regions:
            position = self._position(op, node.slots[1])
            if tensor == 1:
                return f"result {position}"
            operand = op.operand_slots[position] if op.info.name == WHILE else None
            initial = operand is not None and node.slots[0] == graph.leader(operand)
            return f"{'initial' if initial else 'returned'} value {position}"
        if op.info.name == BARRIER:
            return f"{('operand', 'result')[tensor]} {self._position(op, node.slots[1])}"
        count = len(op.operand_slots)
        return f"operand {tensor}" if tensor < count else f"result {tensor - count}"

    def _position(self, op: Op, slot: int) -> int:
        """The index of the result whose slot the node has."""
        return [self.completion.graph.leader(s) for s in op.result_slots].index(slot)


def _path(chain: Chain) -> tuple[Any, ...]:
    """A key that is equal for derivations that differ only in the axis."""
    links = tuple((link.change.node, link.target, link.source, link.place.dim, link.given.dim) for link in chain.links)
    return (*links, chain.left_out, chain.origin.slot, chain.origin.dim)


def _frames(location: str) -> tuple[str, ...]:
    """The frames of a location as `file:line`, innermost first."""
    return tuple(dict.fromkeys(f"{file}:{line}" for file, line in _FRAME.findall(location)))

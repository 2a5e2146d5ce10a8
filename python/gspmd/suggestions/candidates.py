"""Which annotations are worth a try, the most promising first.

Two kinds are. A dimension that an axis does not split yet might be split over it: what that could save is time of the
operations that it, or a dimension tied to it, occurs in, and memory of their tensors. And where tensors of an operation
disagree, one of them might be annotated as another way to run the operation has it: what that could save is what the
conflict costs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gspmd.dialect.axes import Axis, size_of
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.conflicts import Conflict
from gspmd.explanations.derivations import Explainer
from gspmd.explanations.explanation import Explanation
from gspmd.suggestions.annotating import GivenValue, ValueAnnotation
from gspmd.suggestions.operation_times import bytes_of, operation_times
from gspmd.suggestions.tied_dimensions import TiedDimensions
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.propagate import Completion

_MOST_WAYS = 4  # of one conflict that are tried
_MOST_MEMBERS = 2  # arguments, and other values, of a group of tied dimensions that are tried


@dataclasses.dataclass(frozen=True, slots=True)
class PromisingAnnotation:
    """An annotation to try, and the seconds, or the bytes of memory, that it might save at most."""

    annotation: ValueAnnotation
    most: float


@dataclasses.dataclass(frozen=True, slots=True)
class _AnnotatableValue:
    """A value that can be annotated and nobody has annotated, with its slot and what was completed for it."""

    value: GivenValue
    slot: int
    type: TensorType
    sharding: TensorSharding


class Candidates:
    """What could be annotated in an explained program, to save time or, with `memory`, memory.

    Reads the program only when it is made.
    """

    def __init__(self, explanation: Explanation, hardware: Hardware, memory: bool) -> None:
        self._memory = memory
        explainer = explanation.explainer
        self._hardware = hardware
        self._mesh = explanation.mesh
        self._graph = explainer.completion.graph
        solver = explainer.completion.solver
        self._shardings = [solver.interner.values[number].closed() for number in solver.state]
        self._places = {place.value.name: place for place in _places(explanation)}
        self._tied = TiedDimensions(explainer.completion)
        self._members: dict[int, list[tuple[_AnnotatableValue, int]]] = defaultdict(list)
        for place in self._places.values():
            for dimension, size in enumerate(place.type.shape):
                if size > 1:
                    self._members[self._tied.of(place.slot, dimension)].append((place, dimension))
        self._gains: dict[tuple[int, str], float] = defaultdict(float)
        self._count_tensors()
        if not memory:
            self._count_operations(explainer.completion)

    def first(self, conflicts: Sequence[Conflict]) -> list[PromisingAnnotation]:
        """What to try in the program as it is, the most promising first."""
        found = [*self._of_conflicts(conflicts), *self._splits()]
        best: dict[ValueAnnotation, PromisingAnnotation] = {}
        for candidate in sorted(found, key=lambda candidate: -candidate.most):
            best.setdefault(candidate.annotation, candidate)
        return list(best.values())

    def further(self, annotation: ValueAnnotation) -> list[ValueAnnotation]:
        """The same value split along one more axis."""
        place = self._places[annotation.value.name]
        found = []
        for axis, dimension in itertools.product(self._axes(), range(len(place.type.shape))):
            more = _split(annotation.sharding, place.type.shape, dimension, axis)
            if more is not None:
                found.append(ValueAnnotation(annotation.value, more))
        return found

    def _axes(self) -> list[Axis]:
        return [axis for axis in self._mesh.all_axes() if axis.size > 1]

    # ---- dimensions that are not split yet ----

    def _count_tensors(self) -> None:
        """Add what a device would hold less of every tensor, or how much less time it would take to read it."""
        unit = 1.0 if self._memory else 1.0 / self._hardware.memory_bytes_per_s
        axes = self._axes()
        for slot, (type_, sharding) in enumerate(zip(self._graph.slot_types, self._shardings, strict=True)):
            used = sharding.used_axes()
            free = [axis for axis in axes if not any(axis.overlaps(other) for other in used)]
            if free:
                held = bytes_of(type_.of_shape(sharding.local_shape(type_.shape))) * unit
                for group in self._tied.of_slots((slot,), (len(type_.shape),)):
                    for axis in free:
                        self._gains[group, axis.name] += held * (1 - 1 / axis.size)

    def _count_operations(self, completion: Completion) -> None:
        """Add the time that operations would take less which an axis divides in no way yet."""
        axes = self._axes()
        for node, whole_s in operation_times(completion, self._hardware):
            used = {axis for slot in node.slots for axis in self._shardings[slot].used_axes()}
            free = [axis for axis in axes if not any(axis.overlaps(other) for other in used)]
            if free:
                ranks = tuple(self._graph.slot_types[slot].rank for slot in node.slots)
                for group in self._tied.of_slots(node.slots, ranks):
                    for axis in free:
                        self._gains[group, axis.name] += whole_s / size_of(tuple(used)) * (1 - 1 / axis.size)

    def _splits(self) -> Iterator[PromisingAnnotation]:
        axes = {axis.name: axis for axis in self._axes()}
        for (group, name), most in self._gains.items():
            fitting = []
            for place, dimension in self._members[group]:
                sharding = _split(place.sharding, place.type.shape, dimension, axes[name])
                if sharding is not None:
                    held = place.type.of_shape(place.sharding.local_shape(place.type.shape))
                    fitting.append((bytes_of(held), ValueAnnotation(place.value, sharding)))
            fitting.sort(key=lambda each: -each[0])
            for is_argument in (True, False):
                those = [each for _, each in fitting if (each.value.operation is None) == is_argument]
                for number, annotation in enumerate(those[:_MOST_MEMBERS]):
                    yield PromisingAnnotation(annotation, most / 2**number)

    # ---- conflicts ----

    def _of_conflicts(self, conflicts: Sequence[Conflict]) -> Iterator[PromisingAnnotation]:
        for conflict in conflicts:
            if not conflict.collectives:
                continue
            ways = [way for way in conflict.alternatives if not way.chosen][:_MOST_WAYS]
            names = [tensor.value for tensor in conflict.tensors]
            wanted: dict[ValueAnnotation, None] = {}
            for way in ways:
                shardings = way.operand_shardings + way.result_shardings
                for name, sharding in zip(names, shardings, strict=False):
                    wanted.update(dict.fromkeys(self._annotation(name, sharding)))
            for tensor in conflict.tensors:
                wanted.update(dict.fromkeys(self._annotation(tensor.value, tensor.after)))
            for annotation in wanted:
                yield PromisingAnnotation(annotation, 0.0 if self._memory else conflict.time_s)

    def _annotation(self, name: str, sharding: TensorSharding) -> Iterator[ValueAnnotation]:
        """The value annotated so, if it can be and is not so already."""
        place = self._places.get(name)
        if place is None or len(place.type.shape) != sharding.rank or place.sharding.manual:
            return
        wanted = place.sharding.with_axes(sharding.dim_axes())
        if wanted != place.sharding:
            yield ValueAnnotation(place.value, wanted)


def _split(sharding: TensorSharding, shape: tuple[int, ...], dimension: int, axis: Axis) -> TensorSharding | None:
    """The sharding with a dimension split over one more axis; None where the axis is in use or nothing is to split."""
    if any(axis.overlaps(used) for used in sharding.used_axes()):
        return None
    dims = list(sharding.dim_axes())
    dims[dimension] = (*dims[dimension], axis)
    return None if shape[dimension] < size_of(dims[dimension]) else sharding.with_axes(tuple(dims))


def _places(explanation: Explanation) -> Iterator[_AnnotatableValue]:
    """The arguments and results of operations that an annotation can name, and that have none."""
    explainer = explanation.explainer
    annotated = explainer.completion.annotated
    program = annotated.program
    rows = zip(program.body.arguments, annotated.arguments, explainer.argument_labels, strict=True)
    for number, (value, given, label) in enumerate(rows):
        type_, slot, name = program.value_type[value], program.slot_of(value), explainer.value_names[value]
        if type_.shape and not (given and given.says_something()):
            known = GivenValue(None, number, name, label if label != name else "", None, type_.shape)
            yield _AnnotatableValue(known, slot, type_, _completed(explainer, slot))
    for op in program.ops:
        if op.splittable or op.info.name == CONSTRAINT or annotated.of_op(op):
            continue
        for value, slot in zip(op.results, op.result_slots, strict=True):
            type_, name = program.value_type[value], explainer.value_names[value]
            at = explanation.names.place_of(name)
            if type_.shape and at is not None:
                known = GivenValue(*at, name, "", explainer.ops[op.index].location, type_.shape)
                yield _AnnotatableValue(known, slot, type_, _completed(explainer, slot))


def _completed(explainer: Explainer, slot: int) -> TensorSharding:
    solver = explainer.completion.solver
    return solver.interner.values[solver.state[slot]].closed()

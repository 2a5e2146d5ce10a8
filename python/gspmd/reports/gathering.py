"""Gathers the results of the analyses of a program for a report, without computing anything of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from gspmd.costs.cost_report import CollectiveCost, CostReport, to_dict
from gspmd.costs.timeline import Timeline
from gspmd.dialect.errors import SourceLocation
from gspmd.explanations.conflicts import Conflict, Tensor
from gspmd.explanations.explained_values import ExplainedValue
from gspmd.explanations.explanation import Explanation
from gspmd.reports.data import (
    FORMAT,
    BoundaryData,
    CollectiveData,
    ConflictData,
    EventData,
    LiveValueData,
    MeshData,
    MomentData,
    ProofData,
    RefinedData,
    ReportData,
    Table,
    TensorData,
    TimelineData,
    ValueData,
)
from gspmd.reports.derivation_table import DerivationTable
from gspmd.reports.picture_table import PictureTable
from gspmd.reports.places import LineNumbers
from gspmd.reports.proofs import Proof
from gspmd.runtime.layout import element_a_device
from gspmd.text_report import last_name, placement_dict, sharding_text
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.signature import ValueSignature
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.propagate.factors import LEVELS


def gathered(found: Explanation, cost: CostReport, timeline: Timeline, proof: Proof | None) -> ReportData:
    """The data of a program, from its explanation, its cost, an estimated or compiled timeline, and its proof."""
    return _Gathering(found, cost, proof).data(timeline)


class _Gathering:
    """Assigns the numbers by which the parts of a report refer to each other."""

    def __init__(self, found: Explanation, cost: CostReport, proof: Proof | None) -> None:
        self.found, self.cost, self.proof = found, cost, proof
        self.places, self.pictures = LineNumbers(cost), PictureTable()
        values = [derivation for value in found.values for derivation in value.derivations]
        tensors = [d for conflict in found.conflicts for tensor in conflict.tensors for d in tensor.derivations]
        self.ways = DerivationTable([*values, *tensors], self.place)
        self.alternatives: dict[tuple[Any, ...], int] = {}

    def data(self, timeline: Timeline) -> ReportData:
        """All of the data; tables that others refer to are built last."""
        found, cost = self.found, self.cost
        signature = found.partitioned.signature
        fields: dict[str, Any] = {
            "mesh": self._mesh(),
            "arguments": self._boundary(signature.inputs, "argument"),
            "results": self._boundary(signature.outputs, "result"),
            "values": Table(map(self._value, found.values)),
            "collectives": self._collectives(),
            "conflicts": tuple(map(self._conflict, found.conflicts)),
            "refinements": tuple(
                RefinedData(each.name, each.operation, self.place(each.location), each.sharding, each.runs_as)
                for each in found.refinements
            ),
            "timeline": self._timeline(timeline),
            "moments": Table(
                MomentData(each.name, self.place(each.location), each.held, each.temporaries)
                for each in cost.memory.moments
            ),
            "at_peak": tuple(
                LiveValueData(
                    each.value, each.kind, each.type, each.bytes, self.place(each.location), each.replicated_over
                )
                for each in cost.memory.buffers
            ),
            "origins": self.ways.origins(found.origins()),
            "proof": _proof_data(self.proof),
        }
        return ReportData(
            format=FORMAT,
            version=metadata.version("gspmd"),
            program=cost.program,
            target=cost.target,
            cost=_totals(cost),
            notes=cost.notes,
            pictures=self.pictures.pictures(),
            steps=self.ways.steps,
            levels=LEVELS,
            alternatives=tuple(_alternatives(key) for key in self.alternatives),
            peak_moment=cost.memory.peak_moment,
            lines=self.places.table(),
            **fields,
        )

    @property
    def place(self) -> Callable[[SourceLocation | None], int]:
        return self.places.number

    def _mesh(self) -> MeshData:
        mesh = self.cost.mesh
        picture = self.pictures.number(tuple(size for _, size in mesh.axes), element_a_device(mesh))
        return MeshData(mesh.axes, mesh.size, picture, placement_dict(self.cost.placement))

    def _boundary(self, values: Sequence[ValueSignature], kind: str) -> tuple[BoundaryData, ...]:
        """Arguments or results, grouped by last name and form."""
        explained = [number for number, value in enumerate(self.found.values) if value.kind == kind]
        names = [
            value.name or (self.found.values[explained[index]].name if index < len(explained) else f"{kind} {index}")
            for index, value in enumerate(values)
        ]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, value in enumerate(values):
            key = (last_name(names[index]), value.shape, value.element_type, value.sharding, value.donated)
            groups.setdefault(key, []).append(index)
        rows = []
        for (name, *_), members in groups.items():
            first = values[members[0]]
            type_ = TensorType(first.shape, first.element_type, not first.is_token)
            rows.append(
                BoundaryData(
                    name=name,
                    names=tuple(names[index] for index in members),
                    values=tuple(explained[index] for index in members if index < len(explained)),
                    type=type_.brief,
                    sharding=sharding_text(first.sharding, self.cost.mesh),
                    local_shape=first.local_shape,
                    bytes=math.ceil(bytes_of(type_)),
                    local_bytes=math.ceil(bytes_of(type_.of_shape(first.local_shape))),
                    is_donated=first.donated,
                    picture=self.pictures.number(first.shape, first.sharding),
                )
            )
        return tuple(rows)

    def _value(self, value: ExplainedValue) -> ValueData:
        return ValueData(
            name=value.name,
            kind=value.kind,
            label=value.label,
            operation=value.operation,
            type=value.type,
            sharding=value.sharding,
            local_shape="x".join(map(str, value.local_shape)),
            used_by=value.used_by,
            called_from=" < ".join(frame.rpartition("/")[2] for frame in value.frames[1:]),
            line=self.place(value.location),
            picture=self.pictures.number(value.shape, value.placement),
            derivations=tuple(map(self.ways.row, value.derivations)),
            proof=self.proof.of(value) if self.proof is not None else "",
        )

    def _collectives(self) -> Table:
        """Every collective, with the conflict that it resolves."""
        owner = {number: index for index, conflict in enumerate(self.found.conflicts) for number in conflict.numbers}
        return Table(self._collective(c, owner.get(n, -1)) for n, c in enumerate(self.cost.collectives))

    def _collective(self, priced: CollectiveCost, conflict: int) -> CollectiveData:
        collective = priced.collective
        return CollectiveData(
            kind=collective.kind,
            axes=collective.axes.replace('"', ""),
            bytes=collective.bytes,
            at_most=collective.at_most,
            count=collective.count,
            time_s=priced.time_s,
            total_bytes=priced.total_bytes,
            total_time_s=priced.total_time_s,
            cause=collective.cause,
            line=self.place(collective.location),
            conflict=conflict,
        )

    def _conflict(self, conflict: Conflict) -> ConflictData:
        ways = tuple((a.operands, a.results, a.bytes, a.time_s, a.chosen) for a in conflict.alternatives)
        return ConflictData(
            operation=conflict.operation,
            value=conflict.value,
            line=self.place(conflict.location),
            reasons=conflict.reasons,
            tensors=tuple(map(self._tensor, conflict.tensors)),
            collectives=conflict.numbers,
            bytes=conflict.bytes,
            time_s=conflict.time_s,
            alternatives=self.alternatives.setdefault(ways, len(self.alternatives)) if ways else -1,
        )

    def _tensor(self, tensor: Tensor) -> TensorData:
        pictures = (-1, -1)
        if tensor.type is not None and tensor.before != tensor.after:
            shape = tensor.type.shape
            pictures = self.pictures.number(shape, tensor.before), self.pictures.number(shape, tensor.after)
        return TensorData(
            place=tensor.place,
            value=tensor.value,
            type=tensor.type.brief if tensor.type else "",
            has=tensor.has,
            runs_as=tensor.runs_as,
            before=pictures[0],
            after=pictures[1],
            origins=tuple(dict.fromkeys(self.ways.origin(each.origin) for each in tensor.derivations)),
        )

    def _timeline(self, timeline: Timeline) -> TimelineData:
        lanes = {lane: number for number, lane in enumerate(timeline.lanes)}
        return TimelineData(
            source=timeline.source,
            total_s=timeline.total_s,
            compute_s=timeline.compute_s,
            communication_s=timeline.communication_s,
            hidden_s=timeline.hidden_s,
            exposed_s=timeline.exposed_s,
            lanes=tuple(lane.replace('"', "") for lane in lanes),
            events=Table(
                EventData(
                    lane=lanes[event.lane],
                    name=event.name,
                    start_s=event.start_s,
                    duration_s=event.duration_s,
                    line=self.place(event.location),
                    collective=event.collective,
                    turns=event.turns,
                    busy_s=event.busy_s,
                )
                for event in timeline.events
            ),
        )


def _proof_data(proof: Proof | None) -> ProofData | None:
    if proof is None:
        return None
    return ProofData(proof.verification.verdict.value, tuple(proof.verification.lines()))


def _totals(cost: CostReport) -> Mapping[str, Any]:
    """The output of `gspmd cost --json` without its lists, which are tables of the report."""
    told = to_dict(cost)
    told["communication"] = {name: value for name, value in told["communication"].items() if name != "collectives"}
    told["memory"] = {name: value for name, value in told["memory"].items() if name != "at_peak"}
    return told


def _alternatives(ways: tuple[Any, ...]) -> list[dict[str, Any]]:
    names = ("operands", "results", "bytes", "time_s", "chosen")
    return [dict(zip(names, way, strict=True)) for way in ways]

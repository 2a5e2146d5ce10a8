"""The data of a report: frozen records, which `as_json` turns into dictionaries, lists and numbers.

Source lines are indices into `ReportData.lines` and pictures indices into `ReportData.pictures`; -1 is none. Long lists
are tables, stored as one list per column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

FORMAT = 1
"""Incremented when readers of the data have to change."""


class Table(tuple[Any, ...]):
    """Records of one class, written by column."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LineData:
    """A source line with its costs on a device in one call of the program; `text` is empty if the file is missing."""

    file: str
    line: int
    text: str
    time_s: float
    sent_bytes: int
    communication_s: float
    flops: float
    compute_s: float
    traffic_bytes: float
    traffic_s: float
    held_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryData:
    """Arguments or results of one form: `values` are their indices among the values, `names` their names.

    `bytes` is the size of one of them, `local_bytes` the size of its shard.
    """

    name: str
    names: tuple[str, ...]
    values: tuple[int, ...]
    type: str
    sharding: str
    local_shape: tuple[int, ...]
    bytes: int
    local_bytes: int
    is_donated: bool
    picture: int


@dataclasses.dataclass(frozen=True, slots=True)
class ValueData:
    """A value: see `gspmd.explanations.explanation.ExplainedValue`.

    `called_from` are the lines of the enclosing calls, innermost first. Each of `derivations` is a dimension, its axes,
    the index of the first derivation step (-1 if the value is annotated) and the origin. `proof`, if requested, is the
    `Verdict` of a result, or the `Presence` of another value on the devices.
    """

    name: str
    kind: str
    label: str
    operation: str
    type: str
    sharding: str
    local_shape: str
    used_by: str
    called_from: str
    line: int
    picture: int
    derivations: tuple[tuple[int, str, int, int], ...]
    proof: str


@dataclasses.dataclass(frozen=True, slots=True)
class DerivationStepData:
    """A step of propagation: see `gspmd.explanations.derivations.DerivationStep`.

    `next` is the step before it, -1 at the origin; `left_out` is the number of further steps that are not listed.
    """

    value: str
    dimension: int
    from_value: str
    from_dimension: int
    operation: str
    operation_value: str
    target: str
    source: str
    line: int
    level: int
    priority: int
    next: int
    left_out: int


@dataclasses.dataclass(frozen=True, slots=True)
class OriginData:
    """An annotation, and the number of values that get an axis from it."""

    kind: str
    value: str
    label: str
    sharding: str
    line: int
    reach: int


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveData:
    """A collective: see `gspmd.collectives.Collective`; `count` is None in loops of unknown length."""

    kind: str
    axes: str
    bytes: int
    at_most: bool
    count: int | None
    time_s: float
    total_bytes: int
    total_time_s: float
    cause: str
    line: int
    conflict: int


@dataclasses.dataclass(frozen=True, slots=True)
class TensorData:
    """A tensor of a conflict, with pictures before and after its reshard, if any."""

    place: str
    value: str
    type: str
    has: str
    runs_as: str
    before: int
    after: int
    origins: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ConflictData:
    """A conflict: see `gspmd.explanations.conflicts.Conflict`.

    `alternatives` is an index into `ReportData.alternatives`.
    """

    operation: str
    value: str
    line: int
    reasons: tuple[str, ...]
    tensors: tuple[TensorData, ...]
    collectives: tuple[int, ...]
    bytes: int
    time_s: float
    alternatives: int


@dataclasses.dataclass(frozen=True, slots=True)
class RefinedData:
    """A value that runs with another sharding than propagation chose."""

    name: str
    operation: str
    line: int
    sharding: str
    runs_as: str


@dataclasses.dataclass(frozen=True, slots=True)
class EventData:
    """An event of the timeline: see `gspmd.costs.timeline.Event`; `lane` is an index into `TimelineData.lanes`."""

    lane: int
    name: str
    start_s: float
    duration_s: float
    line: int
    collective: int
    turns: int
    busy_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class TimelineData:
    """The schedule of a device: `source` is `estimate`, or `compiler` for the schedule of a compiled program."""

    source: str
    total_s: float
    compute_s: float
    communication_s: float
    hidden_s: float
    exposed_s: float
    lanes: tuple[str, ...]
    events: Table


@dataclasses.dataclass(frozen=True, slots=True)
class MomentData:
    """The live memory of a device after the operation `name`."""

    name: str
    line: int
    held: int
    temporaries: int


@dataclasses.dataclass(frozen=True, slots=True)
class LiveValueData:
    """A value that is live at the memory peak."""

    value: str
    kind: str
    type: str
    bytes: int
    line: int
    replicated_over: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MeshData:
    """The mesh, drawn as an array with one element per device; on a topology, `placement` is that of its axes."""

    axes: tuple[tuple[str, int], ...]
    devices: int
    picture: int
    placement: Mapping[str, str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class ProofData:
    """What is proved of the partitioned program: `verdict` of all results, `lines` as `gspmd verify` prints them."""

    verdict: str
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ReportData:
    """A report. `cost` is the output of `gspmd cost --json` without its lists."""

    format: int
    version: str
    program: str
    target: str
    mesh: MeshData
    cost: Mapping[str, Any]
    notes: tuple[str, ...]
    arguments: tuple[BoundaryData, ...]
    results: tuple[BoundaryData, ...]
    pictures: tuple[Mapping[str, Any], ...]
    lines: Table
    values: Table
    steps: Table
    origins: tuple[OriginData, ...]
    levels: tuple[str, ...]
    collectives: Table
    conflicts: tuple[ConflictData, ...]
    alternatives: tuple[Any, ...]
    refinements: tuple[RefinedData, ...]
    timeline: TimelineData
    moments: Table
    peak_moment: int
    at_peak: tuple[LiveValueData, ...]
    proof: ProofData | None


def as_json(value: Any) -> Any:
    """A value of this module as a JSON value."""
    if isinstance(value, Table):
        fields = dataclasses.fields(value[0]) if value else ()
        return {field.name: [as_json(getattr(row, field.name)) for row in value] for field in fields}
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    return value

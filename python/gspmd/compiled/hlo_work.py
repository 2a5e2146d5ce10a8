"""The work of an optimized HLO module on a device in one call: collectives by mesh axes, arithmetic, memory traffic.

Loops count with their trip count, or once if it is unknown.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule
from gspmd.compiled.step_time import is_free, traffic_bytes
from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.hlo_groups import groups, pairs
from gspmd.transforms.ir.groups import reach_of
from gspmd.transforms.machine.cost import sent_bytes

_STEPS_AWAY = 4  # copies and changes of layout may be in between
_SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
_FROM_DOT = re.compile(r'op_name="(?:[^"]*/)?dot(?:_general)?(?:\.\d+)?"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_CONV_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\b(stride|pad|lhs_dilate|rhs_dilate)=([\dx_-]+)")


@dataclasses.dataclass(frozen=True, slots=True)
class HloCollective:
    """One collective of an HLO module.

    `sent_bytes` is what a device sends in one run, for an operand of `local_bytes`, in a group of `devices` along
    `axes`; `runs` is the number of runs in a call of the program, exact if `known`. `source` is `file:line`, or empty.
    `reach` is the distance of a permute's messages along an axis.
    """

    kind: str
    axes: Axes
    devices: int
    local_bytes: float
    runs: int
    known: bool
    source: str
    reach: int = 1

    @property
    def sent_bytes(self) -> float:
        return sent_bytes(self.kind, self.local_bytes, self.devices)


@dataclasses.dataclass(frozen=True, slots=True)
class HloWork:
    """The work of a module: `flops` of contractions and convolutions by element type, and bytes of memory traffic."""

    collectives: tuple[HloCollective, ...]
    flops: Mapping[str, float]
    traffic_bytes: float


def work_in(module: OptimizedModule, mesh: Mesh) -> HloWork:
    """The work of a module for the devices of a mesh. Errors: InputError for replica groups in an unknown form."""
    flops: dict[str, float] = {}
    for visit in module.visits(fused=True):
        element, count = flops_of(visit.instruction, module.computations[visit.computation])
        if count:
            flops[element] = flops.get(element, 0.0) + count * visit.times
    traffic = sum(
        traffic_bytes(module, visit) * visit.times
        for visit in module.visits()
        if not visit.instruction.collective and not is_free(module, visit.instruction)
    )
    return HloWork(tuple(collectives_in(module, mesh)), flops, traffic)


def collectives_in(module: OptimizedModule, mesh: Mesh) -> Iterator[HloCollective]:
    """The collectives of a module that send anything, with fused ones classified by their effect.

    Errors: as `work_in`.
    """
    for visit in module.visits():
        collective = module.collective_in(visit.instruction)
        kind = collective.collective if collective is not None else None
        if collective is None or kind is None:
            continue
        devices, local_bytes = operand_of(module, collective)
        axes = axes_of(collective.attributes, mesh)
        source = module.source(collective)
        source = source or _source(module, module.computations[visit.computation], visit.instruction)
        inside = [pair for pair in pairs(collective.attributes) if max(pair) < mesh.size]
        reach = max(1, reach_of(mesh, np.array(inside, np.int64)))
        found = HloCollective(kind, axes, devices, local_bytes, visit.times, visit.known, source, reach)
        if found.sent_bytes:
            yield found


def _source(module: OptimizedModule, computation: Mapping[str, Instruction], collective: Instruction) -> str:
    """The source line of a collective, or if it has none, of its consumer or producer."""
    for follow in (_users, _makers):
        front = [collective]
        for _ in range(_STEPS_AWAY):
            found = next((line for each in front if (line := module.source(each))), "")
            if found:
                return found
            front = follow(computation, front)
    return ""


def _users(computation: Mapping[str, Instruction], used: Sequence[Instruction]) -> list[Instruction]:
    names = {each.name for each in used}
    return [each for each in computation.values() if not names.isdisjoint(each.operands)]


def _makers(computation: Mapping[str, Instruction], made: Sequence[Instruction]) -> list[Instruction]:
    return [computation[name] for each in made for name in each.operands if name in computation]


def operand_of(module: OptimizedModule, collective: Instruction) -> tuple[int, float]:
    """The number of devices in a group of a collective, and the operand bytes of each."""
    devices = 2 if collective.collective == "collective_permute" else len(module.group(collective))
    return devices, collective.operand_bytes(devices)


def axes_of(attributes: str, mesh: Mesh) -> Axes:
    """The mesh axes, or parts of them, along which the devices of a collective differ; whole axes for a permute.

    Groups that are not a product of parts of axes have whole axes.
    """
    sizes = [size for _, size in mesh.axes]
    exchanged: Sequence[Sequence[int]] = [pair for pair in pairs(attributes) if pair[0] != pair[1]]
    members = exchanged or groups(attributes, math.prod(sizes))[:1]
    position = {device: place for place, device in enumerate(mesh.device_ids)}
    found = []
    for axis, (name, size) in enumerate(mesh.axes):
        places = [
            sorted({int(np.unravel_index(position.get(d, d), sizes)[axis]) for d in group if d < mesh.size})
            for group in members
        ]
        most = max(places, key=len, default=[])
        if len(most) > 1:
            found.append(Axis(name, 1, size) if exchanged else _part(name, size, most))
    return tuple(found)


def _part(name: str, size: int, places: Sequence[int]) -> Axis:
    """The part of an axis that has devices at these places."""
    count, stride = len(places), places[1] - places[0]
    regular = list(places) == list(range(places[0], places[0] + count * stride, stride))
    if not regular or size % (count * stride):
        return Axis(name, 1, size)
    return Axis(name, size // (count * stride), count)


def flops_of(instruction: Instruction, computation: Mapping[str, Instruction]) -> tuple[str, float]:
    """The element type and the number of operations of a dot or a convolution; of anything else none.

    XLA writes a dot that contracts only dimensions of size 1 as a multiplication, which keeps the name of the dot.
    """
    if instruction.opcode == "dot":
        element, lhs = _array(computation[instruction.operands[0]].type)
        contracted = _CONTRACTED.search(instruction.attributes)
        dims = contracted[1].split(",") if contracted else []
        return element, 2.0 * math.prod(_array(instruction.type)[1]) * math.prod(lhs[int(d)] for d in dims if d)
    if instruction.opcode == "convolution":
        return _convolution_flops(instruction, computation)
    if instruction.opcode == "multiply" and _FROM_DOT.search(instruction.attributes):
        element, dims = _array(instruction.type)
        return element, 2.0 * math.prod(dims)
    return "", 0.0


def _convolution_flops(instruction: Instruction, computation: Mapping[str, Instruction]) -> tuple[str, float]:
    """The element type and the operations of a convolution, without those on padding and holes.

    On TPUs, many dots are convolutions of which every result takes one element of the window.
    """
    labels = _CONV_LABELS.search(instruction.attributes)
    assert labels is not None, "a convolution names its dimensions"
    operands = [computation[name].type for name in instruction.operands]
    (element, kernel), (_, given), (_, made) = map(_array, (operands[1], operands[0], instruction.type))
    count = 2.0 * math.prod(made) * math.prod(kernel) / kernel[labels[2].index("o")]
    values = {name: text.split("x") for name, text in _WINDOW.findall(instruction.attributes)}
    for label in filter(str.isdigit, labels[1]):
        number = int(label)
        size, results = kernel[labels[2].index(label)], made[labels[3].index(label)]
        stride, hole, step = (
            int(values[name][number]) if name in values else 1 for name in ("stride", "lhs_dilate", "rhs_dilate")
        )
        low = int(values["pad"][number].split("_")[0]) if "pad" in values else 0
        places = np.add.outer(np.arange(results) * stride - low, np.arange(size) * step)
        inside = (places >= 0) & (places <= (given[labels[1].index(label)] - 1) * hole) & (places % hole == 0)
        count *= inside.sum() / (results * size) if results else 1
    return element, float(count)


def _array(type_text: str) -> tuple[str, list[int]]:
    found = _SHAPE.match(type_text)
    return (found[1], [int(n) for n in found[2].split(",") if n]) if found else ("", [])

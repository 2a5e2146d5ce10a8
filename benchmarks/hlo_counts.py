"""What an optimised HLO module does on a device in one call: collectives and arithmetic, loops as they run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from gspmd.compiled.hlo_work import work_in
from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule, bytes_of_type
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.machine.cost import sent_bytes

_UNNAMED = Mesh(())
_CALLED = re.compile(r"\bcalls=%?([\w.\-]+)")
_SAME_ELEMENTS = ("all-reduce-done", "bitcast", "convert", "copy", "reshape", "transpose")


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a device sends and computes in one call of an optimised HLO module.

    By kind of collective, `sent` is the bytes that a device sends and `number` how many collectives it takes part in.
    `flops` counts convolutions and dots, also those that XLA writes as multiplications. `unknown_loops` is the number
    of collectives in loops whose trip count is not known; they count once. `saved_by_scattering` is what would not be
    sent if all-reduces of which each device only goes on with a slice, one of as many as there are devices in the
    group, were reduce-scatters. XLA makes them so on TPUs and GPUs, and not on CPUs.
    """

    sent: dict[str, float]
    number: dict[str, int]
    flops: float
    unknown_loops: int
    saved_by_scattering: float = 0.0

    @property
    def bytes(self) -> float:
        return sum(self.sent.values())

    @property
    def scattered_bytes(self) -> float:
        return self.bytes - self.saved_by_scattering


def count(text: str) -> Counts:
    """Count the entry computation of a module's text, and what it calls."""
    module = OptimizedModule(text)
    work = work_in(module, _UNNAMED)
    sent: dict[str, float] = {}
    number: dict[str, int] = {}
    for each in work.collectives:
        sent[each.kind] = sent.get(each.kind, 0.0) + each.sent_bytes * each.runs
        number[each.kind] = number.get(each.kind, 0) + each.runs
    unknown = sum(not each.known for each in work.collectives)
    return Counts(sent, number, sum(work.flops.values()), unknown, sum(_saved_by_scattering(module)))


def _saved_by_scattering(module: OptimizedModule) -> Iterator[float]:
    """Bytes by which all-reduces that are only sliced send more than reduce-scatters would."""
    for visit in module.visits():
        if visit.instruction.collective != "all_reduce":
            continue
        devices = len(module.group(visit.instruction))
        computation = module.computations[visit.computation]
        for name, local in _reduced(visit.instruction, computation):
            if devices > 1 and _is_sliced(module, computation, name, local / devices):
                whole, scattered = (sent_bytes(kind, local, devices) for kind in ("all_reduce", "reduce_scatter"))
                yield (whole - scattered) * visit.times


def _reduced(collective: Instruction, computation: Mapping[str, Instruction]) -> Iterator[tuple[str, float]]:
    """The values that an all-reduce gives, with their bytes: itself, or the members of its tuple."""
    if not collective.type.startswith("("):
        yield collective.name, bytes_of_type(collective.type)
        return
    done = [each.name for each in computation.values() if collective.name in each.operands and "-done" in each.opcode]
    for member in computation.values():
        if member.opcode == "get-tuple-element" and not {collective.name, *done}.isdisjoint(member.operands):
            yield member.name, bytes_of_type(member.type)


def _is_sliced(module: OptimizedModule, computation: Mapping[str, Instruction], name: str, part: float) -> bool:
    """Whether all that is done with a value is to take slices of at most `part` bytes of it."""
    users = [each for each in computation.values() if name in each.operands]
    return bool(users) and all(_slices(module, computation, user, name, part) for user in users)


def _slices(
    module: OptimizedModule, computation: Mapping[str, Instruction], user: Instruction, name: str, part: float
) -> bool:
    if user.opcode == "dynamic-slice":
        return user.operands[0] == name and bytes_of_type(user.type) <= part
    if user.opcode in _SAME_ELEMENTS:
        bytes_ratio = bytes_of_type(user.type) / max(bytes_of_type(computation[name].type), 1)
        return _is_sliced(module, computation, user.name, part * bytes_ratio)
    called = _CALLED.search(user.attributes) if user.opcode == "fusion" else None
    if called is None:
        return False
    inner = module.computations[called[1]]
    places = [str(place) for place, operand in enumerate(user.operands) if operand == name]
    parameters = [each.name for each in inner.values() if each.opcode == "parameter" and each.literal in places]
    return all(_is_sliced(module, inner, parameter, part) for parameter in parameters)

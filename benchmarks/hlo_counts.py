"""What an optimised HLO module does on a device in one call: collectives and arithmetic, loops as they run."""

from __future__ import annotations

import dataclasses
import math
import re

from traffic import hlo_transfer

from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule

_SHAPE = re.compile(r"\w+\[([\d,]*)\]")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_KERNEL_LABELS = re.compile(r"dim_labels=\w+_(\w+)->")


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a device sends and computes in one call of an optimised HLO module.

    By kind of collective, `sent` is the bytes that a device sends and `number` how many collectives it takes part in.
    `flops` counts dots and convolutions. `unknown_loops` is the number of collectives in loops whose trip count is not
    known; they count once.
    """

    sent: dict[str, float]
    number: dict[str, int]
    flops: float
    unknown_loops: int

    @property
    def bytes(self) -> float:
        return sum(self.sent.values())


def count(text: str) -> Counts:
    """Count the entry computation of a module's text, and what it calls."""
    module = OptimizedModule(text)
    sent: dict[str, float] = {}
    number: dict[str, int] = {}
    flops, unknown = 0.0, 0
    for visit in module.visits(fused=True):
        if visit.instruction.collective:
            transfer = hlo_transfer(module, visit.instruction)
            sent[transfer.kind] = sent.get(transfer.kind, 0.0) + transfer.bytes * visit.times
            number[transfer.kind] = number.get(transfer.kind, 0) + visit.times
            unknown += not visit.known
        flops += _flops(visit.instruction, module.computations[visit.computation]) * visit.times
    return Counts(sent, number, flops, unknown)


def _flops(instruction: Instruction, computation: dict[str, Instruction]) -> float:
    if instruction.opcode == "dot":
        lhs = _dims(computation[instruction.operands[0]].type)
        contracted = _CONTRACTED.search(instruction.attributes)
        dims = contracted[1].split(",") if contracted else []
        return 2.0 * math.prod(_dims(instruction.type)) * math.prod(lhs[int(d)] for d in dims if d)
    if instruction.opcode == "convolution":
        kernel = _dims(computation[instruction.operands[1]].type)
        labels = _KERNEL_LABELS.search(instruction.attributes)
        assert labels is not None, "a convolution names its dimensions"
        return 2.0 * math.prod(_dims(instruction.type)) * math.prod(kernel) / kernel[labels[1].index("o")]
    return 0.0


def _dims(type_text: str) -> list[int]:
    found = _SHAPE.match(type_text)
    return [int(n) for n in found[1].split(",") if n] if found else []

"""Iterated dimensions: those of which each iteration of a loop reads one element, as of a batch in parts."""

from __future__ import annotations

from gspmd.transforms.ir.program import WHILE, Body, Program
from gspmd.transforms.ops import traits_of


def iterated_dims(program: Program) -> dict[int, set[int]]:
    """The iterated dimensions, by the slot of a loop's operand."""
    found: dict[int, set[int]] = {}
    for op in program.ops:
        if op.info.name != WHILE:
            continue
        taken = _taken(op.regions[1])
        for given, carried in zip(op.operand_slots, op.result_slots, strict=True):
            if carried in taken:
                found.setdefault(given, set()).update(taken[carried])
    return found


def _taken(block: Body) -> dict[int, set[int]]:
    """By slot, the dimensions of which only slices in the block read one element each."""
    found: dict[int, set[int]] = {}
    for op in block.ops:
        if traits_of(op.info.name).looks_up and op.info.operands[0].rank == op.info.results[0].rank:
            shapes = zip(op.info.operands[0].shape, op.info.results[0].shape, strict=True)
            cut = {dim: window for dim, (size, window) in enumerate(shapes) if window != size}
            if set(cut.values()) == {1}:
                found.setdefault(op.operand_slots[0], set()).update(cut)
    return found

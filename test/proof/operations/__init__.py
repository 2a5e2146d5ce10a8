"""Generators of operations by family: each appends one operation, with random attributes, to a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from proof.operations import (
    compute,
    control,
    convolution,
    creation,
    dynamic_slicing,
    elementwise,
    indexing,
    layout,
    linear_algebra,
    reduction,
    slicing,
    sorting,
    windows,
)
from proof.writer import Writer

Generator = Callable[[Writer], object]

FAMILIES: Mapping[str, Sequence[Generator]] = {
    "contraction": compute.CONTRACTION,
    "control_flow": control.CONTROL_FLOW,
    "convolution": convolution.CONVOLUTION,
    "creation": creation.CREATION,
    "dynamic_slicing": dynamic_slicing.DYNAMIC_SLICING,
    "elementwise": elementwise.ELEMENTWISE,
    "gather": indexing.GATHER,
    "layout": layout.LAYOUT,
    "linear_algebra": linear_algebra.LINEAR_ALGEBRA,
    "normalization": compute.NORMALIZATION,
    "random": creation.RANDOM,
    "reduction": reduction.REDUCTION,
    "scan": control.SCAN,
    "scatter": indexing.SCATTER,
    "slicing": slicing.SLICING,
    "sorting": sorting.SORTING,
    "structure": control.STRUCTURE,
    "windows": windows.WINDOWS,
}
"""A generator that is in a list twice is used twice as often."""

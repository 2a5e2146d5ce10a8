"""What the compiler knows of every operation, one file per family, put together in one table."""

from __future__ import annotations

from gspmd.transforms.ir.callbacks import target_of
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops import (
    callbacks,
    communication,
    concatenation,
    contraction,
    convolution,
    creation,
    custom_call,
    dynamic_slicing,
    elementwise,
    gather,
    layout,
    linear_algebra,
    normalization,
    random,
    reduce_window,
    reduction,
    refused,
    scan,
    scatter,
    select_and_scatter,
    slicing,
    sorting,
)
from gspmd.transforms.ops.custom_call import TRAITS_OF_CALLS
from gspmd.transforms.ops.op_definition import OpTable, joined
from gspmd.transforms.ops.structure import OF_SHARDY, STRUCTURE_TRAITS
from gspmd.transforms.ops.traits import UNKNOWN, Traits

OPS: OpTable = joined(
    family.OPS
    for family in (
        elementwise,
        creation,
        layout,
        contraction,
        reduction,
        slicing,
        concatenation,
        dynamic_slicing,
        gather,
        scatter,
        sorting,
        scan,
        reduce_window,
        select_and_scatter,
        convolution,
        linear_algebra,
        normalization,
        random,
        custom_call,
        communication,
        callbacks,
        refused,
    )
)

_TRAITS: dict[str, Traits] = {**{name: definition.traits for name, definition in OPS.items()}, **STRUCTURE_TRAITS}


def traits_of(name: str) -> Traits:
    """What is known of all operations of a name; of those that are calls only what holds whatever they call."""
    return _TRAITS.get(name) or (OF_SHARDY if name.startswith("sdy.") else UNKNOWN)


def traits_of_op(op: Operation) -> Traits:
    """What is known of one operation (of MLIR): of a custom call, what is known of its target."""
    name = op.name
    if name != CUSTOM_CALL:
        return traits_of(name)
    attributes = op.attributes
    if "has_side_effect" in attributes and attributes["has_side_effect"].value:
        return UNKNOWN
    return TRAITS_OF_CALLS.get(target_of(op), UNKNOWN)

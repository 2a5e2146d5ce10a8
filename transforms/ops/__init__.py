"""The table of operations: one file per family, with a row for each operation.

A row (`OpDef`) has the rule, which maps every dimension of operands and results to factors; the localizer, if the local
form is more than the same operation on smaller types; and the traits: whether the operation is elementwise, linear, a
view or pure, how it is fused, and how its arithmetic is counted. Costs, analyses and optimizations ask for traits and
keep no lists of names. Nothing is assumed about an operation without a row. `define` adds rows for operations of other
dialects.

An operation may have further rules (`others`), along which nothing is propagated, as for an uneven reshape. They are
candidates of the decision. An operation that moves its elements between devices in any case, as a reversal does, may
accept any sharding of its result (`any_shards`), so that the result arrives in the sharding in which it is needed. The
rule of a custom call is a text on the operation (`sdy.sharding_rule`) or by target (`custom_rules`).

- Windows (`windows.py`): the elements that windows cover are i * stride + q * dilation for window i and tap q, whether
  windows, taps or elements are split. The larger one of kernel and result is split with the input; if that is the
  kernel, results are partial.
- Look-ups (`gather.py`, `scatter.py`, `dynamic_slicing.py`): a shard provides or accepts the elements of a window that
  it holds. Look-ups are summed, updates that miss are dropped, and the operand does not move.
- Python callbacks (`callbacks.py`) run on one device: a branch on the partition id, and an all-reduce of bits for the
  results.
- Kernels (`kernels.py`) need no row: inside a manual computation over all axes every operation is kept unchanged.
"""

from __future__ import annotations

from gspmd.dialect.errors import UsageError
from gspmd.transforms.ir.callbacks import target_of
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo, has_side_effect
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
from gspmd.transforms.ops.custom_call import CALLS, TRAITS_OF_CALLS
from gspmd.transforms.ops.op_definition import OpDef, OpTable, joined
from gspmd.transforms.ops.structure import OF_SHARDY, STRUCTURE_TRAITS
from gspmd.transforms.ops.traits import UNKNOWN, Traits
from gspmd.transforms.parsing.mlir import allow_foreign, forget_foreign

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

_DEFINED: set[str] = set()
_TRAITS: dict[str, Traits] = {**{name: definition.traits for name, definition in OPS.items()}, **STRUCTURE_TRAITS}


def define(*definitions: OpDef) -> None:
    """Add operations to the table, for example those of your own dialect; programs may then contain them.

    `docs/extending.md` has an example. Raises UsageError for an operation that is already in the table, or whose name
    has no dialect.
    """
    for definition in definitions:
        name = definition.name
        if name in _TRAITS:
            raise UsageError(f"operation '{name}' is defined already", hint="choose another name")
        if "." not in name.strip("."):
            raise UsageError(f"operation '{name}' names no dialect", hint="write it as 'dialect.operation'")
        OPS[name] = definition
        _TRAITS[name] = definition.traits
        _DEFINED.add(name)
        allow_foreign(name)


def forget(*names: str) -> None:
    """Remove operations that `define` has added from the table. Raises UsageError for others."""
    for name in names:
        if name not in _DEFINED:
            raise UsageError(f"operation '{name}' was not added by 'define'")
        _DEFINED.discard(name)
        del OPS[name], _TRAITS[name]
        forget_foreign(name)


def is_extended() -> bool:
    """Whether `define` has added operations."""
    return bool(_DEFINED)


def every_row() -> OpTable:
    """The rows of all operations by name, and of custom calls by target."""
    return OPS | CALLS


def traits_of(name: str) -> Traits:
    """The traits of all operations of a name; for custom calls, those that hold for any target."""
    return _TRAITS.get(name) or (OF_SHARDY if name.startswith("sdy.") else UNKNOWN)


def traits_of_op(op: Operation | OpInfo) -> Traits:
    """The traits of an operation; for a custom call, those of its target."""
    name = op.name
    if name != CUSTOM_CALL:
        return traits_of(name)
    if has_side_effect(op.attributes):
        return UNKNOWN
    return TRAITS_OF_CALLS.get(target_of(op), UNKNOWN)

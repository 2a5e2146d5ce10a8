"""What is known of operations stands in one table, with one row for each."""

from __future__ import annotations

import dataclasses

import pytest

from gspmd.dialect.errors import InternalError
from gspmd.transforms.ops import OPS, traits_of
from gspmd.transforms.ops.op_definition import OpDef, joined, op_table
from gspmd.transforms.ops.rules import whole
from gspmd.transforms.ops.structure import STRUCTURE, STRUCTURE_TRAITS
from gspmd.transforms.ops.traits import UNKNOWN

# ---- the table ----------------------------------------------------------------------------------------


def test_no_operation_is_defined_twice_in_a_family() -> None:
    add = OPS["stablehlo.add"]
    with pytest.raises(
        InternalError, match=r"'stablehlo\.add' is defined twice.*elementwise_rule' and '.*rules\.whole'"
    ):
        op_table([add, OpDef("stablehlo.add", whole)])


def test_no_operation_is_defined_in_two_families() -> None:
    with pytest.raises(InternalError, match=r"'mine' is defined twice"):
        joined([op_table([OpDef("mine", whole)]), op_table([dataclasses.replace(OPS["stablehlo.add"], name="mine")])])


def test_traits_are_known_of_every_operation() -> None:
    assert STRUCTURE.keys() <= STRUCTURE_TRAITS.keys()
    assert not OPS.keys() & STRUCTURE_TRAITS.keys()


def test_nothing_is_taken_for_granted_of_what_is_not_in_the_table() -> None:
    assert traits_of("stablehlo.of_the_future") is UNKNOWN
    assert UNKNOWN.diverges and not UNKNOWN.pure and not UNKNOWN.is_plain


def test_what_differs_by_device_is_never_computed_whole_on_each() -> None:
    for name, row in OPS.items():
        traits = row.traits
        if name != "stablehlo.custom_call":  # of these the user says it with --replicate-unsupported
            assert not (row.replicable and (traits.diverges or traits.communicates or traits.effects)), name
        assert traits.pure is False or not traits.effects, name

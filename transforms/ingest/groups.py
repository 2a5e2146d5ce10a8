"""Groups of values that are to be split alike, where the user says of one how it is: so are the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.own_attributes import LIKE
from gspmd.transforms.ingest.annotations import given
from gspmd.transforms.ingest.edits import constrain_users
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.signature import dictionaries

_CONSTRAINT = "sdy.sharding_constraint"


def constrain_groups(groups: Iterable[Operation], main: Operation) -> None:
    """Constrain the members of a group as the argument of @main that is one of them, if that is wholly annotated.

    Propagation takes a group for one value; what decides later would look only at what is said of each. Members that
    are arguments, or say something themselves, are left alone: propagation compares these. So are groups whose members
    should only be alike.
    """
    members: dict[int, list[Value]] = defaultdict(list)
    for op in groups:
        if LIKE not in op.attributes:
            members[ir.IntegerAttr(op.attributes["group_id"]).value].append(op.operands[0])
    arguments = main.regions[0].arguments
    said = dictionaries(main, "arg_attrs", len(arguments)) if members else []
    for values in members.values():
        given_so = (entry.get("sdy.sharding") for value, entry in zip(arguments, said, strict=True) if value in values)
        known = [sharding for sharding in given_so if sharding is not None and _says_all(sharding)]
        for value in values if known else ():
            made = value.op
            if made is not None and made.name != _CONSTRAINT and given(made.attributes, "sharding") is None:
                constrain_users(value, known[0], made)


def _says_all(sharding: ir.Attribute) -> bool:
    """Whether a sharding leaves no dimension open."""
    dims = sdy.TensorShardingAttr(sharding).dimension_shardings
    return all(sdy.DimensionShardingAttr(dim).is_closed for dim in dims)

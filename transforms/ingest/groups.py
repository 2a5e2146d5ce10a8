"""Shard groups with an annotated member: the other members get its sharding."""

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
    """Constrain the members of a group to the sharding of a member that is a fully annotated argument of @main.

    Propagation treats a group as one value, but the decision reads only the annotation of each member. Arguments and
    annotated members stay as they are; propagation compares them. So do groups of which the members need only have
    similar shardings.
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
    """Whether all dimensions of a sharding are closed."""
    dims = sdy.TensorShardingAttr(sharding).dimension_shardings
    return all(sdy.DimensionShardingAttr(dim).is_closed for dim in dims)

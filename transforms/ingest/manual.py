"""Manual computations: those written as calls between markers become `sdy.manual_computation`.

Two families of markers say the same. Shardy's `@xla.sdy.GlobalToLocalShape` and `LocalToGlobalShape` stand
around a call with all its operands and results; GSPMD's `@SPMDFullToShardShape` and
`@SPMDShardToFullShape` each handle one value, beside a `@Sharding` that says how the whole value is split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.notation import quote
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ingest.annotations import PREFIX, frontend, parse_carried
from gspmd.transforms.ingest.edits import constrain_operand, constrain_users, create, splice
from gspmd.transforms.ingest.markers import target_name
from gspmd.transforms.ingest.survey import callee_of
from gspmd.transforms.ingest.target import Target
from gspmd.transforms.support.mlir import located

_ENTER = (f"{PREFIX}GlobalToLocalShape", "SPMDFullToShardShape")
_LEAVE = (f"{PREFIX}LocalToGlobalShape", "SPMDShardToFullShape")
_BODIES = (f"{PREFIX}manual_computation_body", f"{PREFIX}inlinable_manual_computation_body")
_HINT = "lower the program with Shardy ('jax_use_shardy_partitioner'), which writes it as a region"


@dataclasses.dataclass(frozen=True, slots=True)
class _Crossing:
    """A value that crosses the boundary: `whole` outside, and how it is split there.

    `index` is the call's result that leaves as `whole`; `manual` are the axes the inside is local to.
    """

    whole: Any
    sharding: TensorSharding
    manual: Axes
    index: int = 0


def manual_calls(calls: list[Any]) -> list[Any]:
    """The calls whose callee computes on local shapes."""
    return [call for call in calls if callee_of(call).startswith(_BODIES) or any(_entered(v) for v in call.operands)]


def convert_calls(calls: list[Any], target: Target) -> set[Any]:
    """Put the calls into manual computations; returns the markers that this erased.

    Raises Unsupported (located) for a call of which not every operand and used result crosses by markers.
    """
    erased: list[Any] = []
    for call in calls:
        with located(call):
            _convert(call, target, erased)
    return erased


def rewrite(op: Any, target: Target) -> None:
    """Express a `sdy.manual_computation` in the target's axes; one left without manual axes dissolves."""
    attributes = op.attributes
    ins = target.annotations.attribute(attributes["in_shardings"])
    outs = target.annotations.attribute(attributes["out_shardings"])
    names = [name for name in _names(attributes["manual_axes"])]
    mesh = next((sharding.mesh for sharding in (*ins, *outs)), target.mesh)
    with located(op):
        kept = target.axes(mesh, names)
        attributes["in_shardings"] = target.write_list(map(target.sharding, ins))
        attributes["out_shardings"] = target.write_list(map(target.sharding, outs))
    attributes["manual_axes"] = _manual_axes(kept, op.context)
    if not kept:
        dissolve(op, target)


def dissolve(op: Any, target: Target) -> None:
    """Replace a computation over no manual axes, or a named one, by its body between constraints."""
    for index, sharding in enumerate(target.annotations.attribute(op.attributes["in_shardings"])):
        constrain_operand(op, index, target.write(target.sharding(sharding)))
    for index, sharding in enumerate(target.annotations.attribute(op.attributes["out_shardings"])):
        constrain_users(op.results[index], target.write(target.sharding(sharding)), op)
    splice(op)

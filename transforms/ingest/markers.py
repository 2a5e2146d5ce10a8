"""Custom calls with which XLA's tools mark shardings become the equivalent operations of `sdy`."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.own_attributes import LIKE
from gspmd.transforms.ingest.annotations import PREFIX, frontend, parse_carried
from gspmd.transforms.ingest.edits import create
from gspmd.transforms.ingest.partial_values import before_constraints, is_left_partial
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located

BOUNDARIES = {
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    f"{PREFIX}GlobalToLocalShape",
    f"{PREFIX}LocalToGlobalShape",
}
_FORWARD, _BACKWARD = 1, 2  # PropagationDirection of `sdy`
_NO_DIRECTION, _BOTH = 0, 3


GROUP_MARKER = f"{PREFIX}ShardingGroup"


def target_name(op: Operation) -> str:
    """The target of a custom call."""
    return text_of(op.attributes["call_target_name"])


def convert_markers(custom_calls: list[Operation], target: TargetMesh) -> list[Operation]:
    """Replace every marker; returns the other custom calls.

    Raises Unsupported (located) for unknown markers, and AnnotationError for markers without their annotation.
    """
    rest = []
    for op in custom_calls:
        name = target_name(op)
        convert = _MARKERS.get(name)
        with located(op):
            if convert is not None:
                check_values(op, name)
                convert(op, target)
            elif name in BOUNDARIES:
                raise Unsupported(
                    f"'{name}' outside a call of a manual computation",
                    hint="lower the program with Shardy ('jax_use_shardy_partitioner'), which keeps regions",
                    code=Code.MANUAL,
                )
            elif name.startswith(PREFIX):
                raise Unsupported(
                    f"unknown marker '{name}'", hint="export the program as StableHLO with 'sdy'", code=Code.MARKER
                )
            else:
                rest.append(op)
    return rest


def check_values(op: Operation, name: str) -> None:
    """Raise AnnotationError unless a marker takes one value and returns it, or has no used result."""
    makes = [value.type for value in op.results]
    if len(op.operands) == 1 and makes == [op.operands[0].type]:
        return
    if len(op.operands) != 1 or name != GROUP_MARKER or any(value.is_used for value in op.results):
        takes = ", ".join(value.type.text for value in op.operands)
        raise AnnotationError(
            f"custom call '{name}' makes ({', '.join(type_.text for type_ in makes)}) of ({takes}); "
            "expected the type it takes"
        )


def _sharding(op: Operation, target: TargetMesh) -> None:
    """`@Sharding`: a constraint, a member of a shard group, or both."""
    operand, result = op.operands[0], op.results[0]
    said = target.annotations.of(op.attributes)
    if said is None:
        raise AnnotationError(
            "custom call 'Sharding' has no sharding", hint="add an 'mhlo.sharding' to it", code=Code.MARKER
        )
    group = said.hlo.sharding.shard_group if said.hlo is not None else None
    if group is not None:
        int64 = ir.IntegerType.get_signless(64)
        content: dict[str, ir.Attribute] = {"group_id": ir.IntegerAttr.get(int64, group.id)}
        if group.is_like:
            content[LIKE] = ir.UnitAttr.get()
        create("sdy.sharding_group", [operand], [], content, op)
    sharding = target.attributes_of(said, [result.type])[0]
    if sharding is not None and is_left_partial(said, result.type, target):
        sharding, operand = None, before_constraints(operand)
    if sharding is None:
        op.replace([operand])
    else:
        said_so = {"sharding": sharding}
        op.replace([create("sdy.sharding_constraint", [operand], [result.type], said_so, op).result])


def _sharding_group(op: Operation, target: TargetMesh) -> None:
    group = _carried_integer(op, "sharding_group_id")
    int64 = ir.IntegerType.get_signless(64)
    create("sdy.sharding_group", [op.operands[0]], [], {"group_id": ir.IntegerAttr.get(int64, group)}, op)
    if any(result.is_used for result in op.results):
        raise AnnotationError(
            f"custom call '{target_name(op)}' has a result that is used; it says something of its operand",
            code=Code.MARKER,
        )
    op.erase()


def _propagation_barrier(op: Operation, target: TargetMesh) -> None:
    direction = _carried_integer(op, "allowed_direction")
    if not _NO_DIRECTION <= direction <= _BOTH:
        raise AnnotationError(
            f"propagation barrier allows direction {direction}; expected {_NO_DIRECTION} to {_BOTH}",
            hint="none, forward, backward and both are 0 to 3",
            code=Code.MARKER,
        )
    if direction == _BOTH:  # which stops nothing; `sdy` has no such barrier
        op.replace([op.operands[0]])
    else:
        _barrier(op, direction)


def _barrier(op: Operation, direction: int) -> None:
    operand = op.operands[0]
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), direction)
    barrier = create("sdy.propagation_barrier", [operand], [operand.type], {"allowed_direction": attribute}, op)
    op.replace([barrier.results[0]])


def _barrier_from(op: Operation, target: TargetMesh) -> None:
    _barrier(op, _BACKWARD)  # it stops forward propagation


def _barrier_to(op: Operation, target: TargetMesh) -> None:
    _barrier(op, _FORWARD)


def _carried_integer(op: Operation, key: str) -> int:
    text = frontend(op.attributes).get(f"{PREFIX}{key}")
    if text is None:
        raise AnnotationError(
            f"custom call '{target_name(op)}' has no frontend attribute '{PREFIX}{key}'", code=Code.MARKER
        )
    attribute = parse_carried(text, context_of(op))
    if not isinstance(attribute, ir.IntegerAttr):
        raise AnnotationError(f"frontend attribute '{PREFIX}{key}' is '{text}'; expected an integer", code=Code.MARKER)
    return int(attribute.value)


_MARKERS: dict[str, Callable[[Operation, TargetMesh], None]] = {
    "Sharding": _sharding,
    GROUP_MARKER: _sharding_group,
    f"{PREFIX}PropagationBarrier": _propagation_barrier,
    "ShardBarrierFrom": _barrier_from,
    "ShardBarrierTo": _barrier_to,
}

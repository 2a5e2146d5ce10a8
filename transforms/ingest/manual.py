"""Manual computations written as calls between markers become `sdy.manual_computation`.

There are two equivalent families of markers. Shardy's `@xla.sdy.GlobalToLocalShape` and `LocalToGlobalShape` stand
around a call with all its operands and results; GSPMD's `@SPMDFullToShardShape` and
`@SPMDShardToFullShape` handle one value each, next to a `@Sharding` of the global value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gspmd.dialect.axes import Axes, overlap, without
from gspmd.dialect.device_order import DeviceOrder
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import read_manual_axes, write_manual_axes
from gspmd.dialect.sharding import TensorSharding, local_shape
from gspmd.transforms.ingest.annotations import PREFIX, Annotations, frontend, parse_carried
from gspmd.transforms.ingest.edits import constrain_operand, constrain_users
from gspmd.transforms.ingest.markers import target_name
from gspmd.transforms.ingest.orders import mark_orders, order_of_mesh
from gspmd.transforms.ingest.repeated_meshes import held_axes, mark_repeated
from gspmd.transforms.ingest.survey import Survey, callee_of
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Block, Operation, Point, Use, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_ENTER = (f"{PREFIX}GlobalToLocalShape", "SPMDFullToShardShape")
_LEAVE = (f"{PREFIX}LocalToGlobalShape", "SPMDShardToFullShape")
_BODIES = (f"{PREFIX}manual_computation_body", f"{PREFIX}inlinable_manual_computation_body")
_HINT = "lower the program with Shardy ('jax_use_shardy_partitioner'), which writes it as a region"


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundaryValue:
    """A value that crosses the boundary: `whole` is the global value, with its sharding.

    `index` is the number of the result that leaves as `whole`; `manual` are the manual axes; `order` is the device
    order, if the program has several; `mesh` is the mesh in the source, if there is one.
    """

    whole: Value
    sharding: TensorSharding
    manual: Axes
    order: DeviceOrder | None
    mesh: Mesh | None = None
    index: int = 0

    def check(self, inside: TensorType) -> None:
        """Raises AnnotationError if the type inside is not that of the shard of the global value."""
        type_ = self.whole.type
        manual = [tuple(a for a in axes if overlap([a], self.manual)) for axes in self.sharding.dim_axes()]
        if len(manual) == type_.rank:
            part = type_.of_shape(local_shape(type_.shape, manual))
            if inside == part:
                return
            expected = f", expected {part.brief}"
        else:
            expected = ""
        raise AnnotationError(
            f"a manual computation has {inside.brief} inside of {type_.brief}{expected}", code=Code.MANUAL
        )


def manual_calls(calls: list[Operation]) -> list[Operation]:
    """The calls whose callees compute with local shapes."""
    return [
        call
        for call in calls
        if callee_of(call).startswith(_BODIES)
        or any(_marker(value, _ENTER) for value in call.operands)
        or (not len(call.operands) and any(_is_left(value) for value in call.results))
    ]


def manual_meshes(annotations: Annotations, found: Survey) -> set[Mesh]:
    """The meshes of manual computations in Shardy's notation."""
    shardings = [
        sharding
        for op in found.all("sdy.manual_computation")
        for key in ("in_shardings", "out_shardings")
        for sharding in annotations.attribute(op.attributes[key])
    ]
    for op in found.all("stablehlo.custom_call"):
        if target_name(op) in (_ENTER[0], _LEAVE[0]):
            for key in ("in_shardings", "out_shardings"):
                shardings += annotations.carried(op.attributes, key) or ()
    return {sharding.mesh for sharding in shardings if sharding.mesh.size > 1}


def _is_left(value: Value) -> bool:
    """Whether a result leaves by `@SPMDShardToFullShape`, as all do; operands, if any, are checked first."""
    inside = [use.op for use in value.uses() if _called(use.op) == "Sharding"]
    return any(_called(use.op) == _LEAVE[1] for op in inside for use in op.results[0].uses())


def convert_calls(calls: list[Operation], target: TargetMesh) -> None:
    """Wrap the calls in manual computations, and erase the markers around them.

    Raises Unsupported (located) for a call with an operand or used result that does not cross by a marker.
    """
    for call in calls:
        with located(call):
            _convert(call, target)


def rewrite(op: Operation, target: TargetMesh) -> None:
    """Express a `sdy.manual_computation` in the axes of the target; one without manual axes is inlined."""
    attributes = op.attributes
    ins = target.annotations.attribute(attributes["in_shardings"])
    outs = target.annotations.attribute(attributes["out_shardings"])
    mesh = next((sharding.mesh for sharding in (*ins, *outs)), target.mesh)
    names = held_axes(target.annotations, mesh, read_manual_axes(attributes["manual_axes"]))
    with located(op):
        kept = target.axes(mesh, names)
        mark_repeated(op, target.annotations, {sharding.mesh for sharding in (*ins, *outs)})
        attributes["in_shardings"] = target.write_list(map(target.sharding, ins))
        attributes["out_shardings"] = target.write_list(map(target.sharding, outs))
        orders = {order_of_mesh(sharding.mesh, target.orders) for sharding in (*ins, *outs)}
        mark_orders(op, orders)
    attributes["manual_axes"] = write_manual_axes(kept, context_of(op))
    if not kept:
        _dissolve(op, ins, outs, target)


def dissolve_named(op: Operation, target: TargetMesh) -> None:
    """Replace a `sdy.named_computation` by its body between constraints."""
    with located(op):
        ins = target.annotations.attribute(op.attributes["in_shardings"]) if "in_shardings" in op.attributes else ()
        outs = target.annotations.attribute(op.attributes["out_shardings"]) if "out_shardings" in op.attributes else ()
        _dissolve(op, ins, outs, target)


def _dissolve(op: Operation, ins: Sequence[TensorSharding], outs: Sequence[TensorSharding], target: TargetMesh) -> None:
    for index, sharding in enumerate(ins):
        constrain_operand(op, index, target.write(target.sharding(sharding)))
    for index, sharding in enumerate(outs):
        constrain_users(op.results[index], target.write(target.sharding(sharding)), op)
    op.inline()


def _convert(call: Operation, target: TargetMesh) -> None:
    """Build the computation before the call, with a call of the same function as its body."""
    entering = [_entering(value, target) for value in call.operands]
    leaving = [_leaving(use, index, target) for index, value in enumerate(call.results) for use in value.uses()]
    axes = {crossing.manual for crossing in (*entering, *leaving)}
    if len(axes) != 1:
        raise Unsupported(
            "manual computation whose operands and results differ in their manual axes", hint=_HINT, code=Code.MANUAL
        )
    operands = [value.type for value in call.operands]
    for crossing, type_ in zip(entering, operands, strict=True):
        crossing.check(type_)
    for crossing in leaving:
        crossing.check(call.results[crossing.index].type)
    names = target.names(axes.pop())
    attributes = {
        "in_shardings": target.write_list(crossing.sharding for crossing in entering),
        "out_shardings": target.write_list(crossing.sharding for crossing in leaving),
        "manual_axes": write_manual_axes(names, context_of(call)),
    }
    block = Block(operands, [call.location] * len(operands))
    callee, results = {"callee": call.attributes["callee"]}, [value.type for value in call.results]
    inner = Operation("func.call", block.arguments, results, callee, call.location).insert(Point(block))
    returned = [inner.results[crossing.index] for crossing in leaving]
    Operation("sdy.return", returned, [], {}, call.location).insert(Point(block))
    computation = Operation(
        "sdy.manual_computation",
        [crossing.whole for crossing in entering],
        [crossing.whole.type for crossing in leaving],
        attributes,
        call.location,
        [block],
    ).insert(Point.at(call))
    mark_orders(computation, {crossing.order for crossing in (*entering, *leaving)})
    mark_repeated(computation, target.annotations, {c.mesh for c in (*entering, *leaving) if c.mesh is not None})
    for crossing, result in zip(leaving, computation.results, strict=True):
        crossing.whole.replace_all_uses_with(result)
    _erase_around(call)
    if not names:
        _dissolve(computation, [c.sharding for c in entering], [c.sharding for c in leaving], target)


def _erase_around(call: Operation) -> None:
    """Erase the call and the unused markers."""
    leaving = [use.op for value in call.results for use in value.uses()]
    behind = [use.op for op in leaving if target_name(op) == "Sharding" for use in op.results[0].uses()]
    entering = [value.maker for value in call.operands]
    before = [op.operands[0].maker for op in entering if target_name(op) == _ENTER[1]]
    for op in dict.fromkeys([*behind, *leaving, call, *entering, *before]):
        if not any(value.is_used for value in op.results):
            op.erase()


def _marker(value: Value, names: Sequence[str]) -> Operation | None:
    """The producer of the value, if it is a custom call with one of these names."""
    return value.op if value.op is not None and _called(value.op) in names else None


def _called(op: Operation) -> str:
    """The target of a custom call; empty for other operations."""
    return target_name(op) if op.name == "stablehlo.custom_call" else ""


def _entering(value: Value, target: TargetMesh) -> _BoundaryValue:
    op = _marker(value, _ENTER)
    if op is None:
        raise Unsupported(
            "manual computation with an operand that is not made local by a marker", hint=_HINT, code=Code.MANUAL
        )
    if target_name(op) == _ENTER[0]:
        index = value.index
        return _BoundaryValue(op.operands[index], *_shardy(op, "in_shardings", index, target))
    outside = _marker(op.operands[0], ("Sharding",))
    if outside is None:
        raise Unsupported(f"'{_ENTER[1]}' of a value without '@Sharding' in front of it", hint=_HINT, code=Code.MANUAL)
    sharding = _gspmd(outside, outside.results[0].type, target)
    inside = _gspmd(op, value.type, target)
    return _gspmd_crossing(outside.operands[0], sharding, inside, _order(outside, target))


def _leaving(use: Use, index: int, target: TargetMesh) -> _BoundaryValue:
    op, operand = use.op, use.position
    if op.name == "stablehlo.custom_call" and target_name(op) == _LEAVE[0]:
        return _BoundaryValue(op.results[operand], *_shardy(op, "out_shardings", operand, target), index)
    if op.name == "stablehlo.custom_call" and target_name(op) == "Sharding":
        inside = _gspmd(op, op.results[0].type, target)
        users = [inner.op for inner in op.results[0].uses()]
        if len(users) == 1 and users[0].name == "stablehlo.custom_call" and target_name(users[0]) == _LEAVE[1]:
            whole = users[0].results[0]
            outside = _gspmd(users[0], whole.type, target)
            return _gspmd_crossing(whole, outside, inside, _order(users[0], target), index)
    raise Unsupported(
        "manual computation with a result that is not made whole by a marker", hint=_HINT, code=Code.MANUAL
    )


def _order(op: Operation, target: TargetMesh) -> DeviceOrder | None:
    """The device order at a GSPMD marker."""
    return target.order(target.annotations.of(op.attributes))


def _gspmd_crossing(
    whole: Value, outside: TensorSharding, inside: TensorSharding, order: DeviceOrder | None, index: int = 0
) -> _BoundaryValue:
    """A boundary value whose manual axes are those inside that are not manual outside."""
    manual = without(inside.manual, outside.manual)
    return _BoundaryValue(whole, dataclasses.replace(outside, manual=()), manual, order, None, index)


def _shardy(
    op: Operation, key: str, index: int, target: TargetMesh
) -> tuple[TensorSharding, Axes, DeviceOrder | None, Mesh]:
    """The sharding of a value at a Shardy marker, the manual axes, the device order, and the mesh in the source."""
    shardings = target.annotations.carried(op.attributes, key)
    text = frontend(op.attributes).get(f"{PREFIX}manual_axes")
    if shardings is None or text is None or index >= len(shardings):
        raise AnnotationError(
            f"custom call '{target_name(op)}' lacks '{PREFIX}{key}' or '{PREFIX}manual_axes'", code=Code.MANUAL
        )
    mesh = shardings[index].mesh
    names = target.axes(
        mesh, held_axes(target.annotations, mesh, read_manual_axes(parse_carried(text, context_of(op))))
    )
    held = tuple(target.mesh.axis(name) for name in names)
    return target.sharding(shardings[index]), held, order_of_mesh(mesh, target.orders), mesh


def _gspmd(op: Operation, type_: TensorType, target: TargetMesh) -> TensorSharding:
    """The sharding at a GSPMD marker."""
    said = target.annotations.of(op.attributes)
    found = None if said is None or said.hlo is None else target.hlo(said.hlo, 0, 1, type_.rank)
    if found is None:
        raise AnnotationError(
            f"custom call '{target_name(op)}' has no sharding", hint="add an 'mhlo.sharding' to it", code=Code.MARKER
        )
    return found

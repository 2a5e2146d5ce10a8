"""Annotations on functions and calls become constraints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.device_order import DeviceOrder
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.hlo_sharding import REPLICATED
from gspmd.dialect.notation import print_dims
from gspmd.dialect.own_attributes import DEVICE_IDS, UNREDUCED
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.partial_values import apart_sharding
from gspmd.transforms.ingest.annotations import PREFIX, Annotations, OpAnnotation, entries_of, given, stripped
from gspmd.transforms.ingest.edits import constrain_operand, constrain_users, create
from gspmd.transforms.ingest.partial_values import enter_partial, leave_partial
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.boundary_orders import order_attribute
from gspmd.transforms.ir.modules import symbol
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

RESULT_MARKER = f"{PREFIX}FuncResultSharding"
_ARGUMENTS, _RESULTS = "arg_attrs", "res_attrs"


def signature(function: Operation) -> Iterator[ir.DictAttr]:
    """The attributes of arguments and results, where there are any."""
    for name in (_ARGUMENTS, _RESULTS):
        if name in function.attributes:
            yield from function.attributes[name]


def drop_copied_results(functions: list[Operation]) -> None:
    """Remove `mhlo.sharding` from results where it repeats that of the returned operation.

    XLA's converter from HLO repeats it without the open dimensions. Only for its modules.
    """
    for function in functions:
        returned = function.regions[0].terminator.operands
        old = _dictionaries(function, _RESULTS, len(returned))
        new = [_without_copy(attributes, value) for attributes, value in zip(old, returned, strict=True)]
        if new != old:
            function.attributes[_RESULTS] = ir.ArrayAttr.get(new)


def _without_copy(attributes: ir.DictAttr, value: Value) -> ir.DictAttr:
    if "mhlo.sharding" not in attributes or value.op is None:
        return attributes
    own = given(value.op.attributes, "mhlo.sharding")
    if own is None or own != attributes["mhlo.sharding"]:
        return attributes
    return ir.DictAttr.get({name: kept for name, kept in entries_of(attributes).items() if name != "mhlo.sharding"})


class ResultMarkers:
    """`@xla.sdy.FuncResultSharding` calls: the shardings of the results of their function."""

    def __init__(self, custom_calls: list[Operation], target: TargetMesh) -> None:
        """Erases the markers; those on values that are not returned become constraints."""
        self._said: dict[tuple[str, int], OpAnnotation] = {}
        for op in custom_calls:
            with located(op):
                self._take(op, target)

    def of(self, function: Operation, index: int) -> OpAnnotation | None:
        return self._said.get((symbol(function), index))

    def _take(self, op: Operation, target: TargetMesh) -> None:
        said = target.annotations.of(op.attributes)
        if said is None:
            raise AnnotationError(
                f"custom call '{RESULT_MARKER}' has no sharding", hint=f"add '{PREFIX}sharding' to it", code=Code.MARKER
            )
        users = op.results[0].uses()
        returned = [(user, index) for user, index in users if user.name == "func.return"]
        for user, index in returned:
            assert user.parent is not None
            self._said[symbol(user.parent), index] = said
        value = op.operands[0]
        sharding = target.attributes_of(said, [value.type])[0]
        if sharding is not None and not returned:
            value = create("sdy.sharding_constraint", [value], [value.type], {"sharding": sharding}, op).results[0]
        op.replace([value])


def rewrite_main(function: Operation, target: TargetMesh, markers: ResultMarkers) -> None:
    """Give every argument and result of @main at most one `sdy.sharding`."""
    block = function.regions[0]
    for name, values in ((_ARGUMENTS, block.arguments), (_RESULTS, block.terminator.operands)):
        old = _dictionaries(function, name, len(values))
        new = []
        for index, (attributes, value) in enumerate(zip(old, values, strict=True)):
            marked = markers.of(function, index) if name == _RESULTS else None
            with located(function):
                said = _of_main(target.annotations, attributes)
                sharding = _resolve(target, said, marked, value.type)
                axes = _unreduced(target, (marked, said), value.type)
            order = None if sharding is None else target.order(said if marked is None else marked)
            if axes:
                assert sharding is not None, "it says at least over which axes the value is partial"
                sharding = apart_sharding(sharding, axes)
                if name == _ARGUMENTS:
                    enter_partial(function, index, sharding)
                else:
                    leave_partial(function, index, sharding, target)
            kept = _with_sharding(attributes, None if sharding is None else target.write(sharding), order)
            new.append(ir.DictAttr.get({**entries_of(kept), UNREDUCED: ir.UnitAttr.get()}) if axes else kept)
        if new != old:
            function.attributes[name] = ir.ArrayAttr.get(new)


def _unreduced(target: TargetMesh, sayings: Iterable[OpAnnotation | None], type_: TensorType) -> Axes:
    """The partial axes of the first of these that has any annotation."""
    return next((target.unreduced(said, type_) for said in sayings if said is not None), ())


def rewrite_callee(function: Operation, target: TargetMesh, markers: ResultMarkers) -> None:
    """Turn annotations on arguments and results of a private function into constraints in its body."""
    block = function.regions[0]
    first, last = block.first, block.terminator
    assert first is not None
    for index, attributes in enumerate(_dictionaries(function, _ARGUMENTS, len(block.arguments))):
        argument = block.arguments[index]
        with located(function):
            sharding = _resolve(target, target.annotations.of(attributes), None, argument.type)
        if sharding is not None:
            content = {"sharding": target.write(sharding)}
            constraint = create("sdy.sharding_constraint", [argument], [argument.type], content, first)
            argument.replace_all_uses_with(constraint.results[0], [constraint])
    for index, attributes in enumerate(_dictionaries(function, _RESULTS, len(last.operands))):
        said, marked = target.annotations.of(attributes), markers.of(function, index)
        with located(function):
            sharding = _resolve(target, said, marked, last.operands[index].type)
        if sharding is not None:
            constrain_operand(last, index, target.write(sharding))


def rewrite_call(call: Operation, target: TargetMesh) -> None:
    """Turn annotations on the results of a call into constraints after it."""
    with located(call):
        said = target.annotations.of(call.attributes)
        if said is not None:
            shardings = target.attributes_of(said, [value.type for value in call.results])
            for value, sharding in zip(call.results, shardings, strict=True):
                if sharding is not None:
                    constrain_users(value, sharding, call)


def _of_main(annotations: Annotations, attributes: ir.DictAttr) -> OpAnnotation | None:
    """The annotation of an argument or result of @main.

    A module that went through HLO has `{replicated}` for arguments and results without annotations.
    """
    said = annotations.of(attributes)
    filler = said is not None and said.sdy is None and said.hlo is not None and said.hlo.sharding == REPLICATED
    return None if filler and annotations.is_round_trip else said


def _resolve(
    target: TargetMesh, said: OpAnnotation | None, marked: OpAnnotation | None, type_: TensorType
) -> TensorSharding | None:
    """The sharding of an argument or result. Raises AnnotationError when marker and attribute disagree."""
    own = None if said is None else target.resolve(said, 0, [type_])
    if marked is None:
        return own
    by_marker = target.resolve(marked, 0, [type_])
    if own is not None and by_marker is not None and own.dim_axes() != by_marker.dim_axes():
        raise AnnotationError(
            f"two annotations of a result that contradict each other: {print_dims(own)} by attribute but "
            f"{print_dims(by_marker)} by '{RESULT_MARKER}'",
            hint="keep one",
            code=Code.CONTRADICTION,
        )
    return by_marker


def _dictionaries(function: Operation, name: str, count: int) -> list[ir.DictAttr]:
    if name in function.attributes:
        return list(function.attributes[name])
    return [ir.DictAttr.get({})] * count


def _with_sharding(attributes: ir.DictAttr, sharding: ir.Attribute | None, order: DeviceOrder | None) -> ir.DictAttr:
    kept = stripped(attributes)
    if sharding is not None:
        kept["sdy.sharding"] = sharding
    if order is not None:
        kept[DEVICE_IDS] = order_attribute(order, attributes.context)
    return ir.DictAttr.get(kept)

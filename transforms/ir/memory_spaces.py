"""Memory spaces of values: the memory of a device or of its host, in the notation of JAX.

Arguments and results of @main have `mhlo.memory_kind`, intermediate values custom calls `annotate_device_placement`,
and operations that run on the host a frontend attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxlib.mlir import ir

from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Block, Location, Operation, Point, Value
from gspmd.transforms.ir.program import BARRIER, CONTROL_FLOW, WHILE, Program
from gspmd.transforms.ir.signature import dictionaries, memory_kind
from gspmd.transforms.parsing.attribute_text import text_of

DEVICE = "device"
_FRONTEND, _PLACEMENT, _COMPUTE = "mhlo.frontend_attributes", "_xla_buffer_placement", "_xla_compute_type"
_PLACING = "annotate_device_placement"
_FIXED = {"MoveToHost": "pinned_host", "MoveToDevice": DEVICE}


def is_host(kind: str | None) -> bool:
    return kind is not None and kind.endswith("_host")


def _frontend(op: Operation, name: str) -> str | None:
    attributes = op.attributes
    if _FRONTEND not in attributes or name not in attributes[_FRONTEND]:
        return None
    return text_of(attributes[_FRONTEND][name])


def host_computation(op: Operation) -> dict[str, ir.Attribute]:
    """The attributes that mark an operation as run on the host; empty for others."""
    return {_FRONTEND: op.attributes[_FRONTEND]} if _frontend(op, _COMPUTE) == "host" else {}


def placed_in(op: Operation) -> str | None:
    """The memory to which a custom call moves its operand; None for any other operation."""
    if op.name != CUSTOM_CALL:
        return None
    target = str(op.attributes["call_target_name"].value)
    return _frontend(op, _PLACEMENT) if target == _PLACING else _FIXED.get(target)


def place(value: Value, kind: str, sharding: ir.Attribute | None, point: Point, location: Location) -> Value:
    """The value in another memory, by an operation as JAX emits it."""
    context = location.context
    attributes: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(_PLACING, context),
        "backend_config": ir.StringAttr.get("", context),
        "has_side_effect": ir.BoolAttr.get(True, context),
        _FRONTEND: ir.DictAttr.get({_PLACEMENT: ir.StringAttr.get(kind, context)}, context),
    }
    if sharding is not None:
        attributes["sdy.sharding"] = sharding
    return Operation(CUSTOM_CALL, [value], [value.type], attributes, location).insert(point).result


def says_host(program: Program) -> bool:
    """Whether any value is annotated to be in host memory."""
    kinds = [
        memory_kind(entry)
        for key, values in (("arg_attrs", program.body.arguments), ("res_attrs", program.body.returned))
        for entry in dictionaries(program.function, key, len(values))
    ]
    calls = (placed_in(op.ir) for op in program.ops if op.info.name == CUSTOM_CALL)
    return any(map(is_host, kinds)) or any(map(is_host, calls))


class HostValues:
    """The values of a function in host memory, with their memory kinds; forwarded values are included."""

    def __init__(self, function: Operation, stays: Callable[[str], bool]) -> None:
        """`stays` says of which operations, by name, the result is in the memory of their first operand."""
        self._stays = stays
        self.kinds: dict[Value, str] = {}
        block = function.regions[0]
        for argument, entry in zip(
            block.arguments, dictionaries(function, "arg_attrs", len(block.arguments)), strict=True
        ):
            kind = memory_kind(entry)
            if kind is not None and is_host(kind):
                self.kinds[argument] = kind
        self._block(block)

    def _block(self, block: Block) -> None:
        for op in block:
            self._op(op)

    def _op(self, op: Operation) -> None:
        name, kind = op.name, placed_in(op)
        if kind is not None:
            self._set(op.results, kind)
        elif _frontend(op, _COMPUTE) == "host":
            self._set(op.results, "pinned_host")
        elif self._stays(name):
            self._set(op.results, self.kinds.get(op.operands[0]))
        elif name == BARRIER:
            self._hand_on(op.operands, op.results)
        elif name in CONTROL_FLOW:
            loop = name == WHILE
            for region in op.regions:
                if loop:
                    self._hand_on(op.operands, region.arguments)
                self._block(region)
            self._hand_on(op.regions[-1].terminator.operands, op.results)

    def _set(self, values: Iterable[Value], kind: str | None) -> None:
        for value in values:
            if kind is not None and is_host(kind):
                self.kinds[value] = kind

    def _hand_on(self, sources: Iterable[Value], targets: Iterable[Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._set([target], self.kinds.get(source))

"""Reshard values in host memory on the devices: before they move to the host, or after they come back."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.exchange.step_notation import STEPS
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.memory_spaces import DEVICE, HostValues, is_host, place, placed_in
from gspmd.transforms.ir.modules import FUNCTION
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ops import traits_of


def reshard_on_devices(module: Operation) -> None:
    """Move the operands of collectives from host memory to the devices, and the results back."""
    annotated = AnnotatedModule(module)
    hosts = HostValues(annotated.function, lambda name: name in STEPS or traits_of(name).stays_on_host)
    for value in list(hosts.kinds):
        if not _is_made_by_collective(value):
            for user in value.users:
                if user.name in STEPS:
                    _reshard(user, value, hosts, annotated)


def _is_made_by_collective(value: Value) -> bool:
    return value.op is not None and value.op.name in STEPS


def _reshard(first: Operation, value: Value, hosts: HostValues, annotated: AnnotatedModule) -> None:
    """Let the chain of collectives that starts with `first` run on the devices."""
    first.operands[0] = source = _before_host(value)
    if source in hosts.kinds:
        sharding = _sharding(source, annotated)
        first.operands[0] = place(source, DEVICE, sharding, Point.at(first), first.location)
    while value is not source and not value.is_used:
        unused = value.op
        assert unused is not None
        value = unused.operands[0]
        unused.erase()
    last = first
    while True:
        users = last.results[0].users
        if len(users) != 1 or users[0].name not in STEPS:
            break
        last = users[0]
    result = last.results[0]
    if users and all(placed_in(user) == DEVICE for user in users):
        return
    kind = hosts.kinds[result]
    back = place(result, kind, _sharding(result, annotated), Point.after(last), last.location)
    result.replace_all_uses_with(back, [back.op])


def _before_host(value: Value) -> Value:
    """The value on the devices that was moved to the host, if known; else the host value itself."""
    while value.op is not None and is_host(placed_in(value.op)):
        value = value.op.operands[0]
    return value


def _sharding(value: Value, annotated: AnnotatedModule) -> ir.Attribute | None:
    """The sharding attribute of a value, in the form of an operation's results; None if it is replicated."""
    codec: SdyCodec = annotated.codec
    index, parent = value.index, value.op or value.block.owner
    assert parent is not None
    if parent.name == FUNCTION:
        sharding = annotated.arguments[index]
        return None if sharding is None else codec.write_list((sharding,))
    for name in ("out_sharding", "sharding"):
        if parent.name in STEPS and name in parent.attributes:
            return codec.write_list((codec.read(parent.attributes[name]),))
    if "sdy.sharding" not in parent.attributes:
        return None
    return codec.write_list((codec.read_list(parent.attributes["sdy.sharding"])[index],))

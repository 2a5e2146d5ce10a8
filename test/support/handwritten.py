"""Per-device modules written by hand, for tests that should not need the partitioner."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, parse_sharding
from gspmd.transforms.ir.signature import Signature, ValueSignature, tensor_text, write_signature
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

GROUP_OF_4 = (
    "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, "
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
)
_VALUE = re.compile(r"(?:(\w+): )?([\w<>]+)\[([\d,]*)\] (\[.*\])( donated)?")


def value(text: str, mesh: Mesh) -> ValueSignature:
    """Read `w: f32[8,3] [{"x"}, {}] donated`; the name and `donated` may be left out."""
    match = _VALUE.fullmatch(text)
    assert match, text
    shape = tuple(int(size) for size in match[3].split(",") if size)
    sharding = parse_sharding(f"<@mesh, {match[4]}>", {"mesh": mesh})
    return ValueSignature(shape, match[2], sharding, bool(match[5]), match[1])


def partitioned(mesh_text: str, inputs: Sequence[str], outputs: Sequence[str], body: str) -> str:
    """A partitioned module; `body` has the per-device operations on `%0`, `%1`, ... and returns."""
    mesh = parse_mesh(mesh_text)
    ins = tuple(value(text, mesh) for text in inputs)
    outs = tuple(value(text, mesh) for text in outputs)
    donated = iter(range(len(outs)))
    arguments = ", ".join(
        f"%{i}: {tensor_text(v.local_shape, v.element_type)}"
        + (f" {{tf.aliasing_output = {next(donated)} : i32}}" if v.donated else "")
        for i, v in enumerate(ins)
    )
    results = ", ".join(tensor_text(v.local_shape, v.element_type) for v in outs)
    text = f"module {{ func.func public @main({arguments}) -> ({results}) {{\n{body}\n}} }}"
    module = parse_module(text, new_context())
    with in_memory(module) as top:
        write_signature(top, Signature(mesh, ins, outs))
    return str(module)


def identity(mesh_text: str, argument: str, result: str | None = None) -> str:
    """The module that returns its one argument."""
    mesh = parse_mesh(mesh_text)
    type_ = value(argument, mesh).type_text(local=True)
    return partitioned(mesh_text, [argument], [result or argument], f"return %0 : {type_}")

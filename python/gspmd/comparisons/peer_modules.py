"""The per-device module of a partitioner inside XLA, as StableHLO with the shardings of arguments and results.

XLA dumps it as HLO after its partitioning pass, and jaxlib translates it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxlib import _hlo, _jax
from jaxlib.mlir import ir

from gspmd.comparisons.peers import laid_out
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.group_axes import write_group_axes
from gspmd.dialect.hlo_groups import MeshGroups, parse_groups
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding, TupleOf
from gspmd.transforms.ir.collective_groups import COLLECTIVES, channel_of, set_groups
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import Signature, write_signature
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.attribute_text import required_text, text_of
from gspmd.transforms.parsing.mlir import new_context, parse_written

_PASS = "spmd-partitioning"
_COPY = "mhlo.copy"  # an HLO operation that StableHLO does not have
_GROUPS = re.compile(r"channel_id=(\d+), replica_groups=(mesh[^\n]*)")
_PARAMETERS, _OUTPUT = "mhlo.spmd_parameters_shardings", "mhlo.spmd_output_sharding"


class KeptModule:
    """Keeps the per-device module of a compilation: `proto` is its `HloModuleProto`, or None if there is none."""

    def __init__(self) -> None:
        self.proto: bytes | None = None

    @contextlib.contextmanager
    def keeping(self, options: Any) -> Iterator[None]:
        """Keep the module of a program that is compiled inside the block with these options, which are changed."""
        with tempfile.TemporaryDirectory() as directory:
            debug = options.executable_build_options.debug_options
            debug.xla_dump_to, debug.xla_dump_hlo_pass_re, debug.xla_dump_hlo_as_proto = directory, _PASS, True
            try:
                yield
            finally:
                for path in Path(directory).glob(f"*after_{_PASS}.*.pb"):
                    self.proto = _first_field(path.read_bytes())


def _first_field(proto: bytes) -> bytes:
    """The module of an `HloProto`: its first field, after a tag and the size in seven bits a byte."""
    size, place = 0, 1
    while True:
        byte = proto[place]
        size |= (byte & 0x7F) << 7 * (place - 1)
        place += 1
        if byte < 0x80:
            return proto[place : place + size]


def per_device_module(proto: bytes, signature: Signature) -> ir.Module:
    """The module with the given signature and the shardings that XLA chose.

    Errors: Unsupported for a sharding that does not follow the axes of the mesh, and for values of another shape than
    their shardings give.
    """
    module = parse_written(_jax.mlir.hlo_to_stablehlo(proto), new_context())
    with in_memory(module) as top:
        if _OUTPUT not in top.attributes:
            raise Unsupported("the module has no shardings of its results", code=Code.UNSUPPORTED)
        inputs = [parse_hlo_sharding(text_of(each)) for each in top.attributes.get(_PARAMETERS, ())]
        outputs = _leaves(parse_hlo_sharding(required_text(top.attributes, _OUTPUT)))
        taken = dataclasses.replace(
            signature,
            inputs=laid_out(signature.inputs, inputs, signature.mesh),
            outputs=laid_out(signature.outputs, outputs, signature.mesh),
        )
        _check_shapes(top, taken)
        _write_groups(top, proto)
        for op in list(top.walk()):
            if op.name == _COPY:
                op.replace(op.operands)
        write_signature(top, taken)
    return module


def _write_groups(top: Operation, proto: bytes) -> None:
    """Give collectives the groups that HLO writes as axes of a mesh: the translation drops the mesh's device ids."""
    groups: dict[str, str] = {}
    for channel, text in _GROUPS.findall(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()):
        if groups.setdefault(channel, text) != text:
            raise Unsupported(f"the module has several collectives with channel {channel}", code=Code.UNSUPPORTED)
    for op in top.walk():
        if op.name in COLLECTIVES and (text := groups.get(str(channel_of(op)))) is not None:
            along = parse_groups(text)
            assert isinstance(along, MeshGroups)
            set_groups(op, write_group_axes(along.mesh, along.axes, op.location.context))


def _leaves(sharding: HloSharding) -> tuple[HloSharding, ...]:
    return sharding.body.leaves if isinstance(sharding.body, TupleOf) else (sharding,)


def _check_shapes(top: Operation, signature: Signature) -> None:
    block = main_function(top).regions[0]
    for values, kept in ((block.arguments, signature.inputs), (block.terminator.operands, signature.outputs)):
        if [value.type.shape for value in values] != [value.local_shape for value in kept]:
            raise Unsupported("its arguments or results are shards of different sizes", code=Code.ARGUMENTS)

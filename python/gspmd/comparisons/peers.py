"""The partitioners inside XLA: their input, and the options of PJRT that select them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jaxlib import _jax
from jaxlib.mlir import ir

from gspmd.comparisons.gspmd_annotations import Free, free_values, use_gspmd_annotations
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.hlo_convert import to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding
from gspmd.dialect.mesh import Mesh
from gspmd.pass_manager.manager import run_passes
from gspmd.runtime import executable as runtime
from gspmd.runtime.executable import Executable
from gspmd.runtime.sharded_array import Devices, ShardedArray, padded_shape
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.operations import Attribute
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, ValueSignature

Keeping: TypeAlias = Callable[[Any], AbstractContextManager[None]]

GSPMD, SHARDY = "XLA GSPMD", "XLA Shardy"
PEERS = (GSPMD, SHARDY)
_OF_SHARDY = ("sdy.", "xla.sdy.")


def peer_options(devices: Devices, use_shardy: bool) -> Any:
    """PJRT's options for a program that XLA partitions over `devices`."""
    options = runtime.compile_options(devices)
    options.executable_build_options.use_shardy_partitioner = use_shardy
    return options


def leave_free(options: Any, free: Free) -> None:
    """Set which arguments and results XLA may give another sharding."""
    build = options.executable_build_options
    if any(free[0]):
        build.allow_spmd_sharding_propagation_to_parameters = list(free[0])
    if any(free[1]):
        build.allow_spmd_sharding_propagation_to_output = list(free[1])


def compile_by_peer(peer: str, module: ir.Module, mesh: Mesh, devices: Devices, keeping: Keeping = nullcontext) -> Any:
    """Partition a program with a peer, in place, and compile it with PJRT, inside the context that `keeping` makes.

    A program that is annotated in the peer's own notation is passed as it is. XLA with Shardy ignores GSPMD's notation.
    Errors: Unsupported for annotations without an equivalent in the other notation, and those of XLA.
    """
    for_shardy = is_annotated_for_shardy(module)
    if peer == SHARDY and not for_shardy:
        run_passes([Ingest(num_partitions=mesh.size)], module)
    free = free_values(module)
    if peer == GSPMD and for_shardy:
        use_gspmd_annotations(module, mesh)
    options = peer_options(devices, use_shardy=peer == SHARDY)
    leave_free(options, free)
    with module.context, runtime.quiet(), keeping(options):
        return devices[0].client.compile_and_load(module, _jax.DeviceList(devices), options)


def is_annotated_for_shardy(module: ir.Module) -> bool:
    """Whether a program is annotated in Shardy's notation, as JAX does by default."""
    top = model_of(module)
    names = (name for op in (top, *top.walk()) for name in (op.name, *op.attributes, *_of_values(op.attributes)))
    return any(name.startswith(_OF_SHARDY) for name in names)


def _of_values(attributes: Mapping[str, Attribute]) -> list[str]:
    """The names of attributes on a function's arguments and results."""
    entries = [entry for key in ("arg_attrs", "res_attrs") for entry in attributes.get(key, ())]
    return [named.name for entry in entries for named in entry]


def laid_out(
    values: Sequence[ValueSignature], shardings: Sequence[HloSharding], mesh: Mesh
) -> tuple[ValueSignature, ...]:
    """Arguments or results with XLA's shardings. Errors: Unsupported for one that does not follow the mesh's axes."""
    return tuple(
        dataclasses.replace(value, sharding=to_tensor_sharding(sharding, len(value.shape), mesh))
        for value, sharding in zip(values, shardings, strict=True)
    )


def as_laid_out(loaded: Any, signature: Signature, mesh: Mesh, devices: Devices) -> Executable:
    """XLA's program as an `Executable`, whose arguments and results have XLA's shardings.

    `signature` has the other properties of these values. Errors: as `laid_out`, and Unsupported for arguments in
    shards of different sizes.
    """
    from jaxlib import xla_client

    def read(given: Any) -> list[HloSharding]:
        return [parse_hlo_sharding(str(xla_client.HloSharding.from_proto(each))) for each in given]

    inputs = laid_out(signature.inputs, read(loaded.get_parameter_shardings()), mesh)
    for index, value in enumerate(inputs):
        if value.shape != padded_shape(value.sharding, value.shape):
            raise Unsupported(
                f"it takes argument {value.name or index} of shape {value.shape} in shards of different sizes, which "
                "JAX arrays cannot have",
                code=Code.ARGUMENTS,
            )
    outputs = laid_out(signature.outputs, read(loaded.get_output_shardings()), mesh)
    return _XlaExecutable(loaded, Signature(mesh, inputs, outputs), devices, "zero")


class _XlaExecutable(Executable):
    """A program that XLA partitioned: the last shards of uneven dimensions have no padding."""

    def _result(self, value: ValueSignature, buffers: Sequence[jax.Array]) -> ShardedArray:
        padded = [
            buffer if buffer.shape == value.local_shape else jnp.pad(buffer, _missing(buffer.shape, value.local_shape))
            for buffer in buffers
        ]
        return super()._result(value, padded)


def _missing(shape: Sequence[int], whole: Sequence[int]) -> list[tuple[int, int]]:
    return [(0, most - size) for size, most in zip(shape, whole, strict=True)]

"""Run partitioned modules on the devices of a PJRT client, and unpartitioned ones on one device."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib import _jax, utils, xla_client
from jaxlib.mlir import ir

from gspmd import arguments, executable_module, processes
from gspmd.dialect.errors import ExecutionError
from gspmd.dtypes import Padding, numpy_dtype
from gspmd.layout import shard_indices
from gspmd.sharded_array import Devices, ShardedArray
from gspmd.transforms.support.signature import Signature

_FATAL = 3
Program = Any  # whatever `read_program` reads: text, bytecode, a path, an ir.Module, what JAX lowers to
Partitioned = Any  # a partitioned module in any of these forms, or an object with `module_text`


class Executable:
    """A program compiled for `devices`; partition i runs on `devices[i]`.

    Called with global values, one an argument (numpy or JAX arrays, Python scalars, or `ShardedArray`s of
    an earlier call), it returns one `ShardedArray` a result, without waiting for the devices.
    """

    def __init__(self, loaded: Any, signature: Signature, devices: Devices, padding: Padding) -> None:
        self.loaded = loaded
        self.signature = signature
        self.devices = devices
        self._padding: Padding = padding
        partition_of = {device: i for i, device in enumerate(devices)}
        self._local_order = [partition_of[device] for device in loaded.local_devices()]
        # PJRT takes per-device buffers as one jax.Array and looks at nothing but its buffers, so any sharding
        # whose shards all have the local shape will do, whatever the copies hold.
        grid = jax.sharding.Mesh(np.array(devices, object), ("partition",))
        self._per_device = NamedSharding(grid, PartitionSpec())

    @property
    def num_partitions(self) -> int:
        return self.signature.num_partitions

    def place(self, *args: Any) -> tuple[ShardedArray, ...]:
        """The arguments on the devices, laid out as the program wants them.

        Errors: ExecutionError for a wrong number of arguments, a wrong shape or dtype, a donated array.
        """
        arguments.check_count(self.signature.inputs, len(args))
        arguments.check_donation(self.signature.inputs, args)
        return tuple(self._placed(i, arg) for i, arg in enumerate(args))

    def __call__(self, *args: Any) -> tuple[ShardedArray, ...]:
        """Run once. Errors: as `place`, and ExecutionError when the devices fail."""
        placed = self.place(*args)
        handlers = [functools.partial(self.result, i) for i in range(len(self.signature.outputs))]
        results = self.run([self._as_one(array) for array in placed], handlers)
        for value, arg in zip(self.signature.inputs, args, strict=True):
            if value.donated and isinstance(arg, ShardedArray | jax.Array):
                arg.delete()
        return tuple(results)

    def run(self, inputs: Sequence[jax.Array], handlers: Sequence[Callable[[Sequence[jax.Array]], Any]]) -> list[Any]:
        """Run once on arrays that have a shard on each of this process' devices, in the devices' order.

        Of each result's shards, in that order, its handler makes what is returned.
        """
        try:
            results: list[Any] = self.loaded.execute_sharded(inputs).consume_with_handlers(handlers)
        except (JaxRuntimeError, ValueError) as error:
            raise ExecutionError(f"the program failed: {_first_line(error)}") from None
        return results

    def input(self, index: int, arg: Any) -> jax.Array:
        """One argument as `run` takes it. Errors: as `place`."""
        return self._as_one(self._placed(index, arg))

    def result(self, index: int, buffers: Sequence[jax.Array]) -> ShardedArray:
        """A result made of its shards on this process' devices."""
        value = self.signature.outputs[index]
        by_partition = dict(zip(self._local_order, buffers, strict=True))
        return ShardedArray(value.shape, numpy_dtype(value.element_type), value.sharding, self.devices, by_partition)

    def _placed(self, index: int, arg: Any) -> ShardedArray:
        return arguments.place(index, self.signature.inputs[index], arg, self.devices, self._padding)

    def _as_one(self, array: ShardedArray) -> jax.Array:
        shape = array.sharding.local_shape(array.shape)
        buffers = list(array.buffers.values())
        with jax.enable_x64(True):
            return jax.make_array_from_single_device_arrays(shape, self._per_device, buffers, dtype=array.dtype)


def compile(
    partitioned: Partitioned,
    devices: Sequence[Any] | None = None,
    *,
    padding: Padding = "zero",
    timeout_s: float = processes.TIMEOUT_S,
) -> Executable:
    """Compile a partitioned module for the first N of `devices` (default: JAX's CPU devices).

    `padding` is what uneven arguments are filled up with: "nan" makes sure that nothing looks at it. Where the devices
    are of several processes, all of them have to compile the same module, within `timeout_s` seconds of each other.

    Errors: ParseError for a module that is not partitioned, ExecutionError for too few devices, a module that PJRT
    does not take, or other processes that compile another one.
    """
    platform = devices[0].platform if devices else "cpu"
    module, signature = executable_module.read_partitioned(_source(partitioned), platform)
    chosen = _devices(devices, signature.num_partitions)
    if jax.process_count() > 1:
        processes.agree(str(module), executable_module.name_of(module), signature, chosen, timeout_s)
    return _executable(module, signature, chosen, padding)


def compile_single(program: Program, device: Any = None) -> Executable:
    """Compile an unpartitioned program for one device, leaving its sharding annotations out.

    Errors: Unsupported for a program with manual regions, which is not one for a single device.
    """
    module, signature = executable_module.read_unpartitioned(program)
    chosen = _devices(None if device is None else [device], 1)
    return _executable(module, signature, chosen)


def compile_with_xla(program: Program, devices: Sequence[Any] | None = None) -> Executable:
    """Compile a program with manual regions, leaving them to the partitioner inside XLA.

    All arguments and results are replicated over the N devices of the program's mesh; annotations
    outside the manual regions are left out.
    """
    module, signature = executable_module.read_for_xla(program)
    chosen = _devices(devices, signature.num_partitions)
    return _executable(module, signature, chosen, use_shardy=True)


def load(
    path: str | os.PathLike[str], devices: Sequence[Any] | None = None, *, padding: Padding = "zero"
) -> Executable:
    """Compile the partitioned module in a file, MLIR text or bytecode. Errors: InputError, as `compile`."""
    return compile(Path(path), devices, padding=padding)


def save(partitioned: Partitioned, path: str | os.PathLike[str]) -> None:
    """Write a partitioned module for `load`: as bytecode if `path` ends in `.mlirbc` or `.bc`, else as text.

    The file appears whole or not at all. Errors: ParseError for a module that is not partitioned,
    InputError when the file cannot be written.
    """
    executable_module.write_file(_source(partitioned), Path(path))


def _source(partitioned: Partitioned) -> Any:
    return getattr(partitioned, "module_text", partitioned)


def platform_devices(platform: str) -> Devices:
    """The devices of a platform of jax, as `cpu` or `tpu`. Raises ExecutionError if it has none here."""
    try:
        return tuple(jax.devices(platform))
    except RuntimeError as error:
        raise ExecutionError(f"no {platform} devices: {_first_line(error)}") from None


def _devices(devices: Sequence[Any] | None, count: int) -> Devices:
    chosen = platform_devices("cpu") if devices is None else tuple(devices)
    if len(chosen) < count:
        platform = chosen[0].platform if chosen else "cpu"
        hint = f"set JAX_NUM_CPU_DEVICES={count} in the environment before jax is used"
        raise ExecutionError(
            f"the program has {count} partitions, but there are {len(chosen)} {platform} devices",
            hint=hint if platform == "cpu" else "partition it for fewer devices",
        )
    return chosen[:count]


def _executable(
    module: ir.Module, signature: Signature, devices: Devices, padding: Padding = "zero", use_shardy: bool = False
) -> Executable:
    for value in (*signature.inputs, *signature.outputs):  # what cannot be passed is refused before compiling
        numpy_dtype(value.element_type)
        shard_indices(value.sharding)
    return Executable(_load(module, devices, use_shardy), signature, devices, padding)


def compile_options(
    devices: Devices, use_shardy: bool = False, overrides: Mapping[str, str | int | float | bool] | None = None
) -> Any:
    """What PJRT is to know: partition i runs on `devices[i]`. `overrides` are the compiler's own options, by name."""
    count = len(devices)
    options = xla_client.CompileOptions()
    options.num_partitions = count
    build = options.executable_build_options
    build.num_partitions = count
    build.use_spmd_partitioning = count > 1 or use_shardy
    build.use_shardy_partitioner = use_shardy
    ids = np.array([[device.id for device in devices]])
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    options.env_option_overrides = list((overrides or {}).items())
    return options


def _load(module: ir.Module, devices: Devices, use_shardy: bool) -> Any:
    """Compile and load. The module is not one that anybody else holds."""
    options = compile_options(devices, use_shardy)
    try:
        with module.context, quiet():
            return devices[0].client.compile_and_load(module, _jax.DeviceList(devices), options)
    except (JaxRuntimeError, ValueError, ir.MLIRError) as error:
        raise ExecutionError(f"PJRT does not take the module: {_first_line(error)}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep XLA's warnings about its own partitioner, which finds nothing to do here, off stderr."""
    utils.absl_set_min_log_level(_FATAL)
    try:
        yield
    finally:
        utils.absl_set_min_log_level(_usual_log_level())


def _usual_log_level() -> int:
    """What the user chose, else jax's choice: warnings."""
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "")
    return int(level) if level.isdigit() else 1


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# jaxlib's bindings may have been loaded before jax, which asks for fewer messages only when it comes first.
utils.absl_set_min_log_level(_usual_log_level())

__all__ = [
    "Executable",
    "ShardedArray",
    "compile",
    "compile_options",
    "compile_single",
    "compile_with_xla",
    "load",
    "platform_devices",
    "save",
]

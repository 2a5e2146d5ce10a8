"""Run partitioned modules on the devices of a PJRT client, and unpartitioned ones on one device."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError
from jaxlib import _jax, utils, xla_client
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ExecutionError, UsageError, shown
from gspmd.dialect.limits import count_of
from gspmd.paths import path_text
from gspmd.runtime import arguments, executable_module, in_flight, placing, processes, refusals
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.runtime.dtypes import Padding, numpy_dtype
from gspmd.runtime.familiar_errors import ProgramFailed
from gspmd.runtime.layout import shard_indices
from gspmd.runtime.manual_program import whole_forms
from gspmd.runtime.sharded_array import Devices, ShardedArray
from gspmd.transforms.ir.signature import Signature, ValueSignature

_FATAL = 3
Program = Any  # anything that `read_program` reads: text, bytecode, a path, an ir.Module, a lowered JAX function
Partitioned = Any  # a partitioned module in any of these forms, or an object with `module_text`


class Executable:
    """A program compiled for `devices`; partition i runs on `devices[i]`.

    Called with global values, one per argument (numpy or JAX arrays, Python scalars, or `ShardedArray`s of an earlier
    call), it returns one `ShardedArray` per result, without waiting for the devices.
    """

    def __init__(self, loaded: Any, signature: Signature, devices: Devices, padding: Padding) -> None:
        self.loaded = loaded
        self.signature = signature
        self.devices = devices
        self._padding: Padding = padding
        self._forms = whole_forms(signature)[0]

    @property
    def num_partitions(self) -> int:
        return self.signature.num_partitions

    def place(self, *args: Any) -> tuple[ShardedArray, ...]:
        """The arguments on the devices, placed as the program requires.

        Errors: ExecutionError for a wrong number of arguments, a wrong shape or dtype, a donated array.
        """
        arguments.check_count(self.signature.inputs, len(args))
        arguments.check_donation(self.signature.inputs, args)
        return tuple(self._placed(i, arg) for i, arg in enumerate(args))

    def __call__(self, *args: Any) -> tuple[ShardedArray, ...]:
        """Run once. Errors: as `place`, and ExecutionError if the devices fail."""
        placed = zip(self.place(*args), self._forms, strict=True)
        inputs = [placing.as_passed(array, form, self.devices) for array, form in placed]
        handlers = [functools.partial(self._result, value) for value in self.signature.outputs]
        try:
            with in_flight.turn(self.devices) as started:
                results = started(self.loaded.execute_sharded(inputs).consume_with_handlers(handlers))
        except (JaxRuntimeError, ValueError) as error:
            raise ProgramFailed(f"the program failed: {_first_line(error)}") from None
        for value, arg in zip(self.signature.inputs, args, strict=True):
            if value.donated and isinstance(arg, jax.Array):
                arg.delete()
        return tuple(results)

    def _result(self, value: ValueSignature, buffers: Sequence[jax.Array]) -> ShardedArray:
        """A result, from its shards on the devices of this process."""
        dtype = numpy_dtype(value.element_type)
        return placing.from_buffers(value.shape, dtype, value.sharding, self.devices, buffers)

    def _placed(self, index: int, arg: Any) -> ShardedArray:
        return arguments.place(index, self.signature.inputs[index], arg, self.devices, self._padding)


def compile(
    partitioned: Partitioned,
    devices: Sequence[Any] | None = None,
    *,
    padding: Padding = "zero",
    timeout_s: float = processes.TIMEOUT_S,
) -> Executable:
    """Compile a partitioned module for the first N of `devices` (default: JAX's CPU devices).

    `padding` is the padding of uneven arguments: "nan" exposes programs that read it. If the devices belong to several
    processes, all of these have to compile the same module, within `timeout_s` seconds of each other.

    Errors: ParseError for a module that is not partitioned, Unsupported for one that calls Python, ExecutionError for
    too few devices, a module that PJRT refuses, or processes that compile different modules.
    """
    given = None if devices is None else listed(devices)
    platform = given[0].platform if given else "cpu"
    module, signature = executable_module.read_partitioned(_source(partitioned), platform)
    refuse_to_run(getattr(partitioned, "module", module))  # it has the source locations
    chosen = _devices(given, signature.num_partitions)
    if jax.process_count() > 1:
        processes.agree(str(module), executable_module.name_of(module), signature, chosen, timeout_s)
    return _executable(module, signature, chosen, padding)


def compile_single(program: Program, device: Any = None) -> Executable:
    """Compile an unpartitioned program for one device, without its annotations.

    Errors: Unsupported for a program with manual regions, which has no meaning on one device.
    """
    module, signature = executable_module.read_unpartitioned(program)
    chosen = _devices(None if device is None else listed([device]), 1)
    return _executable(module, signature, chosen)


def compile_with_xla(program: Program, devices: Sequence[Any] | None = None) -> Executable:
    """Compile a program with manual regions, using XLA's partitioner for them.

    All arguments and results are replicated over the N devices of the program's mesh; annotations outside the manual
    regions are dropped.
    """
    module, signature = executable_module.read_for_xla(program)
    chosen = _devices(None if devices is None else listed(devices), signature.num_partitions)
    return _executable(module, signature, chosen)


def load(
    path: str | os.PathLike[str], devices: Sequence[Any] | None = None, *, padding: Padding = "zero"
) -> Executable:
    """Compile the partitioned module in a file, MLIR text or bytecode. Errors: InputError, as `compile`."""
    return compile(Path(path_text(path)), devices, padding=padding)


def save(partitioned: Partitioned, path: str | os.PathLike[str]) -> None:
    """Write a partitioned module for `load`: as bytecode if `path` ends in `.mlirbc` or `.bc`, else as text.

    The file is written atomically. Errors: ParseError for a module that is not partitioned, InputError if the file
    cannot be written.
    """
    executable_module.write_file(getattr(partitioned, "module_text", partitioned), Path(path_text(path)))


def _source(partitioned: Partitioned) -> Any:
    """The source to read: the module itself if there is one, since its text has no source locations."""
    return getattr(partitioned, "module", getattr(partitioned, "module_text", partitioned))


def platform_devices(platform: str) -> Devices:
    """The devices of a JAX platform, such as `cpu` or `tpu`. Raises ExecutionError if there are none."""
    try:
        return tuple(jax.devices(platform))
    except RuntimeError as error:
        raise ExecutionError(f"no {platform} devices: {_first_line(error)}", code=Code.TOO_FEW_DEVICES) from None


def listed(devices: Sequence[Any]) -> Devices:
    """The devices given by a caller. Raises UsageError unless they are a sequence of JAX devices."""
    found = tuple(devices) if isinstance(devices, Sequence | np.ndarray) else (None,)
    if not all(isinstance(device, jax.Device) for device in found):
        raise UsageError(f"devices are {shown(devices)}, expected a list of jax's", hint="see jax.devices()")
    return found


def _devices(given: Devices | None, count: int) -> Devices:
    chosen = platform_devices("cpu") if given is None else given
    if len(chosen) < count:
        platform = chosen[0].platform if chosen else "cpu"
        hint = f"set JAX_NUM_CPU_DEVICES={count} in the environment before jax is used"
        raise ExecutionError(
            f"the program has {count} partitions, but there are {len(chosen)} {platform} devices",
            hint=hint if platform == "cpu" else "partition it for fewer devices",
            code=Code.TOO_FEW_DEVICES,
        )
    return chosen[:count]


def _executable(module: ir.Module, signature: Signature, devices: Devices, padding: Padding = "zero") -> Executable:
    for value in (*signature.inputs, *signature.outputs):  # refuse types that cannot be passed before compiling
        numpy_dtype(value.element_type)
        shard_indices(value.sharding)
        check_memory(value.memory_kind, devices)
    return Executable(_load(module, devices), signature, devices, padding)


def check_memory(kind: str | None, devices: Devices) -> None:
    """Raise ExecutionError unless the devices can address a memory of this kind."""
    known = [memory.kind for memory in devices[0].addressable_memories()] if kind is not None else []
    if kind is not None and kind not in known:
        raise ExecutionError(
            f"the program has arguments or results in memory '{kind}', but devices as {devices[0]} have "
            f"{', '.join(known)}",
            hint="lower it with one of these as memory_kind",
            code=Code.MEMORY_KIND,
        )


def compile_options(devices: Devices, overrides: Mapping[str, str | int | float | bool] | None = None) -> Any:
    """The compile options: partition i runs on `devices[i]`. `overrides` are options of the compiler, by name.

    Shardy lowers manual computations, including the one around the whole program.
    """
    count = len(devices)
    options = xla_client.CompileOptions()
    options.num_partitions = count
    build = options.executable_build_options
    build.num_partitions = count
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = count > 1
    ids = np.array([[device.id for device in devices]])
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    options.env_option_overrides = list((overrides or {}).items())
    return options


def _load(module: ir.Module, devices: Devices) -> Any:
    """Compile and load a module that has no other owner."""
    options = compile_options(devices)

    def compile_(module: ir.Module) -> Any:
        with module.context, quiet():
            return devices[0].client.compile_and_load(module, _jax.DeviceList(devices), options)

    try:
        return compile_(module)
    except refusals.REFUSED as error:
        raise refusals.refusal(error, module, compile_) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep XLA's warnings about its partitioner, which has nothing to do here, off stderr."""
    utils.absl_set_min_log_level(_FATAL)
    try:
        yield
    finally:
        utils.absl_set_min_log_level(_usual_log_level())


def _usual_log_level() -> int:
    """The user's log level, or else JAX's: warnings."""
    level = count_of(os.environ.get("TF_CPP_MIN_LOG_LEVEL", ""))
    return 1 if level is None else level


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# jaxlib may have been loaded before jax, which reduces the log level only if it is loaded first.
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

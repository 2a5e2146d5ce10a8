"""One program partitioned, compiled by XLA for virtual CPU devices, and measured."""

from __future__ import annotations

import dataclasses
import re
import statistics
import time
from typing import Any

import jax
import numpy as np
import xla
from hlo_counts import Counts, count
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax

from gspmd import api
from gspmd.transforms.support.mlir import new_context, parse_module


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Figures of one device and one call: bytes held at once, and seconds of a step, None where it was not run."""

    model: str
    partitioner: str
    devices: int
    counts: Counts
    held_bytes: int
    step_s: float | None

    @property
    def bytes(self) -> float:
        return self.counts.bytes

    @property
    def flops(self) -> float:
        return self.counts.flops

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "bytes": self.bytes}


def measure(model: str, partitioner: str, text: str, devices: int, steps: int) -> Result:
    """Partition with gspmd, or leave that to XLA, compile, and count; run it `steps` times."""
    chosen = jax.devices()[:devices]
    options = xla.compile_options(devices, use_shardy=partitioner == xla.SHARDY)
    module = parse_module(text, new_context())
    if partitioner not in (xla.GSPMD, xla.SHARDY):
        module = api.partition(text).module
    with module.context:
        executable = chosen[0].client.compile_and_load(module, _jax.DeviceList(tuple(chosen)), options)
    text = executable.hlo_modules()[0].to_string()
    memory = executable.get_compiled_memory_stats()
    held = (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes
    )
    return Result(model, partitioner, devices, count(text), held, _step_s(executable, text, chosen, steps))


def _step_s(executable: Any, text: str, devices: list[Any], steps: int) -> float | None:
    """Median seconds of a call on made-up arguments; the first, which warms up, is left out."""
    if not steps:
        return None
    rng = np.random.default_rng(0)
    # PJRT looks at the buffers of an argument only: any sharding whose shards have the local shape will do.
    anyhow = NamedSharding(Mesh(np.array(devices), ("all",)), PartitionSpec())
    values = [
        rng.normal(size=shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)
        for shape, dtype in _parameters(text)
    ]
    seconds = []
    for _ in range(steps + 1):
        arguments = [
            jax.make_array_from_single_device_arrays(
                value.shape, anyhow, [jax.device_put(value, device) for device in devices]
            )
            for value in values
        ]
        jax.block_until_ready(arguments)
        started = time.perf_counter()
        jax.block_until_ready(executable.execute_sharded(arguments).disassemble_into_single_device_arrays())
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


_PARAMETER = re.compile(r"^ *(?:ROOT )?%?[\w.\-]+ = (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", re.MULTILINE)
_TYPES = {"f32": np.float32, "s32": np.int32, "pred": np.bool_, "u32": np.uint32}


def _parameters(text: str) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and types of the entry computation's parameters, as a device holds them."""
    entry = text[text.index("\nENTRY ") :]
    found = {int(m[3]): (tuple(int(n) for n in m[2].split(",") if n), _TYPES[m[1]]) for m in _PARAMETER.finditer(entry)}
    return [found[index] for index in sorted(found)]

"""One program partitioned, compiled by XLA, and measured."""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xla
from hlo_counts import Counts, count
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib import _jax

from gspmd import api
from gspmd.comparisons.peers import compile_by_peer, peer_options
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.executable_module import read_partitioned
from gspmd.runtime.sharded_array import Devices
from gspmd.transforms.parsing.mlir import new_context, parse_module


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Figures of one device and one call.

    `held_bytes` are arguments, results and temporaries as XLA lays them out. `step_s` is the median of timed calls,
    None where none were made; `step_ratio`, of ours, the median ratio to the better peer.
    """

    model: str
    partitioner: str
    devices: int
    counts: Counts
    held_bytes: int
    step_s: float | None = None
    step_ratio: float | None = None

    @property
    def bytes(self) -> float:
        return self.counts.bytes

    @property
    def flops(self) -> float:
        return self.counts.flops

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "bytes": self.bytes}


def virtual_devices(count: int) -> Devices:
    """CPU devices of this process."""
    return tuple(jax.devices("cpu")[:count])


def gpus(count: int) -> Devices:
    """GPUs of the kind that this machine has one of. Programs are compiled for them, and cannot be called."""
    found = topologies.get_topology_desc(platform="cuda", topology_name="gpus", topology=f"1x1x{count}")
    return tuple(found.devices)


def load(
    partitioner: str, text: str, devices: Devices, mesh: Mesh | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """The program as PJRT has it for these devices, partitioned with gspmd, with options of its passes, or by XLA.

    `mesh` is the program's, where its annotations have to be translated for XLA GSPMD.
    """
    if partitioner not in (xla.GSPMD, xla.SHARDY):
        partitioned = api.partition(text, options=options)
        module, _ = read_partitioned(partitioned.module_text, devices[0].platform)
        return _compiled(module, devices, use_shardy=True)
    module = parse_module(text, new_context())
    if mesh is not None:
        return compile_by_peer(partitioner, module, mesh, devices)
    return _compiled(module, devices, use_shardy=partitioner == xla.SHARDY)


def _compiled(module: Any, devices: Devices, use_shardy: bool) -> Any:
    client = devices[0].client
    compile_ = client.compile_and_load if devices[0] in jax.devices() else client.compile
    with module.context:
        return compile_(module, _jax.DeviceList(devices), peer_options(devices, use_shardy))


class Compiled:
    """A program partitioned with gspmd, or by XLA, and compiled for these devices."""

    def __init__(self, partitioner: str, text: str, devices: Devices, options: Mapping[str, Any] | None = None) -> None:
        self.partitioner, self.devices = partitioner, devices
        self.executable = load(partitioner, text, devices, options=options)
        self.text = self.executable.hlo_modules()[0].to_string()

    def result(self, model: str) -> Result:
        memory = self.executable.get_compiled_memory_stats()
        held = (
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            + memory.temp_size_in_bytes
            - memory.alias_size_in_bytes
        )
        return Result(model, self.partitioner, len(self.devices), count(self.text), held)

    @functools.cached_property
    def _values(self) -> list[Any]:
        """What a device gets as arguments; not made for programs that are only compiled."""
        rng = np.random.default_rng(0)
        return [
            rng.normal(size=shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)
            for shape, dtype in _parameters(self.text)
        ]

    def call(self) -> float:
        """Seconds of a call on made-up arguments, which are new each time: a program may give their memory away."""
        # PJRT looks at the buffers of an argument only: any sharding whose shards have the local shape will do.
        anyhow = NamedSharding(jax.sharding.Mesh(np.array(self.devices), ("all",)), PartitionSpec())
        arguments = [
            jax.make_array_from_single_device_arrays(
                value.shape, anyhow, [jax.device_put(value, device) for device in self.devices]
            )
            for value in self._values
        ]
        jax.block_until_ready(arguments)
        started = time.perf_counter()
        jax.block_until_ready(self.executable.execute_sharded(arguments).disassemble_into_single_device_arrays())
        return time.perf_counter() - started


def timed(programs: Sequence[Compiled], results: Sequence[Result], rounds: int) -> list[Result]:
    """The results with step times, the median of all rounds but the first, which warms up.

    In every round each program is called once, one after the other, so that what else the machine does slows all alike.
    The first of the programs is ours; its `step_ratio` is to the faster of the others.
    """
    seconds: list[list[float]] = [[] for _ in programs]
    for turn in range(rounds + 1):
        for index in [(turn + k) % len(programs) for k in range(len(programs))]:
            taken = programs[index].call()
            if turn:
                seconds[index].append(taken)
    medians = [statistics.median(each) for each in seconds]
    better = min(range(1, len(programs)), key=lambda index: medians[index])
    ratio = statistics.median(mine / theirs for mine, theirs in zip(seconds[0], seconds[better], strict=True))
    return [
        dataclasses.replace(result, step_s=median, step_ratio=None if index else ratio)
        for index, (result, median) in enumerate(zip(results, medians, strict=True))
    ]


_PARAMETER = re.compile(r"^ *(?:ROOT )?%?[\w.\-]+ = (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", re.MULTILINE)
_TYPES = {"f32": np.float32, "s32": np.int32, "pred": np.bool_, "u32": np.uint32}


def _parameters(text: str) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and types of the entry computation's parameters, as a device holds them."""
    entry = text[text.index("\nENTRY ") :]
    found = {int(m[3]): (tuple(int(n) for n in m[2].split(",") if n), _TYPES[m[1]]) for m in _PARAMETER.finditer(entry)}
    return [found[index] for index in sorted(found)]

"""One model of the paper partitioned in one way, compiled for TPUs, and looked at."""

from __future__ import annotations

import time
from typing import Any

import xla
from paper_table import GSPMD, MATMUL, OURS, SHARDY, Row

SEQUENCE, HEAD_SIZE, VOCABULARY = 1024, 256, 32000


def measure(row: Row, how: str) -> dict[str, Any]:
    """Bytes, seconds, operations and utilisation of a device; see `report_paper`."""
    xla.prepare(row.devices if how in (GSPMD, SHARDY) else 1, quiet=True)
    from gspmd import machines
    from gspmd.ahead_of_time import compile_for, step_time_on
    from gspmd.api import partition
    from gspmd.collectives import traffic_of
    from gspmd.costs import cost

    mesh = {"x": row.x, "y": row.y}
    started = time.perf_counter()
    ours = partition(_lowered(row, mesh, remat=True), target=row.target)
    partition_s = time.perf_counter() - started
    place = machines.machine(row.target, ours.mesh, traffic_of(ours.module, ours.mesh))
    assert place.hardware is not None
    if how in (OURS, MATMUL):
        if how == MATMUL:
            started = time.perf_counter()
            options = {"collective_matmul": True, "bidirectional": True}
            ours = partition(_lowered(row, mesh, remat=True), target=row.target, options=options)
            partition_s = time.perf_counter() - started
        compiled = compile_for(ours, row.target)
        compile_s, executable = compiled.compile_s, compiled.executable
    else:
        partition_s = _xla_partition_s(row, how)
        started = time.perf_counter()
        executable = _xla_compile(row, how, place.devices)
        compile_s = time.perf_counter() - started
    stats = executable.get_compiled_memory_stats()
    text = executable.hlo_modules()[0].to_string()
    step = step_time_on(place, text)
    assert step is not None
    sent: dict[str, float] = {}
    for c in step.collectives:
        sent[c.kind] = sent.get(c.kind, 0.0) + c.sent_bytes * c.runs
    model_flops = cost(_lowered(row, mesh, remat=False), target=row.target).model_flops or 0.0
    peak = place.hardware.flops["bf16"]
    low, scheduled, high = step.utilisation(model_flops / row.devices, peak)
    return {
        "parameters": _parameters(row),
        "partition_s": partition_s,
        "compile_s": compile_s,
        "peak": stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes,
        "sent": sent,
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "scheduled_s": step.scheduled_s,
        "model_flops": model_flops / row.devices,
        "utilisation": {"no_overlap": low, "scheduled": scheduled, "all_overlap": high},
        "hlo_bytes": len(text),
    }


def _config(row: Row, remat: bool) -> Any:
    from gspmd.examples import decoder_lm

    return decoder_lm.Config(
        layers=row.layers,
        model=row.model,
        heads=row.heads,
        head_size=HEAD_SIZE,
        hidden=row.hidden,
        vocabulary=VOCABULARY,
        sequence=SEQUENCE,
        batch=row.batch,
        scan=True,
        remat=remat,
        dtype="bfloat16",
        optimizer="factored",
    )


def _program(row: Row, remat: bool) -> Any:
    from gspmd.examples import decoder_lm

    return decoder_lm.program(_config(row, remat), decoder_lm.RECIPES["2d"])


def _lowered(row: Row, mesh: dict[str, int], remat: bool) -> Any:
    from gspmd.examples.common.running import lowered

    return lowered(_program(row, remat), mesh).program


def _parameters(row: Row) -> int:
    import jax

    return sum(leaf.size for leaf in jax.tree.leaves(_program(row, True).abstract()[0]["params"]))


def _xla_text(row: Row, how: str, devices: Any) -> str:
    """The annotated module as JAX alone lowers it, in the form that the partitioner reads."""
    import jax
    import numpy as np

    from gspmd.examples.common import program as programs

    jax.config.update("jax_use_shardy_partitioner", how == SHARDY)
    mesh = jax.sharding.Mesh(np.array(devices, object).reshape(row.x, row.y), ("x", "y"))
    return str(programs.lower(_program(row, True), mesh).as_text())


def _xla_partition_s(row: Row, how: str) -> float:
    """Seconds of the partitioner's passes in jaxlib's XLA."""
    import jax

    from gspmd.transforms.support.mlir import new_context, parse_module

    module = parse_module(_xla_text(row, how, jax.devices()[: row.devices]), new_context())
    times = xla.partition(module, row.devices, use_shardy=how == SHARDY)
    passes = ("shardy-xla",) if how == SHARDY else ("sharding-propagation",)
    return sum(times.get(name, 0.0) for name in (*passes, "spmd-partitioning"))


def _xla_compile(row: Row, how: str, devices: Any) -> Any:
    """libtpu compiles the annotated module, with its own copy of the partitioner, for devices in our order."""
    from jaxlib import _jax

    from gspmd import runtime
    from gspmd.transforms.support.mlir import new_context, parse_module

    module = parse_module(_xla_text(row, how, devices), new_context())
    options = runtime.compile_options(devices, use_shardy=how == SHARDY)
    with module.context:
        return devices[0].client.compile(module, _jax.DeviceList(devices), options)

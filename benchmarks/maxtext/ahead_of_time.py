"""A training step of MaxText compiled by libtpu for a topology of TPUs, and looked at; no TPU is needed."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
from typing import Any

from configurations import Topology
from figures import figures
from watching import Watch, check_made_by

_COMPILER = "maxtext.trainers.pre_train.train_compile"


def prepare() -> None:
    """Before anything imports jax."""
    os.environ |= {"DECOUPLE_GCLOUD": "TRUE", "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
    os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"  # other processes may compile, too
    os.environ |= {"TPU_STDERR_LOG_LEVEL": "3", "TPU_MIN_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}


def measure(row: Topology, how: str) -> dict[str, Any]:
    """What the step sends, holds, computes, is estimated to take, and took to be made."""
    prepare()
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        import training

        compiler = importlib.import_module(_COMPILER)
        watch = Watch(how)
        watch.within((_COMPILER,))
        started = time.perf_counter()
        compiler.main(["", training.base(), *row.arguments, f"base_output_directory={folder}"])
        wall_s = time.perf_counter() - started
    step = next(record for record in watch.records if record.compiled is not None)
    check_made_by(how, step.compiled)
    return {
        "run_s": wall_s,
        "lower_s": step.lower_s,
        "partition_s": step.partition_s,
        "compile_s": step.compile_s,
        **figures(step.compiled),
        **estimate(step.compiled.as_text(), row.target, devices_of(step.options["in_shardings"])),
        "serialized": _serialized(step.compiled),
    }


def devices_of(shardings: Any) -> list[Any]:
    """The devices of the mesh that shardings are over, in its order, which is that of the partitions."""
    import jax

    found = next(each for each in jax.tree.leaves(shardings) if isinstance(each, jax.sharding.NamedSharding))
    return list(found.mesh.devices.flat)


def estimate(text: str, target_name: str, devices: list[Any]) -> dict[str, Any]:
    """Seconds of a step by the compiler's cycles and schedule, with collectives on the links between these devices."""
    from gspmd.compiled.step_time import step_time
    from gspmd.dialect.mesh import Mesh
    from gspmd.transforms.machine.target_file import read_target

    target = read_target(target_name)
    assert target.torus is not None, "a topology is a torus"
    places = [(*device.coords[: len(target.torus.dims)], device.core_on_chip) for device in devices]
    step = step_time(text, target, target.hardware(Mesh(())), places.__getitem__)
    return {
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "step_s": step.scheduled_s,
        "limit": target.memory_bytes,
    }


def _serialized(compiled: Any) -> str:
    """What becomes of the executable in the way in which MaxText saves it: its size, or what was raised."""
    from jax.experimental.serialize_executable import serialize

    try:
        return f"{len(serialize(compiled)[0])} bytes"
    except Exception as error:  # noqa: BLE001  whatever it is, the page says so
        return f"{type(error).__name__}: {error}"[:200]

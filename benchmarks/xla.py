"""The partitioners inside XLA, timed by XLA's own log of its passes.

What loads jaxlib is imported in functions: its log is set up when it is loaded, which `prepare` has to precede.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurement import PARTITION, PROPAGATE, Clock, Run, Stage, Transfer

if TYPE_CHECKING:
    from jaxlib.mlir import ir
    from programs import Program

GSPMD = "XLA GSPMD"
SHARDY = "XLA Shardy"
_REFUSAL = "Eigh custom call"  # what XLA says about a program that has gone through `_append_refused`
_INFO, _WARNING, _ERROR = 0, 1, 2
_DEVICES_PER_PROCESS = 2048  # a constant of XLA's CPU client; further devices belong to a second process
_PASS_TIME = re.compile(r"HLO pass: (\S+) time: [^(]*\((\d+) us\) \(cumulative")


def prepare(devices: int, quiet: bool = False, gpus: bool = False) -> None:
    """Start JAX with this many virtual CPU devices and a log of XLA's passes; call before anything imports jax.

    Above 2,048 devices the last belong to another process, so that XLA wants cross-process collectives to compile
    for them. A distributed runtime of this process alone provides these. `quiet` leaves out XLA's warnings. With
    `gpus`, JAX has the GPUs of this machine, too.
    """
    os.environ["JAX_PLATFORMS"] = "cpu,cuda" if gpus else "cpu"
    flags = [os.environ.get("XLA_FLAGS", ""), f"--xla_force_host_platform_device_count={devices}"]
    if gpus:
        flags.append("--xla_gpu_autotune_level=0")  # tuning takes time and changes nothing that is sent
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ["TF_CPP_VMODULE"] = "hlo_pass_pipeline=1"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = str(_INFO)  # what is off at the start stays off
    import jax
    from jaxlib import utils

    utils.absl_set_min_log_level(_ERROR if quiet else _WARNING)

    if devices > _DEVICES_PER_PROCESS:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        jax.distributed.initialize(address, num_processes=1, process_id=0)
    found = len(jax.devices("cpu"))
    if found != devices:
        raise RuntimeError(f"expected {devices} devices, got {found}")


def run_gspmd(program: Program, want_traffic: bool) -> Run:
    """Partition once with GSPMD: `sharding-propagation` and `spmd-partitioning` (which includes its clean-up)."""
    return _run(program, False, "sharding-propagation", want_traffic)


def run_shardy(program: Program, want_traffic: bool) -> Run:
    """Partition once as JAX does by default: `shardy-xla` propagates on StableHLO, then `spmd-partitioning`."""
    return _run(program, True, "shardy-xla", want_traffic)


def _run(program: Program, use_shardy: bool, propagation: str, want_traffic: bool) -> Run:
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(program.sdy if use_shardy else program.mhlo, new_context())
    with tempfile.TemporaryDirectory() as directory:
        clock = Clock()
        times = partition(module, program.devices, use_shardy=use_shardy, dump_to=directory if want_traffic else None)
        share = clock.cpu_share()
        traffic = _read_traffic(Path(directory)) if want_traffic else None
    stages = (Stage(propagation, PROPAGATE), Stage("spmd-partitioning", PARTITION))
    return Run.of({stage: times[stage.name] for stage in stages}, share, traffic)


def partition(
    module: ir.Module,
    devices: int,
    free: tuple[Sequence[bool], Sequence[bool]] = ((), ()),
    *,
    use_shardy: bool = False,
    dump_to: str | None = None,
    dump_pass: str = "spmd-partitioning",
) -> dict[str, float]:
    """Hand a module to XLA, which stops after partitioning; returns the seconds of each pass that ran, by its name.

    The module gets one more result, which makes XLA stop. `free` says which arguments and results may get another
    sharding than they have. `dump_to` is a directory for the HLO text before and after `dump_pass`.
    """
    import jax
    from jaxlib import _jax

    from gspmd.comparisons.peers import leave_free, peer_options

    _append_refused(module)
    chosen = tuple(jax.devices()[:devices])
    options = peer_options(chosen, use_shardy)
    leave_free(options, (free[0], [*free[1], False] if any(free[1]) else ()))
    build = options.executable_build_options
    if dump_to is not None:
        build.debug_options.xla_dump_to = dump_to
        build.debug_options.xla_dump_hlo_pass_re = dump_pass
    with _captured_log() as log, module.context:
        try:
            chosen[0].client.compile_and_load(module, _jax.DeviceList(chosen), options)
        except jax.errors.JaxRuntimeError as error:
            if _REFUSAL not in str(error):
                raise
        else:
            raise RuntimeError(f"XLA compiled a program with an invalid '{_REFUSAL}'")
    times: dict[str, float] = {}
    for name, microseconds in _PASS_TIME.findall(log()):
        times[name] = times.get(name, 0.0) + int(microseconds) * 1e-6
    return times


def _append_refused(module: ir.Module) -> None:
    """Give @main another result, made by a call that XLA refuses soon after partitioning.

    Otherwise XLA would go on to compile for the CPU, which takes some hundred times longer than what is measured.
    """
    import numpy as np
    from jaxlib.mlir import ir

    from gspmd.transforms.ir.modules import declare_types, main_function
    from gspmd.transforms.ir.operations import Operation, Point
    from gspmd.transforms.ir.signature import dictionaries, set_dictionaries
    from gspmd.transforms.ir.types import TensorType
    from gspmd.transforms.ir.writing import in_memory

    with in_memory(module) as top:
        function = main_function(top)
        terminator = function.regions[0].terminator
        point, location = Point.at(terminator), terminator.location
        matrix, vector = TensorType((1, 1), "f32"), TensorType((1,), "f32")
        one = ir.DenseElementsAttr.get(np.ones((1, 1), np.float32))
        value = Operation("stablehlo.constant", [], [matrix], {"value": one}, location).insert(point)
        target = {"call_target_name": ir.StringAttr.get("Eigh")}
        call = Operation("stablehlo.custom_call", value.results, [matrix, vector], target, location).insert(point)
        results = dictionaries(function, "res_attrs", len(terminator.operands))
        Operation("func.return", [*terminator.operands, call.results[1]], [], {}, location).insert(point)
        terminator.erase()
        declare_types(function)
        set_dictionaries(function, "res_attrs", [*results, {}])


def _read_traffic(directory: Path) -> tuple[Transfer, ...]:
    from traffic import of_hlo

    (path,) = directory.glob("*after_spmd-partitioning.*.txt")
    return of_hlo(path.read_text())


@contextlib.contextmanager
def _captured_log() -> Iterator[Any]:
    """Let XLA log what it does, into a file; yields a function that gives the text once the block has ended."""
    from jaxlib import utils

    text = ""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        utils.absl_set_min_log_level(_INFO)
        try:
            yield lambda: text
        finally:
            utils.absl_set_min_log_level(_WARNING)
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            text = file.read().decode(errors="replace")

"""gspmd run: run a partitioned program and print a summary of its results."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.progress import counted
from gspmd.tools._partitioned import (
    add_choice_arguments,
    add_platform_argument,
    partitioned,
    positive,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser

if TYPE_CHECKING:
    import numpy as np

    from gspmd.dialect.mesh import Mesh
    from gspmd.runtime.executable import Executable, ShardedArray
    from gspmd.transforms.ir.signature import ValueSignature

NAME = "run"
_MAX = 8  # results that are named
SUMMARY = "run a program on the devices of a PJRT client, partitioning it first if needed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="an annotated or a partitioned module (- for stdin), or an executable written by gspmd compile: native "
        "code, to be run only if you trust its source",
    )
    add_choice_arguments(parser)
    parser.add_argument("--inputs", metavar="F.npz", help="arguments, as arrays named 0, 1, ... or by argument name")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the random arguments used without --inputs (default: 0)",
    )
    parser.add_argument("-o", "--output", metavar="R.npz", help="write the results, as arrays named 0, 1, ...")
    parser.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="run N times and time each (default: 1)"
    )
    add_platform_argument(parser)


def run(args: argparse.Namespace) -> int:
    from gspmd.compiled.file import is_compiled
    from gspmd.output import beside, outputs
    from gspmd.reading import read_program_file
    from gspmd.transforms.parsing.mlir import new_context
    from gspmd.virtual_devices import request_devices

    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}, expected at least 0", code=Code.BAD_VALUE)
    (output,) = outputs(args.output)
    if args.file != "-" and is_compiled(args.file):
        executable = _load(args.file)
    else:
        module = read_program_file(args.file, new_context())
        with stage("partitioning"):
            product, count = partitioned(module, args)
        request_devices(args.platform, count)
        from gspmd.runtime import executable as runtime

        with stage("compiling"):
            executable = runtime.compile(product, runtime.platform_devices(args.platform))
    from gspmd.runtime import inputs

    values = executable.signature.inputs
    choices: list[Callable[[], tuple[Any, ...]]] = (
        [functools.partial(inputs.read_inputs, args.inputs, values)]
        if args.inputs is not None
        else [functools.partial(inputs.random_inputs, values, args.seed, signed) for signed in (True, False)]
    )
    with beside(output):
        arrays = _run_and_tell(executable, choices, args.repeat)
    if output:
        output.write(inputs.npz({str(i): array for i, array in enumerate(arrays)}))
    return 0


def _run_and_tell(
    executable: Executable, choices: Sequence[Callable[[], tuple[Any, ...]]], repeat: int
) -> list[np.ndarray[Any, Any]]:
    """Run the program, print its arguments, times and results, and return the results.

    `choices` make arguments: the first that do not lead to NaN are used, or else the last.
    """
    from gspmd.tables import fitted

    _print_interface(executable)
    for last, choose in enumerate(choices, 1):
        times_s, results = _timed_runs(executable, choose(), repeat)
        arrays = [result.to_numpy() for result in results]
        undefined = [str(index) for index, array in enumerate(arrays) if _has_nan(array)]
        if not undefined or last == len(choices):
            break
        some = f"{', '.join(undefined[:_MAX])}{', ..' if len(undefined) > _MAX else ''}"
        for line in fitted([f"note: NaN in results {some}: run again with random arguments that are not negative"]):
            print(line)
    _print_times(times_s)
    mesh = executable.signature.mesh
    lines = [
        f"result {_label(i, value, mesh)} = {_summary(array)}"
        for i, (value, array) in enumerate(zip(executable.signature.outputs, arrays, strict=True))
    ]
    for line in fitted(lines):
        print(line)
    return arrays


def _has_nan(array: np.ndarray[Any, Any]) -> bool:
    return bool((array != array).any())


def _load(path: str) -> Executable:
    """An executable written by `gspmd compile`, loaded on its platform."""
    from gspmd.compiled.file import read_compiled
    from gspmd.virtual_devices import request_devices

    stored = read_compiled(path)
    request_devices(stored.about.platform, max(stored.about.ids) + 1)
    from gspmd.compiled.ahead_of_time import loaded

    with stage("loading"):
        return loaded(stored, path)


def _timed_runs(
    executable: Executable, given: tuple[Any, ...], repeat: int
) -> tuple[list[float], tuple[ShardedArray, ...]]:
    """The wall-clock seconds of every run, from arguments on the devices to finished results, and the last results."""
    times_s: list[float] = []
    donates = any(value.donated for value in executable.signature.inputs)
    placed: tuple[ShardedArray, ...] = ()
    results: tuple[ShardedArray, ...] = ()
    with stage("running"):
        for _ in counted(range(repeat), "run"):
            if donates or not times_s:
                placed = executable.place(*given)
                for array in placed:
                    array.block_until_ready()
            start = time.perf_counter()
            results = executable(*placed)
            for result in results:
                result.block_until_ready()
            times_s.append(time.perf_counter() - start)
    return times_s, results


def _print_interface(executable: Executable) -> None:
    from gspmd.dialect.notation import print_mesh
    from gspmd.tables import fitted

    mesh, platform = executable.signature.mesh, executable.devices[0].platform
    print(f"mesh {print_mesh(mesh)}: {executable.num_partitions} partitions on {platform}")
    lines = [
        f"argument {_label(i, value, mesh)}{', donated' if value.donated else ''}"
        for i, value in enumerate(executable.signature.inputs)
    ]
    for line in fitted(lines):
        print(line)


def _label(index: int, value: ValueSignature, mesh: Mesh) -> str:
    from gspmd.text_report import sharding_text

    name = f" '{value.name}'" if value.name else ""
    shape = ",".join(map(str, value.shape))
    return f"{index}{name}: {value.element_type}[{shape}] {sharding_text(value.sharding, mesh)}"


def _print_times(times_s: list[float]) -> None:
    import statistics

    first = f"first run {times_s[0] * 1e3:.3f} ms"
    if len(times_s) > 1:
        later = times_s[1:]
        first += (
            f"; {len(later)} more: median {statistics.median(later) * 1e3:.3f} ms, "
            f"fastest {min(later) * 1e3:.3f} ms, slowest {max(later) * 1e3:.3f} ms"
        )
    print(first)


def _summary(array: np.ndarray[Any, Any]) -> str:
    """The smallest, largest and mean element and the number of non-finite ones; a small array in full."""
    import numpy as np

    from gspmd.checks.comparison import count_nonfinite

    if array.size <= 4:
        return str(array.tolist())
    if array.dtype.kind == "b":
        return f"{int(array.sum())} of {array.size} true"
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    finite = wide[np.isfinite(wide)]
    bad = count_nonfinite(array)
    suffix = f", {bad} of {array.size} not finite" if bad else ""
    if not finite.size:
        return f"nothing finite{suffix}"
    if array.dtype.kind == "c":
        return f"magnitude up to {abs(finite).max():.6g}, mean {finite.mean():.6g}{suffix}"
    return f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}{suffix}"

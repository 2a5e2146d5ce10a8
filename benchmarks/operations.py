"""Bytes sent for one operation at a time, by gspmd and the partitioners inside jaxlib, and whether results are right.

Usage: `python benchmarks/operations.py [--only WORD] [--output docs/measured/operations_compared.md]`.

Every partitioner runs in a process of its own, because some crash.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from measurement import Transfer
from operation_cases import CASES, Case
from proof.contents import fill

from gspmd.isolation import ProcessDied, Worker

Array = np.ndarray[Any, Any]
_TOLERANCE = 2e-4  # relative to the largest number of a result: sums in another order


def arrays_of(case: Case) -> list[Array]:
    """The operands; those of tensors are whole numbers, and scalars are small."""
    return [fill(shape, element, content, i) for i, (shape, element, content) in enumerate(case.contents())]


def expected_of(case: Case) -> list[Array]:
    """What XLA computes on one device."""
    from gspmd.runtime import executable as runtime

    return [r.to_numpy() for r in runtime.compile_single(case.text())(*arrays_of(case))]


def judged(case: Case, executable: Any, expected: list[Array]) -> str:
    """Run, and compare: "" if right."""
    from gspmd.checks.comparison import compare_sharded

    actual = executable(*arrays_of(case))
    for want, have in zip(expected, actual, strict=True):
        found = compare_sharded(want, have)
        exact = want.dtype.kind not in "fc"
        if found.mismatch or found.max_abs_error > (0 if exact else _TOLERANCE * max(1.0, found.scale)):
            return "wrong"
    return ""


def ours(case: Case, expected: list[Array]) -> tuple[list[Transfer], str]:
    """gspmd."""
    from traffic import of_stablehlo

    import gspmd
    from gspmd.runtime import executable as runtime

    partitioned = gspmd.partition(case.text())
    return list(of_stablehlo(partitioned.module)), judged(case, runtime.compile(partitioned), expected)


def xla_gspmd(case: Case, expected: list[Array]) -> tuple[list[Transfer], str]:
    """XLA's partitioner, with the annotations it reads."""
    return _xla(case, expected, use_shardy=False)


def xla_shardy(case: Case, expected: list[Array]) -> tuple[list[Transfer], str]:
    """XLA as JAX calls it: Shardy propagates, XLA partitions."""
    return _xla(case, expected, use_shardy=True)


def _xla(case: Case, expected: list[Array], use_shardy: bool) -> tuple[list[Transfer], str]:
    import jax
    from jaxlib import _jax
    from traffic import of_hlo

    from gspmd.comparisons.peers import peer_options
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    signature = _signature(case)
    text = case.text() if use_shardy else _with_hlo_shardings(case, signature)
    devices = tuple(jax.devices()[: signature.mesh.size])
    module = parse_module(text, new_context())
    with tempfile.TemporaryDirectory() as directory, module.context:
        options = peer_options(devices, use_shardy)
        debug = options.executable_build_options.debug_options
        debug.xla_dump_to, debug.xla_dump_hlo_pass_re = directory, "spmd-partitioning"
        loaded = devices[0].client.compile_and_load(module, _jax.DeviceList(devices), options)
        (path,) = Path(directory).glob("*after_spmd-partitioning.*.txt")
        sent = of_hlo(path.read_text())
    _check_shards(loaded.hlo_modules()[0].to_string(), signature)
    return list(sent), judged(case, _executable(loaded, signature, devices), expected)


def shardy_passes(case: Case, expected: list[Array]) -> tuple[list[Transfer], str]:
    """Shardy's own passes, down to the program of a device."""
    from gspmd.runtime import executable as runtime

    module, sent = _by_shardys_passes(case)
    return sent, judged(case, runtime.compile(module), expected)


def verified_shardy_passes(case: Case, expected: list[Array]) -> tuple[str, str]:
    """What the verifier says of the program of a device that Shardy's own passes make; and "" if it is right."""
    import gspmd
    from gspmd.runtime import executable as runtime

    module, _ = _by_shardys_passes(case)
    return gspmd.verify(case.text(), module).verdict.value, judged(case, runtime.compile(module), expected)


def _by_shardys_passes(case: Case) -> tuple[Any, list[Transfer]]:
    from jaxlib.mlir.passmanager import PassManager as MlirPassManager
    from shardy import PIPELINES
    from traffic import of_stablehlo

    from gspmd.pass_manager import PassManager
    from gspmd.transforms.ir.signature import write_signature
    from gspmd.transforms.ir.writing import in_memory
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    signature = _signature(case)
    module = parse_module(case.text(), new_context())
    PassManager(["gspmd-ingest", "chlo-legalize-to-stablehlo"]).run(module)
    for pipeline in PIPELINES:
        MlirPassManager.parse(f"builtin.module({pipeline})", module.context).run(module.operation)
    sent = list(of_stablehlo(module))
    with in_memory(module) as top:
        write_signature(top, signature)
        for op in top.walk():  # what its passes leave on operations, XLA would take for its own
            op.attributes.pop("sdy.sharding", None)
    return module, sent


def _check_shards(hlo: str, signature: Any) -> None:
    """JAX's way has whole values where shards are uneven, so that the program would be another one."""
    layout = hlo.partition("entry_computation_layout={(")[2].partition("\n")[0].rpartition("}")[0]
    layout = re.sub(r"/\*.*?\*/", "", layout)
    taken = [tuple(int(n) for n in dims.split(",") if n) for dims in re.findall(r"[a-z]\w*\[([\d,]*)\]", layout)]
    asked = [value.sharding.local_shape(value.shape) for value in (*signature.inputs, *signature.outputs)]
    if taken != asked:
        raise ValueError(f"has shards of {taken} where {asked} are asked for")


def _signature(case: Case) -> Any:
    """How gspmd takes operands and gives results, which the annotations fix."""
    import gspmd

    return gspmd.partition(case.text()).signature


def _executable(loaded: Any, signature: Any, devices: tuple[Any, ...]) -> Any:
    import jax

    from gspmd.runtime.executable import Executable

    class PeerExecutable(Executable):
        """A program of whose uneven shards jaxlib says that they have no padding, though they have."""

        def _result(self, value: Any, buffers: Any) -> Any:
            shape = value.sharding.local_shape(value.shape)
            return super()._result(value, [each if each.shape == shape else as_it_lies(each) for each in buffers])

    def as_it_lies(buffer: Any) -> Any:
        return jax.device_put(np.asarray(buffer), *buffer.devices())

    return PeerExecutable(loaded, signature, devices, "zero")


def _with_hlo_shardings(case: Case, signature: Any) -> str:
    """The program with `mhlo.sharding` in place of `sdy.sharding`."""
    from gspmd.api import Sharding

    text = case.text().split("\n", 1)[1]
    for value in (*signature.inputs, *signature.outputs):
        start = text.index("{sdy.sharding = ")
        end = text.index(">}", start) + 2
        text = f'{text[:start]}{{mhlo.sharding = "{Sharding(value.sharding).mhlo}"}}{text[end:]}'
    return text


PARTITIONERS: dict[str, Callable[[Case, list[Array]], tuple[list[Transfer], str]]] = {
    "gspmd": ours,
    "XLA GSPMD": xla_gspmd,
    "XLA, Shardy propagates": xla_shardy,
    "Shardy's passes": shardy_passes,
}
_HEAD = """# Operations compared

Bytes that a device sends for one operation, by gspmd and by the partitioners inside jaxlib {version}, written
by `python benchmarks/operations.py`. Shapes, shardings and attributes are in `benchmarks/operation_cases.py`;
there are 8 devices. Bytes are those of ring algorithms (`transforms/machine/cost.py`), counted in the same
way for all. The bytes in brackets are for the case that a later pass turns every all-reduce whose result is
only sliced into a reduce-scatter. Every program is run, and compared with one device. *Wrong* means other
results. *Fails* means that a partitioner or a compiler refuses the program, or gives its arguments or results
other shards than specified (uneven ones, which JAX does not have). *Aborts* means that the process ends.
**Bold** is more than the best peer with correct results.

| operation | {names} |
|---|{lines}
"""


def cell(transfers: list[Transfer], verdict: str) -> tuple[str, float]:
    """The text of a result, and the bytes to compare with: those of the fused form if it is right."""
    if verdict in ("fails", "aborts"):
        return verdict, float("inf")
    sent, fused = sum(t.bytes for t in transfers), sum(t.sliced_bytes for t in transfers)
    text = _bytes(sent) + (f" ({_bytes(fused)})" if fused != sent else "")
    return (f"{text}, wrong", float("inf")) if verdict else (text, fused)


def _bytes(number: float) -> str:
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


def row(case: Case, worker: Worker) -> tuple[str, bool, dict[str, str]]:
    """The line of a case; whether gspmd sends more than the best; why a partitioner failed."""
    expected = worker.call(expected_of, case)
    cells, numbers, failures = [], [], {}
    for name, run in PARTITIONERS.items():
        try:
            text, number = cell(*worker.call(run, case, expected))
        except ProcessDied as death:
            text, number = "aborts", float("inf")
            failures[name] = str(death)
        except Exception as error:  # noqa: BLE001 - what a partitioner says of a program is part of the result
            text, number = "fails", float("inf")
            failures[name] = str(error).strip().partition("\n")[0]
        cells.append(text)
        numbers.append(number)
    worse = numbers[0] > min(numbers[1:]) * 1.001
    if worse:
        cells[0] = f"**{cells[0]}**"
    return f"| {case.name} (`{case.operation.partition('.')[2]}`) | {' | '.join(cells)} |", worse, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--output", type=Path, help="write the table to this file")
    options = parser.parse_args()
    import jaxlib.version

    lines, more = [], []
    worker = Worker()
    for case in CASES:
        if options.only in case.name:
            line, worse, failures = row(case, worker)
            print(line, flush=True)
            for name, why in failures.items():
                print(f"    {name}: {why[:300]}", file=sys.stderr)
            lines.append(line)
            more += [line] if worse else []
    worker.stop()
    head = _HEAD.format(
        version=jaxlib.version.__version__, names=" | ".join(PARTITIONERS), lines="---|" * len(PARTITIONERS)
    )
    page = head + "\n".join(lines) + f"\n\ngspmd sends more than the best in {len(more)} of {len(lines)} cases.\n"
    if options.output:
        options.output.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    import operations  # by whose name another process finds its functions

    sys.exit(operations.main())

"""What a device sends in one call of a program, by kind of collective and mesh axes, for each of the partitioners.

These are the functions that `losses.py` calls in another process, which a partitioner may end.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any

import xla

if TYPE_CHECKING:
    from gspmd.compiled.optimized_hlo import OptimizedModule

OURS = "gspmd"
PARTITIONERS = (OURS, xla.GSPMD, xla.SHARDY)
Mesh = tuple[tuple[str, int], ...]
_LENGTH, _SHAPE = re.compile(r"fft_length=\{([\d,]+)\}"), re.compile(r"\[([\d,]+)\]")


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """Collectives as (kind, axes, number, bytes), most bytes first, and a device's arithmetic.

    That is counted in dots, convolutions and Fourier transforms. `unknown_loops` is the number of collectives in
    loops whose trip count is not known; they count once.
    """

    collectives: tuple[tuple[str, str, int, float], ...]
    flops: float = 0.0
    unknown_loops: int = 0

    @property
    def bytes(self) -> float:
        return sum(entry[3] for entry in self.collectives)


def sent(partitioner: str, text: str) -> Sent:
    """Partition and compile a program with Shardy's annotations, and read what comes out."""
    mesh, executable = _loaded(partitioner, text)
    return read(executable.hlo_modules()[0].to_string(), mesh)


def read(hlo: str, mesh: Mesh) -> Sent:
    """The collectives and the arithmetic of an optimised module, loops as often as they run."""
    from gspmd.compiled.hlo_work import work_in
    from gspmd.compiled.optimized_hlo import OptimizedModule
    from gspmd.dialect.notation import print_axes

    found: dict[tuple[str, str], tuple[int, float]] = {}
    unknown = 0
    module = OptimizedModule(hlo)
    work = work_in(module, mesh)
    for each in work.collectives:
        key = each.kind, print_axes(each.axes, mesh).replace('"', "").replace(", ", ",")
        number, size = found.get(key, (0, 0.0))
        found[key] = number + each.runs, size + each.sent_bytes * each.runs
        unknown += not each.known
    listed = [(*key, number, size) for key, (number, size) in found.items()]
    flops = sum(work.flops.values()) + _transforms(module)
    return Sent(tuple(sorted(listed, key=lambda entry: (-entry[3], entry[:2]))), flops, unknown)


def _transforms(module: OptimizedModule) -> float:
    """The arithmetic of the Fourier transforms of a module, 5 n log2 n for one of n elements."""
    total = 0.0
    for visit in module.visits(fused=True):
        length = _LENGTH.search(visit.instruction.attributes) if visit.instruction.opcode == "fft" else None
        shape = _SHAPE.search(visit.instruction.type) if length is not None else None
        if length is not None and shape is not None:
            elements = math.prod(int(n) for n in shape[1].split(","))
            total += visit.times * 5 * elements * math.log2(math.prod(int(n) for n in length[1].split(",")))
    return total


def wrong(partitioner: str, text: str, limit: float) -> str:
    """Run a program, and compare with one device: what is wrong with the result that differs most, "" if nothing is."""
    import jax
    import numpy as np

    import gspmd
    from gspmd.comparisons.peers import as_laid_out
    from gspmd.runtime import executable as runtime

    mesh, executable = _loaded(partitioner, text)
    arrays = _arrays(text)
    expected = [result.to_numpy() for result in runtime.compile_single(text)(*arrays)]
    ours = gspmd.partition(text)
    devices = tuple(jax.devices()[: mesh.size])
    called = runtime.compile(ours) if partitioner == OURS else as_laid_out(executable, ours.signature, mesh, devices)
    actual = [result.to_numpy() for result in called(*arrays)]
    worst = ""
    for index, (want, have) in enumerate(zip(expected, actual, strict=True)):
        finite = np.isfinite(want)  # sums in another order may go over the largest number elsewhere
        reference = want[finite].astype(np.float64)
        error = float(np.linalg.norm(have[finite] - reference) / (np.linalg.norm(reference) or 1.0))
        if not error <= limit:
            limit, worst = error, f"result {index} is off by {error:.2g}"
    return worst


def _loaded(partitioner: str, text: str) -> tuple[Any, Any]:
    """The mesh, and the program compiled; XLA may lay out arguments and results that have no annotation."""
    import compiled

    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.reading import model_of
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    mesh = AnnotatedModule(model_of(parse_module(text, new_context()))).mesh
    return mesh, compiled.load(partitioner, text, compiled.virtual_devices(mesh.size), mesh)


def _arrays(text: str) -> list[Any]:
    """Arguments: numbers around zero, and indices that are mostly in range."""
    import numpy as np

    import gspmd

    rng = np.random.default_rng(0)
    made = []
    for value in gspmd.partition(text).signature.inputs:
        whole = value.element_type == "i32"
        made.append(rng.integers(0, 8, value.shape, np.int32) if whole else rng.normal(size=value.shape).astype("f4"))
    return made


def sent_as_laid_out_by(peer: str, text: str) -> Sent:
    """What ours sends if arguments and results lie as a peer lays them out.

    What is still more than the peer sends is lost within the program. Errors: as `peers.as_laid_out`.
    """
    import compiled

    import gspmd
    from gspmd.comparisons.peers import as_laid_out
    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.writing import in_memory
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    mesh, loaded = _loaded(peer, text)
    theirs = as_laid_out(loaded, gspmd.partition(text).signature, mesh, compiled.virtual_devices(mesh.size)).signature
    module = parse_module(text, new_context())
    with in_memory(module) as top:
        AnnotatedModule(top).set_signature(*([v.sharding for v in each] for each in (theirs.inputs, theirs.outputs)))
    return sent(OURS, str(module))


def mesh_of(text: str) -> Mesh:
    """The axes of a program's mesh and their sizes."""
    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.reading import model_of
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    return AnnotatedModule(model_of(parse_module(text, new_context()))).mesh.axes

"""What a device sends in one call of a program, by kind of collective and mesh axes, for each of the partitioners.

These are the functions that `losses.py` calls in another process, which a partitioner may end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import xla

OURS = "gspmd"
PARTITIONERS = (OURS, xla.GSPMD, xla.SHARDY)
Mesh = tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """Collectives as (kind, axes, number, bytes), most bytes first.

    `unknown_loops` is the number of those in loops whose trip count is not known; they count once.
    """

    collectives: tuple[tuple[str, str, int, float], ...]
    unknown_loops: int = 0

    @property
    def bytes(self) -> float:
        return sum(entry[3] for entry in self.collectives)


def sent(partitioner: str, text: str) -> Sent:
    """Partition and compile a program with Shardy's annotations, and read what comes out."""
    mesh, executable = _loaded(partitioner, text)
    return read(executable.hlo_modules()[0].to_string(), mesh.axes)


def read(hlo: str, mesh: Mesh) -> Sent:
    """The collectives of an optimised module: bytes as `hlo_counts` has them, loops as often as they run."""
    from traffic import hlo_transfer

    from gspmd.compiled.optimized_hlo import OptimizedModule

    module = OptimizedModule(hlo)
    found: dict[tuple[str, str], tuple[int, float]] = {}
    unknown = 0
    for visit in module.visits(fused=True):
        if visit.instruction.collective:
            transfer = hlo_transfer(module, visit.instruction)
            key = transfer.kind, axes_of(visit.instruction.attributes, mesh)
            number, size = found.get(key, (0, 0.0))
            found[key] = number + visit.times, size + transfer.bytes * visit.times
            unknown += not visit.known
    listed = [(*key, number, size) for key, (number, size) in found.items() if size]
    return Sent(tuple(sorted(listed, key=lambda entry: (-entry[3], entry[:2]))), unknown)


def axes_of(attributes: str, mesh: Mesh) -> str:
    """The axes along which the devices of a collective differ; a part of an axis has a star."""
    import numpy as np

    from gspmd.runtime.hlo_groups import groups, pairs

    sizes = [size for _, size in mesh]
    joined: Sequence[Sequence[int]] = [p for p in pairs(attributes) if p[0] != p[1]]
    permute = bool(joined)
    members = joined or groups(attributes, math.prod(sizes))[:1]
    found = []
    for axis, (name, size) in enumerate(mesh):
        places = [len(set(np.unravel_index(list(each), sizes)[axis].tolist())) for each in members]
        if max(places, default=1) > 1:
            found.append(name if permute or max(places) == size else f"{name}*")
    return ",".join(found)


def wrong(partitioner: str, text: str, limit: float) -> str:
    """Run a program, and compare with one device: what is wrong with the result that differs most, "" if nothing is."""
    import numpy as np

    import gspmd
    from gspmd.runtime import executable as runtime

    mesh, executable = _loaded(partitioner, text)
    arrays = _arrays(text)
    expected = [result.to_numpy() for result in runtime.compile_single(text)(*arrays)]
    called = runtime.compile(gspmd.partition(text)) if partitioner == OURS else _as_laid_out(executable, text, mesh)
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
    import completions

    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.reading import model_of
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(text, new_context())
    mesh = AnnotatedModule(model_of(module)).mesh
    free = completions.to_mhlo(module, mesh)
    given = str(module) if partitioner == xla.GSPMD else text
    return mesh, compiled.load(partitioner, given, mesh.size, free)


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


def _as_laid_out(executable: Any, text: str, mesh: Any) -> Any:
    """XLA's program as one of ours is called: arguments and results as its own shardings say.

    Errors: Unsupported for a sharding that is none of the mesh's axes.
    """
    import jax

    import gspmd
    from gspmd.runtime.executable import Executable

    def laid_out(values: Sequence[Any], given: Any) -> tuple[Any, ...]:
        shardings = _shardings(given, [len(value.shape) for value in values], mesh)
        return tuple(dataclasses.replace(v, sharding=sharding) for v, sharding in zip(values, shardings, strict=True))

    own = gspmd.partition(text).signature
    signature = dataclasses.replace(
        own,
        inputs=laid_out(own.inputs, executable.get_parameter_shardings()),
        outputs=laid_out(own.outputs, executable.get_output_shardings()),
    )
    return Executable(executable, signature, tuple(jax.devices()[: mesh.size]), "zero")


def _shardings(given: Any, ranks: Sequence[int], mesh: Any) -> list[Any]:
    """What PJRT says of arguments or results, as shardings over the mesh. Errors: as `_as_laid_out`."""
    from jaxlib import xla_client

    from gspmd.dialect.hlo_convert import to_tensor_sharding
    from gspmd.dialect.hlo_notation import parse_hlo_sharding

    read = [parse_hlo_sharding(str(xla_client.HloSharding.from_proto(each))) for each in given]
    return [to_tensor_sharding(sharding, rank, mesh) for sharding, rank in zip(read, ranks, strict=True)]


def sent_as_laid_out_by(peer: str, text: str) -> Sent:
    """What ours sends if arguments and results lie as a peer lays them out.

    What is still more than the peer sends is lost within the program. Errors: as `_as_laid_out`.
    """
    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.modules import function_types
    from gspmd.transforms.ir.writing import in_memory
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    mesh, executable = _loaded(peer, text)
    module = parse_module(text, new_context())
    with in_memory(module) as top:
        whole = AnnotatedModule(top)
        types = function_types(whole.function)
        found = executable.get_parameter_shardings(), executable.get_output_shardings()
        inputs, results = (
            _shardings(given, [t.rank for t in each], mesh) for given, each in zip(found, types, strict=True)
        )
        whole.set_signature(inputs, results)
    return sent(OURS, str(module))


def mesh_of(text: str) -> Mesh:
    """The axes of a program's mesh and their sizes."""
    from gspmd.transforms.ir.annotated import AnnotatedModule
    from gspmd.transforms.ir.reading import model_of
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    return AnnotatedModule(model_of(parse_module(text, new_context()))).mesh.axes

"""Annotations of values in a traced function: `mesh_split` of the paper, and `annotate` by axis names.

Source: arXiv 2105.04663, section 3 (the API) and section 3.5 (the gradient of a value gets the value's annotation).
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import traceback
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import source_info_util
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from gspmd.dialect.axes import Axes, canonical
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, SourceLocation, UsageError, shown
from gspmd.dialect.hlo_convert import to_hlo_sharding
from gspmd.dialect.hlo_notation import print_hlo_sharding, print_open_dims
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_axis_name
from gspmd.dialect.sdy_attrs import write_sharding
from gspmd.dialect.sharding import OPEN, DimSharding, TensorSharding
from gspmd.frontend.device_mesh import (
    PROGRAM,
    DeviceMesh,
    MeshLike,
    TracedProgram,
    device_mesh,
    has_manual_axes,
    own_order,
)
from gspmd.runtime.familiar_errors import WrongSharding
from gspmd.runtime.sharded_array import jax_can_hold, jax_sharding

UNSPECIFIED = PartitionSpec.UNCONSTRAINED
"""Stands for a dimension whose sharding is left to propagation, as `PartitionSpec.UNCONSTRAINED` does."""
source_info_util.register_exclusion(__file__)  # the location of an annotation is the caller's line


def mesh_split(x: Any, mesh: MeshLike, dims_mapping: Sequence[Any]) -> Any:
    """Annotate `x`: dimension d is split over the mesh axis `dims_mapping[d]`, or is not split if that is -1.

    An entry is the number or the name of an axis, or several of them, the most major first. `gspmd.UNSPECIFIED`
    leaves a dimension to propagation. The value does not change. It may also be annotated outside `gspmd.jit`. A
    gradient gets the annotation of its value. `mesh` is any mesh that `gspmd.jit` takes. Shards need not be even.

    Errors: AnnotationError for a wrong number of entries, and for axes that are repeated or not in the mesh.
    """
    known = device_mesh(mesh).mesh
    return split(x, known, [_numbered(known, entry) for entry in dims_mapping], every=True)


def annotate(x: Any, *dims: Any, mesh: MeshLike = None) -> Any:
    """Annotate `x` by axis names: `annotate(x, "x", None, ("y", "z"))`, or with one `PartitionSpec` or `NamedSharding`.

    None keeps a dimension whole, as do missing entries at the end; `gspmd.UNSPECIFIED` leaves it to propagation. The
    default mesh is the one of `gspmd.jit` or `jax.set_mesh`. `"x:(1)2"` is a sub-axis in Shardy's notation: of size 2,
    with a pre-size of 1.

    Errors: as `mesh_split`, and UsageError without a mesh.
    """
    spec = dims[0] if len(dims) == 1 else None
    if isinstance(spec, NamedSharding):
        return split(x, _mesh_of(spec) if mesh is None else device_mesh(mesh).mesh, spec.spec.partitions)
    return split(x, device_mesh(mesh).mesh, spec.partitions if isinstance(spec, PartitionSpec) else dims)


def _mesh_of(sharding: NamedSharding) -> Mesh:
    """The mesh of a sharding, with its device order if that differs from the program's."""
    program: TracedProgram | None = PROGRAM.value
    ordered = None if program is None else own_order(sharding.mesh, program.mesh)
    return ordered or device_mesh(sharding.mesh).mesh


def split(x: Any, mesh: Mesh, dims: Sequence[Any], every: bool = False) -> Any:
    """`x`, annotated; with `every`, there must be an entry for each dimension."""
    x = jax.numpy.asarray(x)
    try:
        if len(dims) > x.ndim or (every and len(dims) != x.ndim):
            raise AnnotationError(
                f"{len(dims)} entries do not fit a value of shape {x.shape}; give one per dimension", code=Code.RANK
            )
        sharding = sharding_of(mesh, dims, x.ndim)
        return mesh_split_p.bind(_of_type(x, sharding), sharding=sharding)
    except AnnotationError as error:
        raise error.at(_callers_line()) from None


def _of_type(x: Any, sharding: TensorSharding) -> Any:
    """The value with the sharding in its type, if axes of its mesh are of type Explicit."""
    around = jax.sharding.get_abstract_mesh()
    if around.empty or AxisType.Explicit not in around.axis_types or any(dim.is_open for dim in sharding.dims):
        return x
    if sharding.mesh.axes != tuple(around.shape.items()) or not all(map(sharding.mesh.is_full, sharding.used_axes())):
        return x
    return jax.sharding.reshard(x, PartitionSpec(*(_names(axes) for axes in sharding.dim_axes())))


def _names(axes: Axes) -> tuple[str, ...] | None:
    return tuple(axis.name for axis in axes) or None


def _callers_line() -> SourceLocation | None:
    """The line of the user's function that calls gspmd."""
    here = os.path.dirname(__file__)
    for frame, line in traceback.walk_stack(None):
        code = frame.f_code
        if os.path.dirname(code.co_filename) != here:
            column = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))[2]
            return SourceLocation(code.co_filename, line, 0 if column is None else column + 1)
    return None


def annotate_as(values: Sequence[Any], shardings: Sequence[TensorSharding | None], mesh: DeviceMesh) -> list[Any]:
    """The values with annotations, inside a function that JAX traces; values without a sharding are unchanged.

    If XLA partitions the function, JAX needs the devices of the mesh, and takes only even shardings.
    """
    program: TracedProgram | None = PROGRAM.value
    by_gspmd = program is not None and program.by_gspmd
    found = []
    for x, sharding in zip(values, shardings, strict=True):
        if sharding is None:
            found.append(x)
            continue
        _check_free(sharding)
        if not by_gspmd and mesh.is_here() and jax_can_hold(sharding, x.shape):
            target = jax_sharding(sharding, mesh.here())
            if target.mesh.axis_names == tuple(name for name, _ in mesh.mesh.axes):
                whole = target.spec if has_manual_axes() else NamedSharding(mesh.jax_mesh(), target.spec)
                x = jax.lax.with_sharding_constraint(x, whole)
        found.append(mesh_split_p.bind(x, sharding=sharding))
    return found


def _check_free(sharding: TensorSharding) -> None:
    """Raise WrongSharding for a sharding over manual axes of the computation around."""
    around = jax.sharding.get_abstract_mesh()
    types = dict(zip(around.axis_names, around.axis_types, strict=True))
    named = (axis.name for axes in sharding.dim_axes() for axis in axes)
    held = [name for name in named if types.get(name) == AxisType.Manual]
    if held:
        raise WrongSharding(
            f'a sharding of a function is over "{held[0]}", which a manual computation around it holds',
            hint="use axes that are not manual there",
            code=Code.ANNOTATION,
        )


def sharding_of(mesh: Mesh, dims: Sequence[Any], rank: int) -> TensorSharding:
    """The sharding with these entries, as those of a `PartitionSpec`. Raises AnnotationError."""
    if len(dims) > rank:
        raise AnnotationError(
            f"{len(dims)} entries do not fit a value of rank {rank}; give one per dimension", code=Code.RANK
        )
    entries = [*dims, *(None,) * (rank - len(dims))]
    return TensorSharding(mesh, tuple(OPEN if e is UNSPECIFIED else DimSharding(_axes(mesh, e)) for e in entries))


def sharding_of_spec(mesh: Mesh, spec: PartitionSpec, rank: int) -> TensorSharding:
    """The sharding of a `PartitionSpec`, with its unreduced axes. Raises AnnotationError."""
    tiled = sharding_of(mesh, spec.partitions, rank)
    if not spec.unreduced:
        return tiled
    unreduced = canonical(mesh.sorted(tuple(parse_axis_name(name, mesh) for name in spec.unreduced)))
    return dataclasses.replace(tiled, unreduced=unreduced)


def _axes(mesh: Mesh, entry: Any) -> Axes:
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise AnnotationError(
            f"{shown(entry)} names no mesh axes; expected a name, a tuple of names, or None", code=Code.AXIS_UNKNOWN
        )
    return canonical(tuple(parse_axis_name(name, mesh) for name in names))


def _numbered(mesh: Mesh, entry: Any) -> Any:
    """An entry of the paper's mapping with axis names instead of numbers."""
    if entry is None or entry is UNSPECIFIED or isinstance(entry, str):
        return entry
    if isinstance(entry, Sequence):
        return tuple(_numbered(mesh, each) for each in entry)
    if not hasattr(entry, "__index__"):
        raise AnnotationError(
            f"{shown(entry)} is no mesh axis; expected a number, a name, or -1", code=Code.AXIS_UNKNOWN
        )
    number = entry.__index__()
    if number == -1:
        return None
    if not 0 <= number < len(mesh.axes):
        raise AnnotationError(
            f"there is no mesh axis {number}; the mesh has {len(mesh.axes)}, and -1 splits nothing",
            code=Code.AXIS_UNKNOWN,
        )
    return mesh.axes[number][0]


# ---- the primitive ----

mesh_split_p = Primitive("mesh_split")
mesh_split_p.def_impl(lambda x, *, sharding: x)
mesh_split_p.def_abstract_eval(lambda x, *, sharding: x)
ad.deflinear2(mesh_split_p, lambda cotangent, x, *, sharding: [mesh_split_p.bind(cotangent, sharding=sharding)])


def _batched(axis: Any, values: Any, dims: Any, *, sharding: TensorSharding) -> tuple[Any, Any]:
    """The dimension that `vmap` adds is open, or split over `spmd_axis_name`."""
    (position,) = dims
    if position is None:  # the value is not batched
        return mesh_split_p.bind(values[0], sharding=sharding), None
    names = axis.spmd_name
    added = DimSharding(_axes(sharding.mesh, names)) if names else OPEN
    entries = (*sharding.dims[:position], added, *sharding.dims[position:])
    return mesh_split_p.bind(values[0], sharding=dataclasses.replace(sharding, dims=entries)), position


batching.fancy_primitive_batchers[mesh_split_p] = _batched


def _lower(context: Any, x: Any, *, sharding: TensorSharding) -> Any:
    """An annotation in the notation that JAX uses for its own: Shardy's or GSPMD's.

    In a program for one device that gspmd does not partition, the annotation has no meaning and is dropped.
    """
    program: TracedProgram | None = PROGRAM.value
    by_gspmd = program is not None and program.by_gspmd
    if not by_gspmd and getattr(context.module_context.axis_context, "num_devices", 0) == 1:
        return [x]
    rank = ir.RankedTensorType(x.type).rank
    if not jax.config.values["jax_use_shardy_partitioner"]:
        return [_sharding_call(x, _of_rank(sharding, rank))]
    return [sdy.ShardingConstraintOp(x, inline_sharding(sharding, rank)).result]


mlir.register_lowering(mesh_split_p, _lower)


def _sharding_call(x: Any, sharding: TensorSharding) -> Any:
    """`@Sharding`, as JAX writes it if Shardy is off; the configuration lists the open dimensions."""
    open_dims = print_open_dims(i for i, dim in enumerate(sharding.dims) if dim.is_open)
    call = stablehlo.CustomCallOp([x.type], [x], "Sharding", backend_config=ir.StringAttr.get(open_dims))
    call.attributes["mhlo.sharding"] = ir.StringAttr.get(print_hlo_sharding(to_hlo_sharding(sharding)))
    return call.results[0]


def inline_sharding(sharding: TensorSharding, rank: int) -> ir.Attribute:
    """The attribute with an inlined mesh, for a tensor of `rank` dimensions; inside a context."""
    whole = _of_rank(sharding, rank)
    inline = dataclasses.replace(sharding.mesh, name="")
    return write_sharding(dataclasses.replace(whole, mesh=inline), ir.Context.current)


def _of_rank(sharding: TensorSharding, rank: int) -> TensorSharding:
    """The sharding at a rank: random keys have more dimensions in the program than in the function, not split."""
    more = rank - sharding.rank
    if more < 0:
        raise UsageError(f"a sharding of {sharding.rank} dimensions does not fit a value of {rank}")
    return dataclasses.replace(sharding, dims=sharding.dims + (DimSharding(),) * more)

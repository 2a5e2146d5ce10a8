"""The properties of arguments' leaves on which a program depends: shape, dtype, and the sharding of an array."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.api_util import shaped_abstractify
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.frontend.device_mesh import PROGRAM, TracedProgram
from gspmd.frontend.jax_stages import is_array
from gspmd.frontend.value_shardings import ValueSpec, usual_memory
from gspmd.runtime.array_layout import own_layout
from gspmd.runtime.familiar_errors import NumberTooLarge, WrongType
from gspmd.runtime.sharded_array import ShardedArray

Kind = Any  # hashable; equal for leaves that the same program takes


def kinds_of(leaves: Sequence[Any], split: Sequence[bool]) -> tuple[Kind, ...]:
    """The kind of each leaf; `split` says for each leaf whether an array's own sharding is part of its kind.

    Leaves that are not arrays get a kind as well: `TypedLeaves.of` refuses them.
    """
    found = []
    for leaf, counts in zip(leaves, split, strict=True):
        kind = _KINDS.get(type(leaf))
        if kind is None:
            kind = _KINDS[type(leaf)] = _reader(leaf)
        found.append(kind(leaf, counts))
    return tuple(found)


def _array(leaf: Any, split: bool) -> Kind:
    # A deleted array still has all of these; it is refused when the program is called.
    where = _where(leaf.sharding, leaf.ndim) if split and leaf.committed else None
    return leaf.shape, leaf.dtype, leaf.weak_type, where, own_layout(leaf)


def _described(leaf: Any, split: bool) -> Kind:
    """The kind of a random key, or of a shape in place of an array."""
    where = _where(leaf.sharding, len(leaf.shape)) if split else None
    return tuple(leaf.shape), leaf.dtype, getattr(leaf, "weak_type", False), where, own_layout(leaf)


def _sharded(leaf: Any, split: bool) -> Kind:
    return leaf.shape, leaf.dtype, leaf.weak_type, (leaf.placement, leaf.device_assignment) if split else None, None


def _host(leaf: Any, split: bool) -> Kind:
    dtype = leaf.dtype
    if dtype.kind not in _NOT_OF_JAX:
        dtype = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    return leaf.shape, dtype, False, None, None


def _scalar(leaf: Any, split: bool) -> Kind:
    kind = type(leaf)
    return (), jax.dtypes.canonicalize_dtype(np.dtype(kind)), kind is not bool, None, None


def _mutable(leaf: Any, split: bool) -> Kind:
    return leaf.shape, leaf.dtype, _where(leaf.sharding, len(leaf.shape)) if split else None, "mutable"


def _other(leaf: Any, split: bool) -> Kind:
    return type(leaf)


@functools.lru_cache(maxsize=4096)
def _where(sharding: Any, rank: int) -> Kind:
    """A key that is equal for equivalent shardings of arrays of this rank, such as `P("x")` and `P("x", None)`.

    For an array on one device, only the memory counts: the mesh of the program determines the device.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return None if sharding.memory_kind == usual_memory(sharding) else sharding.memory_kind
    if not isinstance(sharding, NamedSharding) or len(sharding.spec.partitions) > rank:
        return sharding
    spec = sharding.spec
    dims = [(entry,) if isinstance(entry, str) else entry or () for entry in spec.partitions]
    dims += [()] * (rank - len(dims))
    return sharding.mesh, tuple(dims), spec.unreduced, spec.reduced, sharding.memory_kind


def _reader(leaf: Any) -> Callable[[Any, bool], Kind]:
    if is_mutable(leaf):
        return _mutable
    if isinstance(leaf, ShardedArray):
        return _sharded
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return _array if hasattr(leaf, "committed") and hasattr(leaf, "weak_type") else _described
    if isinstance(leaf, np.ndarray | np.generic):
        return _host
    return _scalar if type(leaf) in (bool, int, float, complex) else _other


def is_mutable(leaf: Any) -> bool:
    """Whether the leaf is a mutable array, or a shape of one."""
    return isinstance(leaf, jax.Ref) or bool(getattr(leaf, "is_ref", False))


def description_of(leaf: Any) -> Any:
    """The shape of an array, with its sharding and type; other arguments are unchanged."""
    if not is_array(leaf) or _reader(leaf) is not _array:
        return leaf
    sharding = leaf.sharding if leaf.committed else None
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, weak_type=leaf.weak_type)


_NOT_OF_JAX = "OSUMm"  # kinds of NumPy's dtypes
_KINDS: dict[type, Callable[[Any, bool], Kind]] = {}


@dataclasses.dataclass(frozen=True)
class TypedLeaves:
    """The shapes and dtypes of the leaves with which JAX traces a function; mutable arrays are passed themselves.

    `paths` are the names of the leaves in errors: `state['params']['w']`.
    """

    structs: list[Any]
    paths: list[str]

    @staticmethod
    def of(leaves: Sequence[Any], paths: list[str]) -> TypedLeaves:
        """Errors: UsageError for a leaf that is not an array."""
        return TypedLeaves([_struct(leaf, path) for leaf, path in zip(leaves, paths, strict=True)], paths)

    def have_types(self, given: Sequence[ValueSpec], mesh: Mesh) -> bool:
        """Whether types can express all their shardings: they are even, and over whole axes of the mesh."""
        return all(
            wanted.sharding is None
            or (
                wanted.sharding.mesh == mesh
                and wanted.sharding.divides(tuple(struct.shape))
                and all(map(mesh.is_full, wanted.sharding.used_axes()))
            )
            for struct, wanted in zip(self.structs, given, strict=True)
        )

    def over_other_types(self, given: Sequence[ValueSpec]) -> bool:
        """Whether a leaf is over a mesh with axes of type Auto that are of type Explicit in the function's mesh."""
        return any(_of_mesh(struct, wanted) is not struct for struct, wanted in zip(self.structs, given, strict=True))

    def typed(self, given: Sequence[ValueSpec]) -> list[Any]:
        """The shapes with shardings in their types, over axes of type Explicit of the mesh around or of types.

        If all axes are of type Auto, or there is no mesh around, types have only the mesh of an array.
        """
        mesh = jax.sharding.get_abstract_mesh()
        program: TracedProgram | None = PROGRAM.value
        if mesh.empty and program is not None and program.types is not None:
            mesh = program.types
        by_themselves = self.structs
        if program is not None and program.has_types:
            by_themselves = list(map(_of_mesh, self.structs, given))
        if not any(kind == AxisType.Explicit for kind in mesh.axis_types):
            return by_themselves
        return [
            own
            if own is not struct or wanted.sharding is None or not isinstance(struct, jax.ShapeDtypeStruct)
            else struct.update(sharding=NamedSharding(mesh, _spec(wanted.sharding, wanted.spec, mesh)))
            for struct, own, wanted in zip(self.structs, by_themselves, given, strict=True)
        ]


def _of_mesh(struct: Any, wanted: ValueSpec) -> Any:
    """A shape with the user's mesh in its type."""
    given = wanted.spec
    if not isinstance(struct, jax.ShapeDtypeStruct) or not isinstance(given, NamedSharding):
        return struct
    if given.mesh.empty or not all(kind == AxisType.Auto for kind in given.mesh.axis_types):
        return struct
    around = jax.sharding.get_abstract_mesh()
    own = given.mesh.abstract_mesh
    if not around.empty and (around.shape_tuple, around.abstract_device) != (own.shape_tuple, own.abstract_device):
        return struct
    return struct.update(sharding=NamedSharding(own, PartitionSpec()))


def _spec(sharding: TensorSharding, given: PartitionSpec | NamedSharding | None, mesh: AbstractMesh) -> PartitionSpec:
    """The user's own spec, if it is over the axes of the mesh, else the spec of the sharding by whole axes."""
    of_mesh = not isinstance(given, NamedSharding) or given.mesh.shape_tuple == mesh.shape_tuple
    spec = given.spec if isinstance(given, NamedSharding) else given
    if spec is not None and of_mesh and PartitionSpec.UNCONSTRAINED not in spec.partitions:
        return spec
    dims = (tuple(axis.name for axis in axes) or None for axes in sharding.dim_axes())
    return PartitionSpec(*dims, unreduced={axis.name for axis in sharding.unreduced})


def _struct(leaf: Any, path: str) -> Any:
    if is_mutable(leaf):
        return leaf
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray):
        weak = bool(getattr(leaf, "weak_type", False))
        dtype = leaf.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in _NOT_OF_JAX:
            raise WrongType(f"argument {path} has dtype {dtype}, which JAX does not have", hint="convert it")
        dtype = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        return jax.ShapeDtypeStruct(tuple(leaf.shape), dtype, weak_type=weak)
    try:
        aval = shaped_abstractify(leaf)
    except TypeError:
        raise WrongType(
            f"argument {path} is of type {type(leaf).__name__}, which is not an array",
            hint="make it static, or convert it",
        ) from None
    except OverflowError:
        raise NumberTooLarge(
            f"argument {path} is {leaf}, which JAX's integers cannot hold", hint="pass an array of a larger dtype"
        ) from None
    if not hasattr(aval, "shape"):
        raise WrongType(f"argument {path} is a token", hint="pass a value that depends on the ordered effects")
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

"""The arguments of one call of a jitted function: which are static, and what is to know of the others."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.api_util import shaped_abstractify

from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.sharded_array import ShardedArray
from gspmd.value_shardings import Given, sharding_of_array


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Which arguments of a function are static or donated, by position and by name alike."""

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]

    @staticmethod
    def of(fun: Callable[..., Any], static: Any, static_names: Any, donated: Any, donated_names: Any) -> Parameters:
        """Errors: UsageError for names or positions that the function does not have."""
        try:
            parameters = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            parameters = None
        given = (_both("static", static, static_names, parameters), _both("donate", donated, donated_names, parameters))
        return Parameters(*given[0], *given[1])


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _both(
    what: str, numbers: Any, names: Any, parameters: list[inspect.Parameter] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names, each completed by the other where the function's signature tells it."""
    found = tuple(int(n) for n in ((numbers,) if hasattr(numbers, "__index__") else numbers))
    named = (names,) if isinstance(names, str) else tuple(names)
    if parameters is None:
        return found, named
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    kinds = {p.kind for p in parameters}
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for number in found:
            if not -len(positional) <= number < len(positional):
                raise UsageError(f"{what}_argnums has {number}, but the function takes {len(positional)} by position")
        found = tuple(n % len(positional) for n in found)
    known = {p.name for p in parameters}
    for name in named:
        if name not in known and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise UsageError(f"{what}_argnames has '{name}', which the function does not take")
    more_names = tuple(positional[n] for n in found if 0 <= n < len(positional))
    more_numbers = tuple(positional.index(name) for name in named if name in positional)
    return tuple(dict.fromkeys(found + more_numbers)), tuple(dict.fromkeys(named + more_names))


@dataclasses.dataclass(frozen=True)
class BoundCall:
    """Arguments as given, and the leaves of those that are not static, in JAX's order."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    static_argnums: frozenset[int]
    dynamic_args: tuple[Any, ...]
    dynamic_kwargs: Mapping[str, Any]
    leaves: list[Any]
    tree: Any

    @property
    def is_traced(self) -> bool:
        return any(isinstance(leaf, jax.core.Tracer) for leaf in self.leaves)

    @property
    def key(self) -> Any:
        """What of the call, besides the leaves, the program depends on."""
        statics = tuple((i, self.args[i]) for i in sorted(self.static_argnums))
        named = tuple((name, v) for name, v in sorted(self.kwargs.items()) if name not in self.dynamic_kwargs)
        return self.tree, statics, named, tuple(type(value) for _, value in statics + named)

    def abstract(self, avals: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with shapes and dtypes in place of leaves, for lowering."""
        dynamic, named = jax.tree.unflatten(self.tree, avals)
        rest = iter(dynamic)
        args = [arg if i in self.static_argnums else next(rest) for i, arg in enumerate(self.args)]
        return args, {**self.kwargs, **named}


def bind(parameters: Parameters, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
    """Errors: UsageError for a static argument that cannot be hashed."""
    static = frozenset(n % len(args) for n in parameters.static_argnums if -len(args) <= n < len(args))
    named = {name: value for name, value in kwargs.items() if name not in parameters.static_argnames}
    for what, value in (
        *((f"argument {i}", args[i]) for i in sorted(static)),
        *((f"argument '{name}'", value) for name, value in kwargs.items() if name not in named),
    ):
        _check_hashable(what, value)
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    leaves, tree = jax.tree.flatten((dynamic, named))
    return BoundCall(args, kwargs, static, dynamic, named, leaves, tree)


def _check_hashable(what: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise UsageError(
            f"static {what} is a {type(value).__name__}, which cannot be hashed", hint="pass a tuple or a frozen value"
        ) from None


@dataclasses.dataclass(frozen=True)
class Leaves:
    """Shape, dtype and, where an array comes with one that the mesh has, sharding of every leaf."""

    avals: list[jax.ShapeDtypeStruct]
    shardings: Given
    key: Any

    @staticmethod
    def of(call: BoundCall, mesh: Mesh, inferred: bool) -> Leaves:
        """`inferred`: shardings are looked for. Errors: UsageError for a leaf that is no array."""
        kinds = [_kind(leaf, i, call.tree) for i, leaf in enumerate(call.leaves)]
        shardings: Given = [sharding_of_array(leaf, mesh) if inferred else None for leaf in call.leaves]
        avals = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kinds]
        return Leaves(avals, shardings, (tuple(kinds), tuple(shardings)))


def _kind(leaf: Any, index: int, tree: Any) -> tuple[tuple[int, ...], Any, bool]:
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray | ShardedArray):
        weak = bool(getattr(leaf, "weak_type", False))
        return tuple(leaf.shape), jax.dtypes.canonicalize_dtype(leaf.dtype, allow_extended_dtype=True), weak
    try:
        aval = shaped_abstractify(leaf)
    except TypeError:
        paths = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(tree, range(tree.num_leaves)))[0]
        path = jax.tree_util.keystr(paths[index][0])
        raise UsageError(
            f"argument {path} is a {type(leaf).__name__}, not an array", hint="make it static, or convert it"
        ) from None
    return aval.shape, aval.dtype, aval.weak_type

"""`gspmd.jit`: JAX traces and lowers a function, gspmd partitions it, PJRT runs it."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import source_info_util

from gspmd import api
from gspmd.annotation import annotate_as
from gspmd.argument_kinds import TRACED, Leaves, kinds_of
from gspmd.bound_call import BoundCall, Parameters, bind
from gspmd.device_mesh import DeviceMesh, MeshLike, device_mesh
from gspmd.dialect.errors import ExecutionError, UsageError
from gspmd.lowered import Compiled, Lowered
from gspmd.processes import TIMEOUT_S
from gspmd.transforms.support.target_file import is_topology
from gspmd.value_shardings import Given, given_shardings

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls
Names = str | Iterable[str]
Numbers = int | Sequence[int]
_OPTIONS = set(inspect.signature(api.partition).parameters) - {"program", "num_partitions"}
# What JAX traces depends on these, too; they may be changed between calls.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
    "jax_use_shardy_partitioner",
)
# How JAX says that a mesh with axes of type Explicit meets one whose axes are all left to the partitioner.
_OF_EXPLICIT_AXES = ("only refer to Auto axes", "of type Auto or Manual", "should match the mesh passed to")


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    mesh: MeshLike = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: Numbers = (),
    static_argnames: Names = (),
    donate_argnums: Numbers = (),
    donate_argnames: Names = (),
    timeout_s: float = TIMEOUT_S,
    **options: Any,
) -> Any:
    """Like `jax.jit`, but gspmd partitions the function over `mesh`, and PJRT runs it on the mesh's devices.

    `mesh` is a jax Mesh or AbstractMesh, sizes by name (`{"x": 4, "y": 2}`), or sizes; by default the one that
    `jax.set_mesh` set. `in_shardings` and `out_shardings` are pytrees, or prefixes of these, of `PartitionSpec`,
    `NamedSharding`, or None: of an argument then, what a sharded array comes with, else what propagation finds.
    Shardings need not divide. Inside the function, `gspmd.mesh_split`, `gspmd.annotate` and
    `jax.lax.with_sharding_constraint` annotate values. Static and donated arguments are as in `jax.jit`. With
    devices of several processes, each must compile the function within `timeout_s` seconds of the others. Further
    keyword arguments are those of `gspmd.partition`; `target` may also say where to run, as `tpu` or `cpu`.

    The result, called, returns jax.Arrays, or `gspmd.ShardedArray`s where shards are uneven, which JAX cannot hold. It
    has `lower(*args)`, whose result has `partitioned` and `compile()`, which also compiles for a `target` that is a
    topology, as `tpu:v5p:8x8x8`; functions for these cannot be called. Called while `gspmd.jit` traces another
    function, it becomes part of that one, and its shardings annotate values there.

    Errors: UsageError for a mesh or sharding that cannot be read and for arguments that do not fit; what
    `gspmd.partition` and `gspmd.compile` raise.
    """
    if fun is None:
        return functools.partial(
            jit,
            mesh=mesh,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            timeout_s=timeout_s,
            **options,
        )
    if not callable(fun):
        raise UsageError(f"{fun!r:.100} is not a function")
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise UsageError(f"gspmd.jit has no option '{unknown[0]}'", hint=f"it also takes {', '.join(sorted(_OPTIONS))}")
    parameters = Parameters.of(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted(fun, parameters, mesh, in_shardings, out_shardings, timeout_s, options)


class Jitted:
    """A function to be partitioned; compiled once for each kind of arguments."""

    def __init__(
        self,
        fun: Callable[..., Any],
        parameters: Parameters,
        mesh: MeshLike,
        in_shardings: Any,
        out_shardings: Any,
        timeout_s: float,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, fun)
        self._name = getattr(fun, "__name__", "function")
        self._parameters = parameters
        self._mesh = None if mesh is None else device_mesh(mesh)
        self._in_shardings, self._out_shardings = in_shardings, out_shardings
        self._timeout_s, self._options = timeout_s, options
        self._inner: Any = jax.jit(
            fun,
            static_argnums=parameters.static_argnums,
            static_argnames=parameters.static_argnames,
            donate_argnums=parameters.donate_argnums,
            donate_argnames=parameters.donate_argnames,
            keep_unused=True,
        )
        self._compiled: dict[Any, Compiled] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = bind(self._parameters, args, kwargs)
        kinds = kinds_of(call.leaves, split=self._in_shardings is None)
        if TRACED in kinds or _is_tracing():
            return self._inlined(call)
        mesh = self._mesh or device_mesh()
        config = jax.config
        key = (mesh, call.key, kinds, *[getattr(config, name) for name in _SETTINGS])
        compiled = self._compiled.get(key)
        if compiled is None:
            self._check_here()
            if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in call.leaves):
                raise UsageError(f"'{self._name}' was called with a shape in place of an array", hint="use lower")
            compiled = self._compiled[key] = self._lower(mesh, call).compile(timeout_s=self._timeout_s)
        return compiled.run(call.leaves)

    def _check_here(self) -> None:
        target = self._options.get("target", "")
        if is_topology(target):
            raise ExecutionError(
                f"'{self._name}' is for '{target}', which is not here",
                hint="compile it by lower(...).compile(), or call it with target='tpu' where there are TPUs",
            )

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function lowered for these arguments: arrays, or `jax.ShapeDtypeStruct`s. Runs nothing."""
        return self._lower(self._mesh or device_mesh(), bind(self._parameters, args, kwargs))

    def clear_cache(self) -> None:
        """Forget what was compiled."""
        self._compiled.clear()
        self._inner.clear_cache()

    def _lower(self, mesh: DeviceMesh, call: BoundCall) -> Lowered:
        self._parameters.check(self._name, call.args, call.kwargs)
        paths = call.paths(self._parameters)
        leaves = Leaves.of(call.leaves, paths, mesh, split=self._in_shardings is None)
        given = leaves.shardings if self._in_shardings is None else self._given(mesh, call, leaves.avals)
        args, kwargs = call.with_leaves(leaves.avals)
        with mesh.around():
            traced = self._traced(args, kwargs)
            lowered = traced.lower()
        results = jax.tree.unflatten(jax.tree.structure(traced.out_info), traced.jaxpr.out_avals)
        outputs = given_shardings(mesh, self._out_shardings, results, "out_shardings")
        return Lowered(lowered, mesh, given, outputs, call.tree, results, paths, self._options)

    def _traced(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        try:
            return self._inner.trace(*args, **kwargs)
        except ValueError as error:
            if not any(words in str(error) for words in _OF_EXPLICIT_AXES):
                raise
            raise UsageError(
                f"in '{self._name}', JAX says: {' '.join(str(error).split()):.400}",
                hint="gspmd.jit leaves every axis of its mesh to the partitioner: give the function that mesh, made by "
                "gspmd.make_mesh or with axis_types=(AxisType.Auto, ...), or no mesh at all",
            ) from error

    def _given(self, mesh: DeviceMesh, call: BoundCall, leaves: Sequence[Any]) -> Given:
        """What `in_shardings` say of the leaves."""
        if call.dynamic_kwargs:
            names = ", ".join(sorted(call.dynamic_kwargs))
            raise UsageError(f"in_shardings say nothing of keyword arguments: {names}", hint="pass these by position")
        values, _ = jax.tree.unflatten(call.tree, leaves)
        return given_shardings(mesh, self._in_shardings, values, "in_shardings")

    def _inlined(self, call: BoundCall) -> Any:
        """Called on traced values: part of the function around, if that one is partitioned, too."""
        if jax.sharding.get_abstract_mesh().empty:
            raise UsageError(
                f"'{self._name}' was called on traced values outside of gspmd.jit",
                hint="put gspmd.jit around the transformation: gspmd.jit(jax.grad(f)), not jax.grad(gspmd.jit(f))",
            )
        self._parameters.check(self._name, call.args, call.kwargs)
        around = device_mesh()
        if self._mesh is not None and self._mesh.mesh.axes != around.mesh.axes:
            raise UsageError(
                f"'{self._name}' is for a mesh {dict(self._mesh.mesh.axes)}, but is called in a function over "
                f"{dict(around.mesh.axes)}",
                hint="leave its mesh out, or annotate inside with the function's",
            )
        args: Sequence[Any] = call.args
        kwargs = call.kwargs
        if self._in_shardings is not None:
            leaves = [jax.numpy.asarray(leaf) for leaf in call.leaves]
            args, kwargs = call.with_leaves(annotate_as(leaves, self._given(around, call, leaves)))
        results, tree = jax.tree.flatten(self._inner(*args, **kwargs))
        shardings = given_shardings(around, self._out_shardings, jax.tree.unflatten(tree, results), "out_shardings")
        return jax.tree.unflatten(tree, annotate_as(results, shardings))


def _is_tracing() -> bool:
    """Whether JAX traces a function over a mesh at the moment."""
    if jax.sharding.get_abstract_mesh().empty:
        return False
    try:
        jax.sharding.get_mesh()
    except ValueError:  # as it is while JAX traces
        return True
    return False

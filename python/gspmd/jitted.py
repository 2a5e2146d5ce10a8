"""`gspmd.jit`: JAX traces and lowers a function, gspmd partitions it, PJRT runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from gspmd.bound_call import BoundCall, Leaves, Parameters, bind
from gspmd.device_mesh import DeviceMesh, MeshLike, device_mesh
from gspmd.dialect.errors import UsageError
from gspmd.lowered import Compiled, Lowered
from gspmd.value_shardings import Given, given_shardings

Names = str | Iterable[str]
Numbers = int | Sequence[int]


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
    **options: Any,
) -> Any:
    """Like `jax.jit`, but gspmd partitions the function over `mesh`, and PJRT runs it on the mesh's devices.

    `mesh` is a jax Mesh or AbstractMesh, sizes by name (`{"x": 4, "y": 2}`), or sizes; by default the one that
    `jax.set_mesh` set. `in_shardings` and `out_shardings` are pytrees, or prefixes of these, of `PartitionSpec`,
    `NamedSharding`, or None: of an argument then, what a sharded array comes with, else what propagation finds.
    Shardings need not divide. Inside the function, `gspmd.mesh_split`, `gspmd.annotate` and
    `jax.lax.with_sharding_constraint` annotate values. Static and donated arguments are as in `jax.jit`; further
    keyword arguments are those of `gspmd.partition`.

    The result, called, returns jax.Arrays, or `gspmd.ShardedArray`s where shards are uneven, which JAX cannot hold. It
    has `lower(*args)`, whose result has `partitioned` and `compile()`. Called while `gspmd.jit` traces another
    function, it becomes part of that one.

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
            **options,
        )
    if not callable(fun):
        raise UsageError(f"{fun!r:.100} is not a function")
    parameters = Parameters.of(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted(fun, parameters, mesh, in_shardings, out_shardings, options)


class Jitted:
    """A function to be partitioned; compiled once for each kind of arguments."""

    def __init__(
        self,
        fun: Callable[..., Any],
        parameters: Parameters,
        mesh: MeshLike,
        in_shardings: Any,
        out_shardings: Any,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, fun)
        self._name = getattr(fun, "__name__", "function")
        self._parameters = parameters
        self._mesh = None if mesh is None else device_mesh(mesh)
        self._in_shardings, self._out_shardings = in_shardings, out_shardings
        self._options = options
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
        if call.is_traced:
            return self._inlined(args, kwargs)
        mesh = self._mesh or device_mesh()
        leaves = Leaves.of(call, mesh.mesh, inferred=self._in_shardings is None)
        key = (mesh, call.key, leaves.key)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = self._lower(mesh, call, leaves).compile()
        return compiled.run(call.leaves)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function lowered for these arguments: arrays, or `jax.ShapeDtypeStruct`s. Runs nothing."""
        call, mesh = bind(self._parameters, args, kwargs), self._mesh or device_mesh()
        return self._lower(mesh, call, Leaves.of(call, mesh.mesh, inferred=self._in_shardings is None))

    def clear_cache(self) -> None:
        """Forget what was compiled."""
        self._compiled.clear()
        self._inner.clear_cache()

    def _lower(self, mesh: DeviceMesh, call: BoundCall, leaves: Leaves) -> Lowered:
        given = self._given(mesh, call, leaves)
        args, kwargs = call.abstract(leaves.avals)
        with jax.sharding.use_abstract_mesh(mesh.abstract()):
            lowered = self._inner.lower(*args, **kwargs)
        outputs = given_shardings(mesh.mesh, self._out_shardings, lowered.out_info, "out_shardings")
        return Lowered(lowered, mesh, given, outputs, call.tree, self._options)

    def _given(self, mesh: DeviceMesh, call: BoundCall, leaves: Leaves) -> Given:
        if self._in_shardings is None:
            return leaves.shardings
        if call.dynamic_kwargs:
            names = ", ".join(sorted(call.dynamic_kwargs))
            raise UsageError(f"in_shardings say nothing of keyword arguments: {names}", hint="pass these by position")
        return given_shardings(mesh.mesh, self._in_shardings, call.dynamic_args, "in_shardings")

    def _inlined(self, args: Any, kwargs: Any) -> Any:
        """Called on traced values: part of the function around, if that one is partitioned, too."""
        if jax.sharding.get_abstract_mesh().empty:
            raise UsageError(
                f"'{self._name}' was called on traced values outside of gspmd.jit",
                hint="put gspmd.jit around the transformation: gspmd.jit(jax.grad(f)), not jax.grad(gspmd.jit(f))",
            )
        return self._inner(*args, **kwargs)

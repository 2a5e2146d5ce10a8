"""JAX's stages, opened between lowering and compiling.

JAX traces and lowers a function, the partitioned module takes the place of what JAX lowered, and JAX compiles, keeps
and calls it. So all that JAX does around a program is done for ours as well: its persistent cache, logs, callbacks,
ordered effects, mutable arrays, donation, checks for NaN, and dispatch in C++.

This module alone knows how JAX is made inside; the others use what it has here. Tested with jax 0.10 and 0.12.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax._src import api_util, config, core, dispatch, effects, pjit, stages, tree_util
from jax._src.interpreters import mlir, pxla
from jax._src.mesh import thread_resources
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jaxlib import _jax
from jaxlib.mlir import ir

Aval = Any  # jax.core.ShapedArray or AbstractRef: shape, dtype, weak type
PjitFunction = Any  # what `jax.jit` returns: a function whose calls C++ dispatches
Tracer = core.Tracer
# What JAX raises where a function does not fit the mesh that it is traced in, among other mistakes.
TRACING_ERRORS = (ValueError, TypeError, RuntimeError, AssertionError, core.ShardingTypeError)


def is_tracing(leaves: Sequence[Any]) -> bool:
    """Whether a call with these leaves is part of something that JAX traces or transforms."""
    return not core.trace_state_clean() or any(isinstance(leaf, core.Tracer) for leaf in leaves)


def is_array(leaf: Any) -> bool:
    """Whether it is an array of JAX's on devices, none that is being traced."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, core.Tracer)


def legacy_mesh() -> jax.sharding.Mesh | None:
    """The mesh of a `with mesh:` block around, if there is one."""
    mesh = thread_resources.env.physical_mesh
    return None if mesh.empty else mesh


def concrete_mesh(abstract: AbstractMesh, devices: Sequence[Any]) -> jax.sharding.Mesh:
    """A mesh of these devices that JAX takes for an instance of the abstract one."""
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return jax.sharding.Mesh(grid.reshape(abstract.axis_sizes), abstract.axis_names, axis_types=abstract.axis_types)


# ---- lowering ----


class HeldByJax(Protocol):
    """Type and sharding of a whole argument or result, as JAX's executable has it."""

    @property
    def aval(self) -> Aval: ...

    @property
    def sharding(self) -> NamedSharding: ...


@dataclasses.dataclass(frozen=True)
class Computation:
    """What JAX lowered: a module and what JAX knows of its arguments and results.

    `@main` takes a token for each of `ordered_effects`, then `const_args`, those of the leaves that are used, and the
    contents of mutable arrays; it returns tokens, results, and new contents.
    """

    lowering: Any

    @property
    def _args(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.lowering.compile_args
        return found

    @functools.cached_property
    def module(self) -> ir.Module:
        """The module that JAX lowered, of static shapes; it is JAX's own and must not be changed."""
        poly = self._args.get("shape_poly_state")
        module: ir.Module = self.lowering.stablehlo()
        return mlir.refine_polymorphic_shapes(module) if poly is not None and poly.uses_dim_vars else module

    def is_for(self, platform: str) -> bool:
        """Whether it was lowered for a platform."""
        return platform in self.lowering._platforms

    @property
    def num_tokens(self) -> int:
        return len(self._args["ordered_effects"])

    @property
    def in_avals(self) -> Sequence[Aval]:
        """One for each argument of `@main` that is no token."""
        found: Sequence[Aval] = self._args["global_in_avals"]
        return found

    @property
    def out_avals(self) -> Sequence[Aval]:
        found: Sequence[Aval] = self._args["global_out_avals"]
        return found

    @property
    def const_args(self) -> Sequence[Any]:
        """Arrays around the function that JAX passes as its first arguments."""
        found: Sequence[Any] = self.lowering.const_args
        return found

    def typed_results(self) -> list[tuple[NamedSharding | None, Aval]]:
        """What JAX knows of the results by their types, where axes of the mesh are of type Explicit, else None."""
        found = zip(self._args["out_shardings"], self.out_avals, strict=True)
        return [(s if isinstance(s, NamedSharding) else _explicit(aval), aval) for s, aval in found]

    @property
    def refs(self) -> Sequence[jax.Ref]:
        """The mutable arrays that the function closes over."""
        mut = self._args["mut"]
        return () if mut is None else mut.in_mut

    @property
    def host_callbacks(self) -> Sequence[Any]:
        """The functions of Python that the module calls by their numbers."""
        found: Sequence[Any] = self._args["host_callbacks"]
        return found

    def kept_leaves(self) -> list[int]:
        """Which leaves are arguments of `@main`: all that are used, in order."""
        first = len(self.const_args)
        return sorted(index - first for index in self._args["kept_var_idx"] if index >= first)

    def ref_results(self) -> list[int | None]:
        """For each result of `@main`, the argument whose new contents it is; None for results of the function."""
        mut = self._args["mut"]
        return [None] * len(self.out_avals) if mut is None else list(mut.out_mut)

    def compile(
        self,
        module: ir.Module,
        devices: Sequence[Any],
        inputs: Sequence[HeldByJax],
        outputs: Sequence[HeldByJax],
        host_callbacks: Sequence[Any],
        compiler_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """JAX's executable of a partitioned module, which calls these functions of Python.

        Errors: those of PJRT.
        """
        mesh = jax.sharding.Mesh(np.array(devices, object), ("partition",))
        args = dict(self._args)
        args.update(
            global_in_avals=[_at(value.aval, value.sharding) for value in inputs],
            in_shardings=tuple(value.sharding for value in inputs),
            global_out_avals=[_at(value.aval, value.sharding) for value in outputs],
            out_shardings=tuple(value.sharding for value in outputs),
            num_devices=len(devices),
            committed=True,
            context_mesh=mesh,
            intermediate_shardings=None,
            shape_poly_state=None,
            backend=devices[0].client,
            host_callbacks=list(host_callbacks),
        )
        old = self.lowering
        lowering = pxla.MeshComputation(
            old._name,
            module,
            old.const_args,
            old._donated_invars,
            old._platforms,
            tuple((compiler_options or {}).items()),
            tuple(devices),
            **args,
        )
        with config.use_shardy_partitioner(True):  # which takes our manual computation apart
            return lowering.compile()


def make_stage(compiled: stages.Compiled, lowered: Any, executable: Any) -> None:
    """Let one of JAX's stages, which comes from what JAX lowered, have this executable."""
    stages.Compiled.__init__(
        compiled,
        executable,
        lowered._lowering.const_args,
        lowered.args_info,
        lowered.out_tree,
        lowered._no_kwargs,
        lowered._in_types,
        lowered._out_types,
    )


class Unserializable:
    """In the place of what JAX pickles of an executable, where JAX alone could not use it: raises `error`."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        raise self._error


def refuse_to_serialize(executable: Any, error: Exception) -> None:
    """Let `jax.experimental.serialize_executable.serialize` raise `error` for an executable."""
    executable._unloaded_executable = Unserializable(error)


def _explicit(aval: Aval) -> NamedSharding | None:
    sharding = getattr(aval, "sharding", None)
    known = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return sharding if known else None


def layout_mode(layout: Any, aval: Aval) -> str:
    """How a module says the layout that the user wants of a value."""
    return str(mlir._to_xla_layout(layout, aval))


def _at(aval: Aval, sharding: Any) -> Aval:
    return core.update_aval_with_sharding(aval, sharding) if isinstance(aval, core.ShapedArray) else aval


# Primitives whose lowering asks how many devices the program has.
_COUNTING_DEVICES = frozenset({"call_exported"})


def lower(traced: Any, mesh: jax.sharding.Mesh | AbstractMesh, platform: str) -> tuple[Any, Computation]:
    """JAX's `Lowered` of a traced function, whose values are whole, and what it is made of.

    JAX lowers it as for one device, where it allows most: effects in any order, donation to a named result. Only
    where the function has operations that ask, JAX is told of the mesh's devices, which need not be here.

    Errors: those of JAX.
    """
    jaxpr = open_jaxpr(traced.jaxpr)
    around = None
    if dispatch.jaxpr_has_prim_requiring_devices(jaxpr) and not _for_one_device_only(jaxpr):
        around = mesh
    elif any(equation.primitive.name in _COUNTING_DEVICES for equation in equations(jaxpr)):
        around = mesh if isinstance(mesh, AbstractMesh) else mesh.abstract_mesh
    wide = copy.copy(traced)
    if around is not None:
        wide._params = {**traced._params, "ctx_mesh": around}
        wide._lojax = None
    with _device_of(mesh, platform):
        try:
            lowered = stages.Traced.lower(wide, lowering_platforms=(platform,))
        except ValueError as error:
            if "different from the lowering platform" not in str(error):
                raise
            # It calls Python, for which JAX needs a device. What is here suffices to partition it.
            lowered = stages.Traced.lower(wide, lowering_platforms=(jax.default_backend(),))
    return lowered, Computation(lowered._lowering)


def _device_of(mesh: jax.sharding.Mesh | AbstractMesh, platform: str) -> contextlib.AbstractContextManager[Any]:
    """What calls of Python are lowered for asks the client of a device, which is that of the mesh if it has one."""
    device = None if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0]
    return contextlib.nullcontext() if device is None or device.platform != platform else jax.default_device(device)


def _for_one_device_only(jaxpr: Any) -> bool:
    """Whether JAX refuses to lower effects of the function for several devices."""
    ordered = effects.ordered_effects.filter_in(jaxpr.effects)
    return bool(effects.shardable_ordered_effects.filter_not_in(ordered))


def open_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr in a closed one; newer versions of JAX have no difference."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of inner jaxprs included."""
    inner = open_jaxpr(jaxpr)
    yield from inner.eqns
    for each in core.subjaxprs(inner):
        yield from equations(each)


# ---- calling ----


def dispatched(fun: Callable[..., Any], like: Any, cache_miss: Callable[..., Any]) -> PjitFunction:
    """A function that C++ dispatches as one of `jax.jit`; `cache_miss` is called for arguments of a new kind.

    `cache_miss` returns the results, what C++ has to know to call the program itself or None, and False. `like` is a
    function of `jax.jit` with the same static arguments. `fun` is what is called in its place under
    `jax.disable_jit`, and where JAX looks for the NaN that a result has.
    """
    info = like._jit_info
    call = _jax.pjit(
        getattr(fun, "__name__", "function"),
        fun,
        cache_miss,
        info.static_argnums,
        info.static_argnames,
        object(),
        tree_util.dispatch_registry,
        pxla.cc_shard_arg,
        _jax.PjitFunctionCache(capacity=4096),
    )
    call._fun = fun
    return call


def fast_call(executable: Any, const_args: Sequence[Any], leaves: Sequence[Any], results: Any) -> Any:
    """What C++ has to know to call the program by itself the next time; None where Python has something to do."""
    if executable._mut is not None:
        return None
    flat, tree = jax.tree.flatten(results)
    return pjit._get_fastpath_data(executable, tree, leaves, flat, set(), [], None, const_args)


def place_constants(executable: Any, const_args: Sequence[Any]) -> Sequence[Any]:
    """Bring the arrays that the function closes over to the devices."""
    placed: Sequence[Any] = executable.shard_const_args(const_args)
    return placed


@contextlib.contextmanager
def found_nan(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Where JAX finds a NaN that it is to look for, call `fun` operation by operation, which raises where it arises."""
    try:
        yield
    except api_util.InternalFloatingPointError as error:
        api_util.maybe_recursive_nan_check(error, fun, args, kwargs)


def place_refs(refs: Iterable[tuple[Any, HeldByJax]]) -> None:
    """Bring the contents of mutable arrays to where the program changes them; what is none is left alone."""
    for ref, value in refs:
        if isinstance(ref, jax.Ref):
            content = ref._refs._buf
            if not content.sharding.is_equivalent_to(value.sharding, content.ndim):
                ref._refs._buf = jax.device_put(content, value.sharding)


def call(executable: Any, const_args: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Run the program on leaves of the function's arguments, also those that are not used."""
    results: list[Any] = executable.unsafe_call(*const_args, *leaves)
    return results

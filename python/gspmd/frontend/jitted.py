"""`gspmd.jit`: JAX traces and lowers a function, gspmd partitions it, JAX compiles and calls it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import source_info_util

from gspmd import api
from gspmd.compiled import machines
from gspmd.dialect.diagnostic import remark_once
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, Unsupported, UsageError, shown
from gspmd.frontend import jax_stages
from gspmd.frontend.annotation import annotate_as
from gspmd.frontend.argument_kinds import TypedLeaves, is_mutable, kinds_of
from gspmd.frontend.assumed_hardware import mesh_on_target
from gspmd.frontend.bound_call import BoundCall, Parameters, bind
from gspmd.frontend.device_mesh import (
    PROGRAM,
    DeviceMesh,
    MeshLike,
    TracedProgram,
    around,
    device_mesh,
    device_mesh_on,
    has_manual_axes,
    no_mesh,
)
from gspmd.frontend.dispatching import Dispatched, NamedLeaves
from gspmd.frontend.lowered import Compiled, Lowered, not_here
from gspmd.frontend.mesh_search import FoundMesh, check_legacy_mesh, find_mesh, mesh_inside, on_one_device
from gspmd.frontend.value_shardings import (
    NO_SPEC,
    ValueSpecs,
    check_devices,
    check_specs,
    given_shardings,
    left_open,
    named_shardings,
    shardings,
    spec_of_array,
    spec_of_ref,
    specs_in,
    with_shardings,
    without_hlo,
)
from gspmd.frontend.weak_methods import weakly
from gspmd.runtime import in_flight
from gspmd.runtime.familiar_errors import WrongType, WrongValue
from gspmd.runtime.processes import TIMEOUT_S
from gspmd.transforms.machine.topology import is_topology

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls
Names = str | Iterable[str] | None
Numbers = int | Sequence[int] | None
_OPTIONS = set(inspect.signature(api.partition).parameters) - {"program", "num_partitions"}
# JAX's traces also depend on these settings, which may change between calls.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
    "jax_use_shardy_partitioner",
    "jax_debug_nans",
)
# JAX's errors for a function that does not fit the mesh around match this; "@" occurs in types over axes of type
# Explicit, such as `float32[16@data]`.
_OF_MESHES = re.compile(r"\bmesh(es)?\b|shard|\bspecs?\b|_specs\b|partitionspec|explicit|@", re.IGNORECASE)


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    mesh: MeshLike = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: Any = None,
    backend: str | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
    shardings: str | Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Like `jax.jit`, but gspmd partitions the function over `mesh`, and PJRT runs it on the mesh's devices.

    `mesh` is a jax Mesh or AbstractMesh, sizes by name (`{"x": 4, "y": 2}`), or sizes. The default is the mesh of
    `jax.set_mesh`, else of the given shardings, else of the arrays passed, else of `with mesh:`, else of the
    function's own `jax.shard_map`s and constraints. `in_shardings` and `out_shardings` are pytrees, or prefixes of
    these, of `PartitionSpec`, `NamedSharding`, `Format`, or None. None stands for the sharding of an array that is
    passed as the argument, else for the one that propagation finds. Shardings need not divide. Inside the function,
    `gspmd.mesh_split`, `gspmd.annotate` and `jax.lax.with_sharding_constraint` annotate values. The other arguments are
    those of `jax.jit`; `compiler_options` are XLA's own. With devices of several processes, each process must compile
    the function within `timeout_s` seconds of the others. With `shardings="search"`, `gspmd.search` finds the shardings
    that are not given; a dictionary has its options, such as `{"time_limit_s": 10}`. Further keyword arguments are
    those of `gspmd.partition`. `target` may also be the platform to run on, such as `tpu` or `cpu`; if it names no
    hardware, gspmd looks up that of the mesh.

    The function that `jit` makes returns jax.Arrays, or `gspmd.ShardedArray`s if shards are uneven, which JAX does not
    support. It has `trace`, `lower`, `eval_shape` and `clear_cache`, as functions of `jax.jit` have. `lower(*args)` has
    `partitioned` and `compile()`, which also compiles for a `target` or mesh that is a topology, such as
    `tpu:v5p:8x8x8`; functions for these cannot be called. While JAX traces or transforms another function, it behaves
    like `jax.jit` of the annotated function; inside a function of `gspmd.jit`, it becomes a part of that function.

    Errors: UsageError for a mesh or sharding that cannot be read and for arguments that do not fit; those of
    `gspmd.partition` and `gspmd.compile`.
    """
    given = {name: value for name, value in locals().items() if name not in ("fun", "options")} | options
    if fun is None:
        return functools.partial(jit, **given)
    if not callable(fun):
        raise WrongType(f"{shown(fun)} is not a function")
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise WrongType(
            f"gspmd.jit has no option '{unknown[0]}'",
            hint=f"it also takes {', '.join(sorted(_OPTIONS))}",
            code=Code.UNKNOWN_OPTION,
        )
    if not (shardings in (None, "search") or isinstance(shardings, Mapping)):
        raise UsageError(f"shardings is {shown(shardings)}, expected 'search' or its options", code=Code.BAD_VALUE)
    parameters = Parameters.of(fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
    in_shardings = without_hlo(in_shardings, "in_shardings")
    out_shardings = without_hlo(out_shardings, "out_shardings")
    check_specs(in_shardings=in_shardings, out_shardings=out_shardings)
    over = device_mesh_on(mesh, device, backend)
    if over is None and (device is not None or backend is not None):
        for name, specs in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            if any(spec is not None for spec in specs_in(specs)):
                raise WrongValue(
                    f"If backend or device is specified on jit, then {name} should not be specified",
                    hint="give a device by shardings, or as jax.default_device",
                )
    jitted = Jitted(
        fun, parameters, over, in_shardings, out_shardings, keep_unused, inline, compiler_options, timeout_s, options,
        {} if shardings == "search" else shardings, {} if over else {"device": device, "backend": backend},
    )  # fmt: skip
    jitted._made_of = given
    return jitted


def _also(kind: type[Exception]) -> type[UsageError]:
    """A UsageError that is also of the class that JAX raises."""
    return type(UsageError.__name__, (UsageError, kind), {})


class Jitted(Dispatched):
    """A function to be partitioned; compiled once for each kind of arguments."""

    def __init__(
        self,
        fun: Callable[..., Any],
        parameters: Parameters,
        mesh: DeviceMesh | None,
        in_shardings: Any,
        out_shardings: Any,
        keep_unused: bool,
        inline: bool,
        compiler_options: Mapping[str, Any] | None,
        timeout_s: float,
        options: dict[str, Any],
        search: Any,
        place: Mapping[str, Any],
    ) -> None:
        # The attributes of a callable object are not copied.
        functools.update_wrapper(self, fun, updated=("__dict__",) if isinstance(fun, types.FunctionType) else ())
        self._made_of: dict[str, Any] = {}
        self._search: Mapping[str, Any] | None = search
        self._fun = fun
        self._name = getattr(fun, "__name__", "function")
        self._parameters, self._mesh = parameters, mesh
        self._in_shardings, self._out_shardings = in_shardings, out_shardings
        self._compiler_options, self._timeout_s, self._options = compiler_options, timeout_s, options
        self._place = {name: value for name, value in place.items() if value is not None}
        self._donates = bool(parameters.donate_argnums or parameters.donate_argnames)
        self._settings: dict[str, Any] = {
            **parameters.as_of_jax,
            "keep_unused": keep_unused,
            "inline": inline,
        }
        self._inner: Any = jax.jit(fun, **self._settings)
        # By kinds of arguments; each caches its executables. None for a function that is left to JAX.
        self._lowered: dict[Any, Lowered | None] = {}
        self._generation = jax_stages.generation_of_caches()
        self._open_leaves: dict[Any, Sequence[bool]] = {}  # by pytrees of arguments
        self.pace = in_flight.FREE
        self._dispatched = jax_stages.dispatched(
            self._name, weakly(self._by_operations), weakly(self._call_of_new_kind), self._inner
        )

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NamedLeaves:
        call = bind(self._parameters, args, kwargs)
        return list(zip(call.paths(self._parameters), call.leaves, strict=True))

    def _donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[bool]:
        return bind(self._parameters, args, kwargs).donated(self._parameters)

    def _call_of_new_kind(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Called by C++ for arguments of a new kind; returns the results, and the data for the next such call."""
        call = bind(self._parameters, args, kwargs)
        if jax_stages.is_tracing(call.leaves):
            self._parameters.check(self._name, args, kwargs)
            return self._annotated(*args, **kwargs), None, False
        compiled = self._compiled_for(call)
        if compiled is None:
            remark_once(f"'{self._name}' has no mesh, so JAX compiles it, for one device")
            return jax_stages.call_of_new_kind(self._by_jax, args, kwargs)
        with jax_stages.found_nan(self._by_operations, args, kwargs):
            run = compiled.run_checking_keys if jax_stages.checks_keys() else compiled.run
            results = run(call.leaves)
        return results, compiled.fast_call(call.leaves, results), False

    def _compiled_for(self, call: BoundCall) -> Compiled | None:
        found = self._find_mesh(call.leaves)
        self._check_here(None if found is None else found.mesh)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in call.leaves):
            raise WrongType(f"'{self._name}' was called with a shape in place of an array", hint="use lower")
        lowered = self._lowered_for(call, found)
        if lowered is None:
            return None
        compiled: Compiled = lowered.compile(timeout_s=self._timeout_s)
        self.pace = max(self.pace, compiled.pace, key=lambda pace: pace.rank)
        return compiled

    def _lowered_for(self, call: BoundCall, found: FoundMesh | None) -> Lowered | None:
        """The function lowered for arguments of these kinds, once; None if there is no mesh at all."""
        generation = jax_stages.generation_of_caches()
        if generation is not self._generation:
            self._lowered.clear()
            self._generation = generation
        settings = [getattr(jax.config, name) for name in _SETTINGS]
        without_mesh = found is None and self._is_for_one_device(call.leaves)
        if self._place and jax_stages.legacy_mesh() is not None:
            raise WrongValue(
                "Mesh context manager should not be used with jit when backend or device is also specified as an "
                "argument to jit",
                hint="leave one of these out",
            )
        kinds = kinds_of(call.leaves, self._come_split(call))
        key = (found, without_mesh, call.key, kinds, jax_stages.legacy_mesh(), *settings)
        if key not in self._lowered:
            self._lowered[key] = None if without_mesh else self._lower(found, call)
        return self._lowered[key]

    def _check_here(self, mesh: DeviceMesh | None) -> None:
        target = self._options.get("target", "")
        if mesh is not None and mesh.devices is not None and machines.is_compile_only(mesh.devices):
            raise not_here(f"'{self._name}'", f"{len(mesh.devices)} x {mesh.devices[0].device_kind}")
        if is_topology(target) and (mesh is None or mesh.stands_in):
            raise not_here(f"'{self._name}'", target)

    def _by_operations(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, as it runs under `jax.disable_jit`, and when JAX searches for the source of a NaN."""
        call = bind(self._parameters, args, kwargs)
        found = self._find_mesh(call.leaves)
        with contextlib.nullcontext() if found is None else found.mesh.around_operations(), jax_stages.any_functions():
            return self._fun(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<gspmd.jit of {self._fun!r}>"

    def __reduce__(self) -> Any:
        """Its name, if it is found by that in its module, else the arguments of `jit`."""
        module, name = getattr(self, "__module__", None), getattr(self, "__qualname__", "")
        if module != "__main__" and getattr(sys.modules.get(module or ""), name, None) is self:
            return name
        return _made, (self._fun, self._made_of)

    def __copy__(self) -> Jitted:
        return _made(self._fun, self._made_of)

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted:
        return _made(copy.deepcopy(self._fun, memo), self._made_of)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The function lowered for these arguments: arrays, or `jax.ShapeDtypeStruct`s. Runs nothing.

        If there is no mesh at all, it is JAX's own `Lowered`.
        """
        call = bind(self._parameters, args, kwargs)
        lowered = self._lowered_for(call, self._find_mesh(call.leaves))
        return lowered or jax_stages.LoweredByJax(self._by_jax.lower(*args, **kwargs), no_mesh)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """A `Traced` of JAX's, whose `lower()` is that of this function.

        If it is lowered for given platforms, as `jax.export` does, it is the annotated function, which XLA partitions.
        """
        self._parameters.check(self._name, args, kwargs)
        call = bind(self._parameters, args, kwargs).described()
        found = None if jax_stages.is_tracing(call.leaves) else self._find_mesh(call.leaves)
        if found is None:
            return self._annotated.trace(*args, **kwargs)
        lower = functools.partial(self._lowered_for, call, found)
        found = self._on_target(found)
        leaves = TypedLeaves.of(call.leaves, call.paths(self._parameters))
        inputs = self._inputs(found.mesh, call, leaves)
        typed = leaves.have_types(inputs, found.mesh.mesh), leaves.over_other_types(inputs)
        traced = self._in_mesh(found, True, functools.partial(self._trace, call, leaves, inputs), typed)
        exported = functools.partial(self._traced_for_export, found.mesh, call)
        mesh = found.mesh.jax_mesh()
        placed = functools.partial(with_shardings, prefix=self._out_shardings, mesh=mesh, what="out_shardings")
        return jax_stages.TracedFunction(traced, lower, exported, placed)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results, as a pytree of `jax.ShapeDtypeStruct`s. Runs nothing."""
        self._parameters.check(self._name, args, kwargs)
        with jax_stages.any_functions():
            results = self._annotated.eval_shape(*args, **kwargs)
        found = self._find_mesh(jax.tree.leaves((args, kwargs)))
        mesh = None if found is None else found.mesh.jax_mesh()
        return with_shardings(results, self._out_shardings, mesh, "out_shardings")

    def clear_cache(self) -> None:
        """Clear the caches of traced, lowered and compiled functions."""
        self._lowered.clear()
        self._dispatched._clear_cache()
        self._inner.clear_cache()
        self._annotated.clear_cache()

    def _come_split(self, call: BoundCall) -> Sequence[bool]:
        """For every leaf, whether its own sharding is used; not if a search finds the shardings."""
        if self._search is not None or self._in_shardings is None:
            return (self._search is None,) * len(call.leaves)
        if call.tree not in self._open_leaves:
            values, _ = jax.tree.unflatten(call.tree, call.leaves)
            known = (False,) * len(call.leaves) if call.dynamic_kwargs else ()
            self._open_leaves[call.tree] = known or left_open(self._in_shardings, values, "in_shardings")
        return self._open_leaves[call.tree]

    def _traced_for_export(self, mesh: DeviceMesh, call: BoundCall) -> Any:
        """The annotated function, with shardings of its arguments and results if these divide."""
        given = {
            name: named_shardings(prefix, mesh.jax_mesh())
            for name, prefix in (("in_shardings", self._in_shardings), ("out_shardings", self._out_shardings))
            if prefix is not None
        }
        try:
            return self._jit_annotated(**given).trace(*call.args, **call.kwargs)
        except ValueError:
            return self._annotated.trace(*call.args, **call.kwargs)

    @property
    def _specs(self) -> list[Any]:
        return specs_in(self._in_shardings, self._out_shardings)

    @property
    def _has_specs(self) -> bool:
        """Whether there are specs, which are over the mesh around."""
        return any(isinstance(spec, jax.sharding.PartitionSpec) for spec in self._specs)

    def _find_mesh(self, leaves: Sequence[Any]) -> FoundMesh | None:
        """The mesh of the function for these arguments; its body is not searched."""
        return None if self._place else find_mesh(self._mesh, self._specs, leaves)

    def _is_for_one_device(self, leaves: Sequence[Any]) -> bool:
        """Whether a function for which no mesh was found is explicitly for one device."""
        return bool(self._place) or on_one_device(self._specs, leaves)

    @functools.cached_property
    def _by_jax(self) -> Any:
        """The function as JAX compiles it, for one device."""
        if not self._place and not self._specs and not self._compiler_options:
            return self._inner
        return jax.jit(
            self._fun,
            in_shardings=self._in_shardings,
            out_shardings=self._out_shardings,
            compiler_options=dict(self._compiler_options) if self._compiler_options else None,
            **self._settings,
            **self._place,
        )

    def _on_target(self, found: FoundMesh) -> FoundMesh:
        """The mesh with the devices for which the function is traced and lowered."""
        return dataclasses.replace(found, mesh=mesh_on_target(found.mesh, self._options.get("target", "")))

    def _lower(self, found: FoundMesh | None, call: BoundCall) -> Lowered | None:
        self._parameters.check(self._name, call.args, call.kwargs)
        leaves = TypedLeaves.of(call.leaves, call.paths(self._parameters))
        first = None
        if found is None:
            args, kwargs = call.with_leaves(leaves.structs)
            with jax_stages.any_functions():
                first = self._inner.trace(*args, **kwargs)
            found = mesh_inside(first.jaxpr)
        if found is None:
            of_a_mesh = any(spec is not None for spec in self._specs)
            if of_a_mesh or self._search is not None or is_topology(self._options.get("target", "")):
                raise no_mesh()
            return None
        found = self._on_target(found)
        mesh = found.mesh
        inputs = self._inputs(mesh, call, leaves)
        self._send_remarks(mesh, leaves, inputs)
        traced, lowered, computation = self._traced(found, call, leaves, inputs, first)
        check_legacy_mesh(traced.jaxpr, mesh)
        if not all(hasattr(aval, "shape") for aval in traced.jaxpr.out_avals):
            raise Unsupported(f"'{self._name}' returns a token", hint="return a value that depends on the effects")
        results = jax.tree.unflatten(traced.out_tree, traced.jaxpr.out_avals)
        outputs = given_shardings(mesh, self._out_shardings, results, "out_shardings")
        return Lowered(
            traced.jaxpr, lowered, computation, mesh, inputs, outputs, results, leaves.paths,
            self._compiler_options, self._options, self._search,
        )  # fmt: skip

    def _send_remarks(self, mesh: DeviceMesh, leaves: TypedLeaves, inputs: ValueSpecs) -> None:
        """Send remarks on differences from `jax.jit`."""
        if mesh.has_explicit_axes and not leaves.have_types(inputs, mesh.mesh):
            remark_once(
                f"arguments of '{self._name}' have shardings that types over axes of type Explicit cannot express, "
                "such as uneven ones: all axes are left to the partitioner"
            )
        if jax.config.values["jax_enable_pgle"]:
            remark_once("jax_enable_pgle has no effect on functions of gspmd.jit")

    def _inputs(self, mesh: DeviceMesh, call: BoundCall, leaves: TypedLeaves) -> ValueSpecs:
        """The specifications of the leaves, by `in_shardings` or by the arrays themselves."""
        for leaf, path in zip(call.leaves, leaves.paths, strict=True):
            check_devices(leaf, path, mesh, may_be_moved=self._mesh is not None)
        given = zip(self._given(mesh, call, leaves), call.leaves, self._come_split(call), strict=True)
        inputs = [wanted.beside(spec_of_array(leaf, mesh), split) for wanted, leaf, split in given]
        for index, leaf in enumerate(call.leaves):
            if is_mutable(leaf) and inputs[index].sharding is None:
                inputs[index] = spec_of_ref(leaf, mesh)
        return inputs

    def _trace(self, call: BoundCall, leaves: TypedLeaves, inputs: ValueSpecs) -> Any:
        args, kwargs = call.with_leaves(leaves.typed(inputs))
        with jax_stages.any_functions():
            return self._inner.trace(*args, **kwargs)

    def _traced(
        self, found: FoundMesh, call: BoundCall, leaves: TypedLeaves, inputs: ValueSpecs, first: Any
    ) -> tuple[Any, Any, Any]:
        """The function traced and lowered in the first mesh that it fits; `first` is a trace without a mesh."""
        ready = [] if first is None or found.mesh.has_explicit_axes or found.mesh.lowered_for else [first]

        def trace() -> tuple[Any, Any, Any]:
            traced = ready.pop() if ready else self._trace(call, leaves, inputs)
            return traced, *jax_stages.lower(traced, found.mesh.jax_mesh(), found.mesh.platform)

        typed = leaves.have_types(inputs, found.mesh.mesh), leaves.over_other_types(inputs)
        result: tuple[Any, Any, Any] = self._in_mesh(found, True, trace, typed)
        return result

    def _in_mesh(
        self, found: FoundMesh, by_gspmd: bool, trace: Callable[[], Any], typed: tuple[bool, bool] = (True, False)
    ) -> Any:
        """The result of `trace` in the first of the possible meshes around in which it succeeds.

        If axes are of type Explicit, and the arguments are `typed` by them, there is only one possibility: the mesh is
        around if the user gave it, and JAX's errors are final. Arrays over axes of other types, if there are any, are
        first taken as they are, and then as arrays over the function's own axes.
        """
        program = TracedProgram(found.mesh, by_gspmd)
        if found.mesh.has_explicit_axes and typed[0]:
            types = found.mesh.abstract(explicit=True)
            explicit = types if found.is_given else None
            if not found.is_given:
                program = dataclasses.replace(program, types=types)
            if typed[1]:
                own_types = around(dataclasses.replace(program, has_types=True), explicit)
                with contextlib.suppress(*jax_stages.TRACING_ERRORS), own_types:
                    return trace()
            with around(program, explicit):
                return trace()
        first: Exception = RuntimeError()
        for context in found.mesh.trace_contexts(found.is_given, by_gspmd):
            try:
                with context:
                    return trace()
            except jax_stages.TRACING_ERRORS as error:
                of_meshes = _OF_MESHES.search(str(error))
                if isinstance(error, Error | jax_stages.ShardingTypeError) or not of_meshes:
                    raise
                first = error if not str(first) else first
        raise _also(type(first))(
            f"in '{self._name}', JAX says: {' '.join(str(first).split()):.400}",
            hint="remove the mesh from the annotations in the function, or give gspmd.jit the same mesh",
        ) from first

    def _given(self, mesh: DeviceMesh, call: BoundCall, leaves: TypedLeaves) -> ValueSpecs:
        """The specifications of the leaves by `in_shardings`."""
        if self._in_shardings is None:
            return [NO_SPEC] * len(call.leaves)
        if call.dynamic_kwargs:
            names = ", ".join(sorted(call.dynamic_kwargs))
            raise WrongValue(f"in_shardings do not cover keyword arguments: {names}", hint="pass these by position")
        values, _ = jax.tree.unflatten(call.tree, leaves.structs)
        return given_shardings(mesh, self._in_shardings, values, "in_shardings")

    # ---- inside other functions ----

    @functools.cached_property
    def _annotated(self) -> Any:
        """`jax.jit` of the function, with its shardings as annotations of its arguments and results."""
        return self._jit_annotated()

    def _jit_annotated(self, **shardings: Any) -> Any:
        return jax.jit(
            functools.wraps(self._fun)(weakly(self._as_annotated)),
            compiler_options=None if self._compiler_options is None else dict(self._compiler_options),
            **self._settings,
            **shardings,
        )

    def _as_annotated(self, *args: Any, **kwargs: Any) -> Any:
        call = bind(self._parameters, args, kwargs)
        program: TracedProgram | None = PROGRAM.value
        found = self._mesh_inside(program)
        if found is None:
            return self._fun(*args, **kwargs)
        if program is not None or has_manual_axes():
            return self._annotated_results(call, found.mesh)
        return self._in_mesh(found, False, functools.partial(self._annotated_results, call, found.mesh))

    def _mesh_inside(self, program: TracedProgram | None) -> FoundMesh | None:
        """The mesh of the program or manual computation of which it becomes a part, else its own."""
        if program is None and has_manual_axes():
            program = TracedProgram(device_mesh(), by_gspmd=False)
        if program is None:
            return self._find_mesh(())
        legacy = jax_stages.legacy_mesh()
        if self._mesh is None and legacy is not None and legacy.size != program.mesh.mesh.size and self._has_specs:
            raise WrongValue(
                f"a `with mesh:` block cannot change the size of the mesh inside a function: '{self._name}' has specs "
                f"over {dict(legacy.shape)}, but is called in a function over {dict(program.mesh.mesh.axes)}",
                hint="leave the block out",
                code=Code.DEVICE_COUNT,
            )
        if self._mesh is not None and self._mesh.mesh.size != program.mesh.mesh.size:
            raise UsageError(
                f"'{self._name}' is for a mesh {dict(self._mesh.mesh.axes)}, but is called in a function over "
                f"{dict(program.mesh.mesh.axes)}",
                hint="leave its mesh out, or give it the mesh of that function",
            )
        return FoundMesh(program.mesh, True)

    def _annotated_results(self, call: BoundCall, mesh: DeviceMesh) -> Any:
        args: Sequence[Any] = call.args
        kwargs = call.kwargs
        own = mesh if self._mesh is None or has_manual_axes() else self._mesh
        if self._in_shardings is not None:
            values = [jax.numpy.asarray(leaf) for leaf in call.leaves]
            leaves = TypedLeaves.of(values, call.paths(self._parameters))
            args, kwargs = call.with_leaves(annotate_as(values, shardings(self._given(own, call, leaves)), own))
        results, tree = jax.tree.flatten(self._fun(*args, **kwargs))
        given = given_shardings(own, self._out_shardings, jax.tree.unflatten(tree, results), "out_shardings")
        return jax.tree.unflatten(tree, annotate_as(results, shardings(given), own))


def _made(fun: Callable[..., Any], given: Mapping[str, Any]) -> Jitted:
    """`jit` of a function, with the arguments that were given for another one."""
    made: Jitted = jit(fun, **given)
    return made

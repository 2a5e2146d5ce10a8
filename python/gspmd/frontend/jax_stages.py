"""JAX's stages, opened between lowering and compiling.

JAX traces and lowers a function, the partitioned module replaces the lowered one, and JAX compiles, caches and calls
it. So everything that JAX does around a program works for partitioned ones, too: its persistent cache, logs,
callbacks, ordered effects, mutable arrays, donation, checks for NaN, and dispatch in C++.

Only this module depends on JAX's internals; other modules use its interface. Tested with jax 0.10 and 0.12.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
from jax._src import (
    api_util,
    callback,
    compilation_cache,
    config,
    core,
    debugging,
    dispatch,
    effects,
    pjit,
    source_info_util,
    stages,
    tree_util,
    util,
)
from jax._src.array import ArrayImpl
from jax._src.custom_partitioning import custom_partitioning, custom_partitioning_p
from jax._src.custom_partitioning_sharding_rule import (
    ArrayMapping,
    SdyShardingRule,
    sdy_sharding_rule_to_mlir,
    str_to_sdy_sharding_rule,
)
from jax._src.debugging import inspect_sharding_p
from jax._src.interpreters import mlir, pxla
from jax._src.lru_cache import LRUCache
from jax._src.mesh import empty_abstract_mesh, thread_resources
from jax._src.named_sharding import UnspecifiedValue
from jax._src.sharding_impls import GSPMDSharding, SPMDAxisContext
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec
from jaxlib import _jax
from jaxlib.mlir import ir

from gspmd import output
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, SourceLocation, Unsupported, shown
from gspmd.dialect.own_attributes import PREFIX
from gspmd.frontend.user_code import user_errors

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls
Aval = Any  # jax.core.ShapedArray or AbstractRef: shape, dtype, weak type
PjitFunction = Any  # a function that `jax.jit` returns, whose calls C++ dispatches
Tracer = core.Tracer
Array = ArrayImpl  # the class of arrays on devices
flatten = tree_util.default_registry.flatten  # leaves and structure, as `jax.tree.flatten`
# JAX's exceptions for a function that does not fit the mesh around, among other mistakes.
ShardingTypeError = core.ShardingTypeError
TRACING_ERRORS = (ValueError, TypeError, RuntimeError, AssertionError, ShardingTypeError)


def is_tracing(leaves: Sequence[Any]) -> bool:
    """Whether a call with these leaves is part of a function that JAX traces or transforms."""
    return not core.trace_state_clean() or any(isinstance(leaf, core.Tracer) for leaf in leaves)


def is_array(leaf: Any) -> bool:
    """Whether the leaf is an array of JAX's on devices, not one that is being traced."""
    return type(leaf) is ArrayImpl or (isinstance(leaf, jax.Array) and not isinstance(leaf, core.Tracer))


def is_unspecified(value: Any) -> bool:
    """Whether the value is JAX's internal marker for an unspecified sharding."""
    return isinstance(value, UnspecifiedValue)


def legacy_mesh() -> jax.sharding.Mesh | None:
    """The mesh of a `with mesh:` block around, if there is one."""
    mesh = thread_resources.env.physical_mesh
    return None if mesh.empty else mesh


def concrete_mesh(abstract: AbstractMesh, devices: Sequence[Any]) -> jax.sharding.Mesh:
    """A mesh of these devices that JAX accepts as an instance of the abstract one."""
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return jax.sharding.Mesh(grid.reshape(abstract.axis_sizes), abstract.axis_names, axis_types=abstract.axis_types)


# ---- lowering ----


class TypeAndSharding(Protocol):
    """The type and sharding of a whole argument or result of JAX's executable."""

    @property
    def aval(self) -> Aval: ...

    @property
    def sharding(self) -> NamedSharding: ...


@dataclasses.dataclass(frozen=True)
class Computation:
    """A function that JAX lowered: its module, and JAX's data on its arguments and results.

    `@main` takes a token for each of `ordered_effects`, then `const_args`, the leaves that are used, and the contents
    of mutable arrays; it returns tokens, results, and new contents. `split_calls` are the functions of its custom calls
    of `jax.experimental.custom_partitioning`, which refer to them by number.
    """

    lowering: Any
    split_calls: Sequence[FunctionsOfCall] = ()

    @property
    def _args(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.lowering.compile_args
        return found

    @functools.cached_property
    def module(self) -> ir.Module:
        """The module that JAX lowered, with static shapes; it is JAX's own and must not be changed."""
        poly = self._args.get("shape_poly_state")
        module: ir.Module = self.lowering.stablehlo()
        return mlir.refine_polymorphic_shapes(module) if poly is not None and poly.uses_dim_vars else module

    def is_for(self, platform: str) -> bool:
        """Whether it was lowered for this platform."""
        return platform in self.lowering._platforms

    @property
    def name(self) -> str:
        """JAX's name for the function, which also occurs in file names."""
        return str(self.lowering._name)

    @property
    def num_tokens(self) -> int:
        return len(self._args["ordered_effects"])

    @property
    def in_avals(self) -> Sequence[Aval]:
        """The types of the arguments of `@main`, without tokens."""
        found: Sequence[Aval] = self._args["global_in_avals"]
        return found

    @property
    def out_avals(self) -> Sequence[Aval]:
        found: Sequence[Aval] = self._args["global_out_avals"]
        return found

    @property
    def const_args(self) -> Sequence[Any]:
        """The arrays over which the function closes, which JAX passes as its first arguments."""
        found: Sequence[Any] = self.lowering.const_args
        return found

    def typed_results(self) -> list[tuple[NamedSharding | None, Aval]]:
        """The shardings in the types of results, if axes of the mesh are of type Explicit, else None; and the types."""
        found = zip(self._args["out_shardings"], self.out_avals, strict=True)
        return [(s if isinstance(s, NamedSharding) else _explicit(aval), aval) for s, aval in found]

    @property
    def refs(self) -> Sequence[jax.Ref]:
        """The mutable arrays over which the function closes."""
        mut = self._args["mut"]
        return () if mut is None else mut.in_mut

    @property
    def host_callbacks(self) -> Sequence[Any]:
        """The Python functions that the module calls, by number."""
        found: Sequence[Any] = self._args["host_callbacks"]
        return found

    def kept_leaves(self) -> list[int]:
        """The leaves that are arguments of `@main`: all that are used, in order."""
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
        inputs: Sequence[TypeAndSharding],
        outputs: Sequence[TypeAndSharding],
        host_callbacks: Sequence[Any],
        compiler_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """JAX's executable of a partitioned module, which calls these Python functions.

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
        with config.use_shardy_partitioner(True):  # which inlines gspmd's manual computation
            return lowering.compile()


def make_lowered(own: stages.Lowered, lowered: stages.Lowered) -> None:
    """Initialize a stage with a function that JAX lowered."""
    stages.Lowered.__init__(
        own,
        lowered._lowering,
        lowered.args_info,
        lowered.out_tree,
        lowered._no_kwargs,
        lowered._in_types,
        lowered._out_types,
    )


def make_compiled(compiled: stages.Compiled, lowered: Any, executable: Any) -> None:
    """Initialize a stage of a lowered function with this executable."""
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


def types_of(args_info: Any) -> Any:
    """The types with which JAX traced a function, from the `args_info` of its stages."""
    return jax.tree.map(lambda info: info._aval, args_info)


class Unserializable:
    """Stands for an executable that JAX must not pickle, as JAX alone could not use it: pickling raises `error`."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        raise self._error


def input_layouts(executable: Any) -> Sequence[Any]:
    """The layouts of an executable's arguments, constants included; None for the usual one."""
    found: Sequence[Any] = executable._dispatch_in_layouts
    return found


def refuse_to_serialize(executable: Any, error: Exception) -> None:
    """Make `jax.experimental.serialize_executable.serialize` raise `error` for an executable."""
    executable._unloaded_executable = Unserializable(error)


def _explicit(aval: Aval) -> NamedSharding | None:
    sharding = getattr(aval, "sharding", None)
    known = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return sharding if known else None


def layout_mode(layout: Any, aval: Aval) -> str:
    """The text of a module's attribute for a layout."""
    return str(mlir._to_xla_layout(layout, aval))


def _at(aval: Aval, sharding: Any) -> Aval:
    return core.update_aval_with_sharding(aval, sharding) if isinstance(aval, core.ShapedArray) else aval


class TracedFunction(stages.Traced):
    """A traced function with its own `lower`; for given platforms, it lowers the function that `exported` traces.

    `placed` adds the user's shardings to the pytree of result shapes.
    """

    def __init__(
        self, traced: Any, lower: Callable[[], Any], exported: Callable[[], Any], placed: Callable[[Any], Any]
    ) -> None:
        for name in stages.Traced.__slots__:
            setattr(self, name, getattr(traced, name))
        self._own_lower, self._exported, self._placed = lower, exported, placed

    @property
    def out_info(self) -> Any:
        return self._placed(super().out_info)

    def lower(self, **how: Any) -> Any:
        named = any(value is not None for value in how.values())
        return self._exported().lower(**how) if named else self._own_lower()


class LoweredByJax(stages.Lowered):
    """A function without a mesh, lowered by JAX for one device: there is nothing to partition.

    Attributes of partitioned functions raise the result of `error`.
    """

    def __init__(self, lowered: stages.Lowered, error: Callable[[], Exception]) -> None:
        for name in stages.Lowered.__slots__:
            setattr(self, name, getattr(lowered, name))
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PARTITIONED:
            raise self._error()
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


_OF_PARTITIONED = frozenset(
    {"compile_for", "cost", "explain", "hardware", "mesh", "partitioned", "plan", "program", "report", "suggest"}
)


# Primitives whose lowering depends on the number of devices.
_COUNTING_DEVICES = frozenset({"call_exported"})
# Primitives whose lowering needs the devices themselves. Others that are registered so are calls of
# `custom_partitioning`, or are lowered to such calls, as in libraries.
_NEEDING_DEVICES = frozenset({"io_callback", "pure_callback"})


def lower(traced: Any, mesh: jax.sharding.Mesh | AbstractMesh, platform: str) -> tuple[Any, Computation]:
    """JAX's `Lowered` of a traced function, with whole values, and its `Computation`.

    JAX lowers it as for one device, with the fewest restrictions: effects in any order, donation to a named result.
    JAX gets the devices of the mesh, which may be absent, only if the function has operations that need them.

    Errors: those of JAX.
    """
    jaxpr = open_jaxpr(traced.jaxpr)
    around = None
    names = {equation.primitive.name for equation in equations(jaxpr)}
    if names & _NEEDING_DEVICES and not _for_one_device_only(jaxpr):
        around = mesh
    elif names & _COUNTING_DEVICES:
        around = mesh if isinstance(mesh, AbstractMesh) else mesh.abstract_mesh
    wide = copy.copy(traced)
    wide._meta_tys_flat = type(traced._meta_tys_flat)(map(_anywhere, traced._meta_tys_flat))
    wide._lojax = None
    if around is not None:
        wide._params = {**traced._params, "ctx_mesh": around}
    calls = _CallLowering(mesh)
    rules: Any = []
    if names & {each.name for each in dispatch.prim_requires_devices_during_lowering} - _NEEDING_DEVICES:
        rules += [(custom_partitioning_p, calls), (inspect_sharding_p, calls.inspect)]
    if names & {primitive.name for primitive in _CALLBACKS}:
        rules += [(primitive, functools.partial(_lower_callback, rule)) for primitive, rule in _CALLBACKS.items()]
    parameters = mlir.LoweringParameters(override_lowering_rules=tuple(rules)) if rules else None

    def lowered_for(name: str) -> Any:
        return stages.Traced.lower(wide, lowering_platforms=(name,), _private_parameters=parameters)

    try:
        with any_functions(), _device_of(mesh, platform):
            try:
                lowered = lowered_for(platform)
            except ValueError as error:
                if "different from the lowering platform" not in str(error):
                    raise
                # It calls Python, for which JAX needs a device. Those present suffice to partition it.
                lowered = lowered_for(jax.default_backend())
    except Error as error:  # of a rule
        raise error.at(_place_of(calls.current, jaxpr)) from None
    return lowered, Computation(lowered._lowering, calls.found)


def _anywhere(argument: Any) -> Any:
    """An argument's data without its devices; a sharding over axes of type Explicit is part of the type, and stays."""
    sharding = argument.sharding
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit in sharding.mesh.axis_types:
        return argument
    return argument.replace(sharding=None, format=None)


_CALLBACKS: Any = {
    callback.pure_callback_p: callback.pure_callback_lowering,
    callback.io_callback_p: callback.io_callback_lowering,
    debugging.debug_callback_p: debugging.debug_callback_lowering,
}
# The arguments of the Python function that runs in this thread.
_passed = threading.local()


def called_with(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a Python function in `Computation.host_callbacks`, with the values of its arrays available on the host.

    JAX puts the arguments from PJRT on a device, and reads them there. If an array is large and not aligned, or its
    elements are smaller than a byte, one of a few threads copies it. On CPUs, all of these threads may already wait for
    the function's result, each for another device of a collective.
    """
    _passed.values = [_aligned(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    try:
        return function(*_passed.values)
    finally:
        _passed.values = []


_ALIGNMENT = 64  # bytes; a CPU device uses arrays with this alignment without a copy


def _aligned(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array if it is aligned and owns its memory, else such a copy."""
    if value.flags.owndata and value.flags.c_contiguous and value.ctypes.data % _ALIGNMENT == 0:
        return value
    memory = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    own: np.ndarray[Any, Any] = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    own[...] = value
    return own


def _lower_callback(rule: Any, context: Any, *values: Any, callback: Callable[..., Any], **given: Any) -> Any:
    """Lower a callback as JAX does, with the host values of arrays that `called_with` has."""

    def called(*arrays: Any) -> Any:
        passed = getattr(_passed, "values", [])
        for array, value in zip(arrays, passed[len(passed) - len(arrays) :], strict=False):
            if is_array(array) and isinstance(value, np.ndarray) and array.dtype == value.dtype:
                value.flags.writeable = False
                array._npy_value = value
        return callback(*arrays)

    return rule(context, *values, callback=called, **given)


def _device_of(mesh: jax.sharding.Mesh | AbstractMesh, platform: str) -> contextlib.AbstractContextManager[Any]:
    """Makes a device of the mesh the default one: lowering callbacks uses the client of the default device."""
    device = None if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0]
    return contextlib.nullcontext() if device is None or device.platform != platform else jax.default_device(device)


def _for_one_device_only(jaxpr: Any) -> bool:
    """Whether JAX refuses to lower effects of the function for several devices."""
    ordered = effects.ordered_effects.filter_in(jaxpr.effects)
    return bool(effects.shardable_ordered_effects.filter_not_in(ordered))


def open_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr in a closed one; newer versions of JAX do not distinguish them."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a jaxpr, those of inner jaxprs included."""
    inner = open_jaxpr(jaxpr)
    yield from inner.eqns
    for each in core.subjaxprs(inner):
        yield from equations(each)


# ---- the cache on disk ----


@dataclasses.dataclass(frozen=True)
class DiskCache:
    """JAX's persistent cache, for gspmd's entries: their names begin with `gspmd-`.

    Errors: those of the file system, and of libraries for remote ones.
    """

    cache: LRUCache

    def get(self, key: str) -> bytes | None:
        return self.cache.get(key)

    def put(self, key: str, data: bytes) -> None:
        """Write an entry atomically; by JAX's own cache, under its lock, if that limits the size of the folder."""
        if self.cache.eviction_enabled or "://" in str(self.cache.path):
            self.cache.put(key, data)
        else:
            output.write(self._path(key), data)

    def remove(self, key: str) -> None:
        """Remove an entry, as JAX would not overwrite it."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Any:
        return self.cache.path / f"{key}-cache"


def disk_cache(client: Any) -> DiskCache | None:
    """JAX's persistent cache, if it is on for programs of a client. Errors: as of `DiskCache`."""
    if not compilation_cache.is_cache_used(client):
        return None
    cache = compilation_cache._get_cache(client)
    # A cache that verifies its entries compiles everything once more, and is not used.
    return DiskCache(cache) if isinstance(cache, LRUCache) else None


# ---- calls that Python functions split ----


@dataclasses.dataclass(frozen=True)
class FunctionsOfCall:
    """The functions that split a call of `jax.experimental.custom_partitioning`; the user's function is `name`.

    The call refers to them by `number`. They take `static_args` before their other arguments; `in_tree` and `out_tree`
    are the pytrees of arguments and results. The call is lowered for `platforms`. Without `decode_shardings`, shardings
    are `GSPMDSharding`s. Static arguments are compared by identity, since 1, 1.0 and True are equal, but may give
    different programs.
    """

    name: str
    partition: Callable[..., Any]
    infer_sharding_from_operands: Callable[..., Any] | None
    propagate_user_sharding: Callable[..., Any] | None
    decode_shardings: bool
    in_tree: Any
    out_tree: Any
    static_args: tuple[Any, ...] = dataclasses.field(compare=False)
    platforms: tuple[str, ...]
    static_ids: tuple[int, ...]
    number: str = dataclasses.field(default="", compare=False)


class _CallLowering:
    """Lowers calls as JAX does, for a mesh whose devices may be absent, and records their functions.

    Equal functions have the same number, so that calls in repeated layers are equal.
    """

    def __init__(self, mesh: jax.sharding.Mesh | AbstractMesh) -> None:
        self._mesh = mesh
        self.found: list[FunctionsOfCall] = []
        self.current: Any = None  # the jaxpr of the call that is being lowered

    def __call__(self, context: Any, *values: Any, call: Any, sharding_rule: Any, **given: Any) -> Any:
        if self._is_on_one_device(context):
            return mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)(context, *values)
        functions = FunctionsOfCall(
            name=open_jaxpr(call).debug_info.func_name,
            platforms=tuple(context.module_context.platforms),
            static_ids=tuple(map(id, given["static_args"])),
            **given,
        )
        self.current = call
        taken, made = ([_type_of(aval) for aval in avals] for avals in (call.in_avals, call.out_avals))
        return self._split(functions, sharding_rule, values, taken, made).results

    def inspect(self, context: Any, value: Any, *, callback: Callable[..., None]) -> Sequence[Any]:
        """`jax.debug.inspect_array_sharding`: a call without effect that gets the sharding of its operand."""
        if self._is_on_one_device(context):
            callback(NamedSharding(self._mesh, PartitionSpec()))
            return ()

        def partition(mesh: Any, values: Any, _: Any) -> Any:
            (sharding,) = (value.sharding for value in values)
            spec = sharding.spec.partitions
            while spec and spec[-1] is None:
                spec = spec[:-1]
            callback(NamedSharding(sharding.mesh, PartitionSpec(*spec)))
            return mesh, lambda value: value, sharding, (sharding,)

        type_ = _type_of(context.avals_in[0])
        dims = ArrayMapping(*(f"d{dim}" for dim in range(type_.rank)))
        functions = FunctionsOfCall(
            name="inspect_array_sharding",
            partition=partition,
            infer_sharding_from_operands=None,
            propagate_user_sharding=None,
            decode_shardings=True,
            in_tree=jax.tree.structure((0,)),
            out_tree=jax.tree.structure(0),
            static_args=(),
            platforms=tuple(context.module_context.platforms),
            static_ids=(),
        )
        self._split(functions, SdyShardingRule((dims,), (dims,)), [value], [type_], [type_])
        return ()

    def _is_on_one_device(self, context: Any) -> bool:
        """Whether the call is part of a manual computation over the whole mesh."""
        axes = context.module_context.axis_context
        mesh, held = (axes.mesh, axes.manual_axes) if isinstance(axes, SPMDAxisContext) else (self._mesh, ())
        return all(name in held for name, size in mesh.shape.items() if size > 1)

    def _split(self, functions: FunctionsOfCall, rule: Any, values: Any, taken: Any, made: Any) -> ir.OpView:
        """A call that refers to its functions by number."""
        from gspmd.transforms.ops.custom_rules import CUSTOM_PARTITIONING, RULE

        if functions not in self.found:
            self.found.append(dataclasses.replace(functions, number=f"{PREFIX}{len(self.found)}"))
        number = self.found[self.found.index(functions)].number
        call = mlir.custom_call(CUSTOM_PARTITIONING, result_types=made, operands=values, backend_config=number)
        if rule is not None:
            call.attributes[RULE] = _rule_of_call(functions, rule, self._mesh, taken, made)
        return call


def _place_of(call: Any, jaxpr: Any) -> SourceLocation | None:
    """The location where the user calls the function with this jaxpr."""
    for equation in equations(jaxpr):
        frame = source_info_util.user_frame(equation.source_info.traceback)
        if equation.params.get("call") is call and frame is not None:
            return SourceLocation(frame.file_name, frame.start_line, frame.start_column)
    return None


def _type_of(aval: Aval) -> ir.Type:
    physical = core.physical_aval(aval)
    return ir.RankedTensorType.get(physical.shape, mlir.dtype_to_ir_type(physical.dtype))


def _rule_of_call(functions: FunctionsOfCall, rule: Any, mesh: Any, operands: Any, results: Any) -> ir.Attribute:
    """The attribute for a user's rule: a text, JAX's value, or a function that returns one of these.

    Errors: AnnotationError for a rule that does not fit the call, and for exceptions of the function.
    """
    with user_errors(f"the sharding rule of '{functions.name}'", Code.RULE):
        if callable(rule) and not isinstance(rule, SdyShardingRule):
            rule = rule(*functions.static_args, mesh, operands, results)
        more: dict[str, Any] = {}
        if isinstance(rule, list | tuple) and len(rule) == 2:
            rule, more = rule
        if isinstance(rule, str):
            rule = str_to_sdy_sharding_rule(rule, **more)
        if not isinstance(rule, SdyShardingRule):
            raise TypeError(f"it is {shown(rule)}, expected a text or an SdyShardingRule")
        return sdy_sharding_rule_to_mlir(rule, operands, results)


def sharding_for(functions: FunctionsOfCall, sharding: NamedSharding, rank: int) -> jax.sharding.Sharding:
    """A sharding in the class that the functions of a call expect."""
    if functions.decode_shardings or isinstance(sharding.mesh, AbstractMesh):
        return sharding
    return GSPMDSharding(tuple(sharding.mesh.devices.flat), sharding._to_xla_hlo_sharding(rank))


def devices_in_hlo(sharding: Any) -> tuple[Any, ...]:
    """The devices of a `GSPMDSharding`, in order; empty for any other sharding."""
    return tuple(sharding._device_assignment) if isinstance(sharding, GSPMDSharding) else ()


def hlo_text(sharding: jax.sharding.Sharding, rank: int) -> str:
    """A sharding of JAX's in XLA's notation."""
    return str(sharding._to_xla_hlo_sharding(rank))


def lower_for_device(fun: Callable[..., Any], args: Any, mesh: Any, platforms: Sequence[str]) -> tuple[list[Aval], str]:
    """The result types of a per-device function for these arguments, and the text of its module.

    It may use collectives along the named axes of the mesh.
    """
    axes = list(mesh.shape.items())
    with jax.sharding.use_abstract_mesh(empty_abstract_mesh), any_functions():
        jaxpr = jax.make_jaxpr(fun, axis_env=axes)(*args)
        if any(equation.primitive.name.endswith("_callback") for equation in equations(jaxpr)):
            raise Unsupported(
                "calls Python in the per-device function that 'partition' returned",
                hint="call it outside of the custom_partitioning",
                code=Code.HOST,
            )
        context = SPMDAxisContext(mesh, frozenset(mesh.axis_names))
        with core.extend_axis_env_nd(axes):
            module = mlir.build_mlir_module_helper(
                jaxpr, name="part", platforms=platforms, backend=None, axis_context=context
            )
    return list(jaxpr.out_avals), module.operation.get_asm(enable_debug_info=True)


_any_functions = contextvars.ContextVar("any_functions", default=False)


@contextlib.contextmanager
def any_functions() -> Iterator[None]:
    """Trace calls of `jax.experimental.custom_partitioning` with either rules or functions.

    JAX itself takes only rules in programs for Shardy, and only functions that infer shardings in others.
    """
    before = _any_functions.set(True)
    try:
        yield
    finally:
        _any_functions.reset(before)


def _called_by_any(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(self: custom_partitioning, *args: Any, **kwargs: Any) -> Any:
        if not _any_functions.get():
            return call(self, *args, **kwargs)
        with config.use_shardy_partitioner(self.sharding_rule is not None):
            return call(self, *args, **kwargs)

    return called


custom_partitioning.__call__ = _called_by_any(custom_partitioning.__call__)  # type: ignore[method-assign]


# ---- calling ----


_generation: Callable[[], object] = util.cache(max_size=1, trace_context_in_key=False)(object)


def generation_of_caches() -> object:
    """An object that `jax.clear_caches()` replaces by another one."""
    return _generation()


def dispatched(
    name: str, fun: Callable[..., Any], cache_miss: Callable[..., Any], like: PjitFunction | None = None
) -> PjitFunction:
    """A function that C++ dispatches like one of `jax.jit`; `cache_miss` is called for arguments of a new kind.

    `cache_miss` returns the results, the data by which C++ calls the program itself or None, and False. `like` is a
    function of `jax.jit` with the same static arguments, if there are any. `fun` is called instead under
    `jax.disable_jit`, and when JAX searches for the source of a NaN.
    """
    info = None if like is None else like._jit_info
    call = _jax.pjit(
        name,
        fun,
        cache_miss,
        [] if info is None else info.static_argnums,
        [] if info is None else info.static_argnames,
        object(),
        tree_util.dispatch_registry,
        pxla.cc_shard_arg,
        _jax.PjitFunctionCache(capacity=4096),
    )
    call._fun = fun
    return call


def call_of_new_kind(function: PjitFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    """Call a function of `jax.jit` with arguments of a new kind; returns the same as `cache_miss` of `dispatched`."""
    found: tuple[Any, Any, bool] = function._cache_miss(*args, **kwargs)
    return found


def fast_call(executable: Any, const_args: Sequence[Any], leaves: Sequence[Any], results: Any) -> Any:
    """The data by which C++ calls the program itself the next time; None if Python code has to run."""
    if executable._mut is not None or checks_keys():
        return None
    flat, tree = jax.tree.flatten(results)
    return pjit._get_fastpath_data(executable, tree, leaves, flat, set(), [], None, const_args)


def place_constants(executable: Any, const_args: Sequence[Any]) -> Sequence[Any]:
    """Put the arrays over which the function closes on the devices."""
    placed: Sequence[Any] = executable.shard_const_args(const_args)
    return placed


def checks_keys() -> bool:
    """Whether JAX checks for random keys that are used twice."""
    return bool(config.debug_key_reuse.value)


def checking_keys(jaxpr: Any, run: Callable[..., list[Any]], leaves: Sequence[Any]) -> list[Any]:
    """Call `run` with the leaves of a traced function's arguments, after a check that no random key was used before."""
    from jax.experimental.key_reuse import _core

    results: list[Any] = _core.call_impl_with_key_reuse_checks(pjit.jit_p, run, *leaves, jaxpr=jaxpr)
    return results


@contextlib.contextmanager
def found_nan(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """If JAX finds a NaN in a result inside, run `fun` operation by operation, which raises at its source."""
    try:
        yield
    except api_util.InternalFloatingPointError as error:
        api_util.maybe_recursive_nan_check(error, fun, args, kwargs)


def place_refs(refs: Iterable[tuple[Any, TypeAndSharding]]) -> None:
    """Reshard the contents of mutable arrays as the program needs them; other arguments are unchanged."""
    for ref, value in refs:
        if isinstance(ref, jax.Ref):
            content = ref._refs._buf
            if not content.sharding.is_equivalent_to(value.sharding, content.ndim):
                ref._refs._buf = jax.device_put(content, value.sharding)


def call(executable: Any, const_args: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Run the program on all leaves of the function's arguments, including unused ones."""
    results: list[Any] = executable.unsafe_call(*const_args, *leaves)
    return results

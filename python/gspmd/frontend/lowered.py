"""A function lowered by JAX, partitioned, compiled by JAX and called: values in and out are pytrees of arrays."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.errors import JaxRuntimeError
from jax.extend import source_info_util
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from gspmd import api
from gspmd.api import Partitioned
from gspmd.compiled import ahead_of_time, machines
from gspmd.compiled.compiled_program import CompiledProgram
from gspmd.compiled.looked_up import machine_of
from gspmd.compiled.machines import Machine
from gspmd.dialect.axes import without
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, Unsupported, UsageError
from gspmd.dialect.own_attributes import NAME
from gspmd.frontend import jax_stages
from gspmd.frontend.annotation import inline_sharding
from gspmd.frontend.assumed_hardware import assumed_hardware
from gspmd.frontend.device_mesh import DeviceMesh
from gspmd.frontend.dispatching import Dispatched, NamedLeaves, explained
from gspmd.frontend.host_calls import HostCalls
from gspmd.frontend.jax_stages import Computation
from gspmd.frontend.jax_values import JaxValue, check_layout, check_place, jax_value, with_users_spec
from gspmd.frontend.partitioning import Partitioning
from gspmd.frontend.program_cache import cache_entry
from gspmd.frontend.value_shardings import NO_SPEC, ValueSpec, ValueSpecs, spec_of_array, spec_of_ref
from gspmd.frontend.weak_methods import weakly
from gspmd.reading import read_program
from gspmd.runtime import arguments, executable_module, in_flight, processes
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.runtime.executable import Executable, quiet
from gspmd.runtime.familiar_errors import WrongCount, WrongType, WrongValue
from gspmd.runtime.manual_program import whole_forms
from gspmd.runtime.processes import TIMEOUT_S
from gspmd.transforms.ir.modules import create_mesh, function_types, main_function, mesh_operations
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import MEMORY_KIND, ValueSignature, arrays, dictionaries, set_dictionaries
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.machine.topology import is_topology

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls

if TYPE_CHECKING:  # modules that calls do not need are loaded on use
    from gspmd.costs.cost_report import CostReport
    from gspmd.explanations.explanation import Explanation
    from gspmd.plan_search.plan import ShardingPlan
    from gspmd.reports import report
    from gspmd.suggestions.suggesting import Suggestions
    from gspmd.verification.verdicts import Verification

# The options of `partition` that `explain` takes, too.
_EXPLAINED = ("replicate_unsupported", "custom_rules", "target", "options")
Options = Mapping[str, Any]


class Lowered(jax.stages.Lowered):
    """A function lowered for arguments of known shapes, with the specifications of its arguments and results.

    `inputs` are the specifications of the arguments' leaves, `outputs` those of the results; `paths` are the names of
    the leaves in errors. With options of a `search`, it finds the shardings that are not specified.
    """

    def __init__(
        self,
        jaxpr: Any,
        lowered: Any,
        computation: Computation,
        mesh: DeviceMesh,
        inputs: ValueSpecs,
        outputs: ValueSpecs,
        results: Any,
        paths: Sequence[str],
        compiler_options: Options | None,
        options: dict[str, Any],
        search: Mapping[str, Any] | None = None,
    ) -> None:
        self.mesh = mesh
        self._search = search
        self._results, self._outputs, self._jaxpr = results, outputs, jaxpr
        self._lowered, self._computation, self._paths = lowered, computation, list(paths)
        jax_stages.make_lowered(self, lowered)
        self._given = _of_main(computation, mesh, inputs, outputs)
        if computation.split_calls:
            from gspmd.frontend.call_partitioner import JaxPartitioner
            from gspmd.transforms.ops.custom_rules import CUSTOM_PARTITIONING

            functions = {CUSTOM_PARTITIONING: JaxPartitioner(computation.split_calls, mesh)}
            options = {**options, "custom_rules": {**(options.get("custom_rules") or {}), **functions}}
        self._names = [self._paths[leaf] for leaf in computation.kept_leaves()]
        self._annotated = functools.cache(functools.partial(annotated, computation, mesh, self._given, self._names))
        self._target = options.get("target", "")
        self._compiled: dict[Any, Any] = {}
        self.hardware = assumed_hardware(self._target, mesh)
        self._compiler_options = compiler_options
        self._options = {**options, "target": self.hardware.target}
        self._explained = {name: self._options[name] for name in _EXPLAINED if name in self._options}

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.mesh.axes)
        return f"Lowered(mesh: {axes}; hardware: {self.hardware})"

    @functools.cached_property
    def plan(self) -> ShardingPlan:
        """The plan that `gspmd.search` finds; a function with `shardings="search"` is partitioned by it.

        Errors: as `gspmd.search`.
        """
        from gspmd.plan_search import searching

        return searching.search(self._as_annotated, **self._explained, **(self._search or {}))

    @functools.cached_property
    def program(self) -> ir.Module:
        """The annotated module that is partitioned: StableHLO of whole values, with shardings."""
        return self._as_annotated if self._search is None else self.plan.module

    @property
    def _as_annotated(self) -> ir.Module:
        return self._annotated()

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The annotated module, with source locations if `debug_info`; in another `dialect` like `hlo`, JAX's own."""
        if dialect not in (None, "stablehlo"):
            return str(self._lowered.as_text(dialect, debug_info=debug_info))
        return str(self.program.operation.get_asm(enable_debug_info=debug_info))

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The annotated module; in another `dialect`, such as `hlo`, the one that JAX lowered."""
        return self.program if dialect in (None, "stablehlo") else self._lowered.compiler_ir(dialect)

    def cost_analysis(self) -> Any:
        """XLA's estimate for the unpartitioned function, as a dictionary; `cost()` is gspmd's."""
        return self._lowered.cost_analysis()

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, of whole values."""
        return jax_stages.types_of(self.args_info)

    @property
    def out_info(self) -> Any:
        """The results as a pytree of `jax.ShapeDtypeStruct`s, with the shardings that the user specified."""
        values, tree = jax.tree.flatten(self._results)
        mesh = self.mesh.jax_mesh()
        infos = [
            jax.ShapeDtypeStruct(
                value.shape,
                value.dtype,
                sharding=NamedSharding(mesh, wanted.spec) if isinstance(wanted.spec, PartitionSpec) else wanted.spec,
            )
            for value, wanted in zip(values, self._outputs, strict=True)
        ]
        return jax.tree.unflatten(tree, infos)

    @functools.cached_property
    def partitioned(self) -> Partitioned:
        """The program of one device: its text, shardings and collectives; `gspmd.cost` takes it.

        Errors: as `gspmd.partition`.
        """
        return self._partitioning.partitioned

    @functools.cached_property
    def _partitioning(self) -> Partitioning:
        if self._search is not None:  # its result depends on its time limit, so it is not cached
            return Partitioning(functools.partial(getattr, self.plan, "module"), self._options, None)
        try:
            devices = self._devices(None)
        except Error:  # the devices may be absent
            return Partitioning(self._annotated, self._options, None)
        given = [[dataclasses.replace(wanted, spec=None) for wanted in values] for values in self._given]
        specs = (given, self.mesh.mesh, self._names)
        name = self._computation.name
        entry = cache_entry(
            name, self._computation.module, specs, self._options, devices, self._computation.host_callbacks
        )
        return Partitioning(self._annotated, self._options, entry)

    def cost(self, target: str | None = None) -> CostReport:
        """The cost of a step on a target, by default the one for which it was partitioned. Errors: as `gspmd.cost`."""
        from gspmd.costs import program_cost

        target = self._options.get("target", "") if target is None else target
        return program_cost.cost(self.partitioned, target=target, original=self.program)

    def explain(self) -> Explanation:
        """The reasons for the shardings of values, and the cost of conflicts. Errors: as `gspmd.explain`."""
        from gspmd.explanations import explanation

        return explanation.explain(self.program, **self._explained)

    def verify(self) -> Verification:
        """Whether the partitioned program computes the function's results. Errors: as `gspmd.verify`."""
        return api.verify(self.program, self.partitioned)

    def report(self, compiled: CompiledProgram | None = None) -> report.Report:
        """A page on shardings and costs; with `compiled`, also on its schedule. Errors: as `gspmd.report`."""
        from gspmd.reports import report

        return report.report(self.program, **self._explained, compiled=compiled)

    def suggest(
        self, *, save: str = "time", tries: int | None = None, time_limit_s: float | None = None
    ) -> Suggestions:
        """Annotations that would reduce costs, as changes of the source if possible. Errors: as `gspmd.suggest`."""
        from gspmd.suggestions import suggesting

        given = {"tries": tries, "time_limit_s": time_limit_s}
        limits: dict[str, Any] = {name: limit for name, limit in given.items() if limit is not None}
        return suggesting.suggest(self.program, **self._explained, save=save, **limits)

    def compile(
        self,
        compiler_options: Options | None = None,
        *,
        devices: Sequence[Any] | None = None,
        device_assignment: Sequence[Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """A `Compiled` for the given devices, by default those of the mesh or the target.

        It is ready to run; if the devices are those of a topology, it can only be read, saved and sent.
        `device_assignment` is JAX's name for `devices`. `compiler_options` are XLA's own, in addition to those of
        `gspmd.jit`. `timeout_s` and errors: as for `gspmd.compile`. The function is compiled once for each of these,
        including calls of the function.
        """
        devices = device_assignment if devices is None else devices
        xla_options = {**(self._compiler_options or {}), **(compiler_options or {})}
        key = (None if devices is None else tuple(devices), *((name, str(xla_options[name])) for name in xla_options))
        if key not in self._compiled:
            machine = self._machine(devices)
            self._compiled[key] = Compiled(self._partitioning, self, machine, xla_options, timeout_s)
        return self._compiled[key]

    def compile_for(self, target: str, compiler_options: Options | None = None) -> CompiledProgram:
        """The function, partitioned and compiled for a machine that may be absent, as by `gspmd.compile_for`."""
        if target == self._target:
            return ahead_of_time.compile_for(self.partitioned, target, compiler_options=compiler_options)
        options = {name: value for name, value in self._options.items() if name != "target"}
        return ahead_of_time.compile_for(self.program, target, compiler_options=compiler_options, **options)

    def _machine(self, devices: Sequence[Any] | None) -> Machine:
        """The machine to compile for; a mesh without devices is placed on a topology in the best way."""
        mesh = self._partitioning.mesh
        if devices is None and is_topology(self._target) and self.mesh.stands_in:
            from gspmd.collectives import traffic_of

            return machines.machine(self._target, mesh, traffic_of(model_of(self.partitioned.module), mesh))
        return machine_of(self._devices(devices), mesh, [size for _, size in self.mesh.mesh.axes])

    def _devices(self, devices: Sequence[Any] | None) -> tuple[Any, ...]:
        if devices is not None:
            size = self.mesh.mesh.size
            if len(devices) != size and self.mesh.devices is None:
                raise WrongCount(
                    f"Length of device_assignment ({len(devices)}) passed to `.compile()` must be equal to the number "
                    f"of devices the jitted function was lowered with ({size})",
                    code=Code.DEVICE_COUNT,
                )
            if len(devices) != size:
                raise WrongValue(
                    "device_assignment passed to `.compile` must match the device_assignment calculated from array "
                    f"shardings and out_shardings: it has {len(devices)} devices, expected {size}",
                    code=Code.DEVICE_COUNT,
                )
            return tuple(devices)
        if not machines.is_here(self._target):
            return self.mesh.here()
        if self.mesh.devices is None:
            return machines.machine(self._target, self.mesh.mesh).devices
        platform = self.mesh.devices[0].platform
        if platform != self._target.partition(":")[0]:
            raise UsageError(f"the mesh has {platform} devices, the target is '{self._target}'")
        return self.mesh.devices


class Compiled(Dispatched, jax.stages.Compiled, CompiledProgram):
    """A partitioned function, compiled for its devices; called like the function, without static arguments.

    It is a `jax.stages.Compiled`, so that functions of JAX such as `jax.experimental.serialize_executable` take it.
    """

    def __init__(
        self,
        partitioning: Partitioning,
        lowered: Lowered,
        machine: Machine,
        compiler_options: Options,
        timeout_s: float,
    ) -> None:
        self._partitioning, self.machine, self._is_here = partitioning, machine, machine.is_here
        devices, self._in_tree, self._jaxpr = machine.devices, lowered.in_tree, lowered._jaxpr
        self._paths, self._computation = lowered._paths, lowered._computation
        self._out_avals, self.out_tree = jax.tree.flatten(lowered._results)
        module, signature = partitioning.for_platform(devices[0].platform)
        if not (self._is_here or self._computation.is_for(devices[0].platform)):
            refuse_to_run(module)
        if jax.process_count() > 1:
            processes.agree(str(module), executable_module.name_of(module), signature, devices, timeout_s)
        self._signature, self._devices = signature, devices
        inputs, outputs = lowered._given
        in_forms, out_forms = whole_forms(signature)
        mesh = lowered.mesh.mesh_of(devices)
        known, self._values = self._computation, arrays(signature.inputs)
        self._results = arrays(signature.outputs)
        self._inputs = [
            jax_value(value, form, aval, devices, wanted, mesh)
            for value, form, aval, wanted in zip(self._values, in_forms, known.in_avals, inputs, strict=True)
        ]
        outs = [
            jax_value(
                value,
                form,
                aval,
                devices,
                with_users_spec(value, wanted, zip(self._values, inputs, strict=True), aval),
                mesh,
            )
            for value, form, aval, wanted in zip(self._results, out_forms, known.out_avals, outputs, strict=True)
        ]
        self._calls = HostCalls(known.module, known.host_callbacks, devices)
        started = time.perf_counter()
        self._jax = self._compile(module, outs, compiler_options)
        self.compile_s = time.perf_counter() - started
        partitioning.keep(self.compile_s)
        jax_stages.make_compiled(self, lowered._lowered, self._jax)
        self._outputs = [
            result for result, ref in zip(outs, self._computation.ref_results(), strict=True) if ref is None
        ]
        self._check_serializable([*self._inputs, *outs])
        self._constants: Sequence[Any] = self._computation.const_args
        if self._is_here:
            self._constants = jax_stages.place_constants(self._jax, self._constants)
        kept, first = self._computation.kept_leaves(), len(self._constants)
        own = slice(first, first + len(kept))
        self._kept = dict(zip(kept, self._inputs[own], strict=True))
        self._layouts = dict(zip(kept, jax_stages.input_layouts(self._jax)[own], strict=True))
        self._kept_signature, self._kept_avals = self._values[own], list(known.in_avals)[own]
        types = jax.tree.leaves(jax_stages.types_of(self.args_info))
        self._unused = {leaf: aval for leaf, aval in enumerate(types) if leaf not in self._kept}
        self._refs = self._inputs[own.stop :]
        self._placed = [leaf for leaf, wanted in zip(kept, inputs[own], strict=True) if wanted.sharding is not None]

        self._donates = any(value.donated for value in self._kept_signature)
        self.pace = in_flight.pace(devices, lambda: self.flops)
        self._dispatched = jax_stages.dispatched(
            self._computation.name, weakly(self._by_itself), weakly(self._call_of_new_kind)
        )

    def _compile(self, module: ir.Module, outputs: Sequence[JaxValue], options: Options) -> Any:
        def compile_(module: ir.Module, options: Options = options) -> Any:
            with quiet():
                calls = self._calls.functions
                return self._computation.compile(module, self._devices, self._inputs, outputs, calls, options)

        compiler = "PJRT" if self._is_here else f"the compiler for '{self.machine.target}'"
        return ahead_of_time.compiled_by(compile_, module, lambda: self.partitioned, self.machine, options, compiler)

    def _check_serializable(self, values: Sequence[JaxValue]) -> None:
        """Refuse serialization by JAX, which would not convert values that have another form."""
        if any(not value.is_itself for value in values):
            hint = "save it by compiled.save(path), for gspmd.load_compiled"
            error = Unsupported("has a value that JAX cannot represent, such as an uneven one", hint=hint)
            jax_stages.refuse_to_serialize(self._jax, error)

    # ---- properties ----

    @property
    def partitioned(self) -> Partitioned:
        """The program of one device, as in `Lowered`."""
        return self._partitioning.partitioned

    @property
    def in_tree(self) -> Any:
        """The structure of `((positional, ...), {keyword: ...})`."""
        return self._in_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, of whole values."""
        return jax_stages.types_of(self.args_info)

    @property
    def out_info(self) -> Any:
        """The results as a pytree of `jax.ShapeDtypeStruct`s, with shardings if JAX can express them."""
        shardings = jax.tree.leaves(self.out_shardings, is_leaf=lambda leaf: leaf is None)
        known = [each if isinstance(each, jax.sharding.Sharding) else None for each in shardings]
        structs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
            for aval, sharding in zip(self._out_avals, known, strict=True)
        ]
        return jax.tree.unflatten(self.out_tree, structs)

    @functools.cached_property
    def executable(self) -> Executable:
        """The program as from `gspmd.compile`: arguments and results are `gspmd.ShardedArray`s, without a pytree."""
        return Executable(self._jax.xla_executable, self._signature, self._devices, "zero")

    @property
    def in_shardings(self) -> Any:
        """The shardings of the arguments, `((positional, ...), {keyword: ...})`, as `jax.sharding.NamedSharding`s.

        A sharding that JAX cannot express, such as an uneven one, is a `gspmd.Sharding`; None for an unused argument.
        """
        known = dict(zip(self._kept, zip(self._kept_signature, self._kept.values(), strict=True), strict=True))
        leaves = range(self.in_tree.num_leaves)
        found = [self._sharding(*known[leaf]) if leaf in known else None for leaf in leaves]
        return jax.tree.unflatten(self.in_tree, found)

    @property
    def out_shardings(self) -> Any:
        """The shardings of the results, in the same form."""
        refs = self._computation.ref_results()
        values = [value for value, ref in zip(self._results, refs, strict=True) if ref is None]
        found = [self._sharding(*known) for known in zip(values, self._outputs, strict=True)]
        return jax.tree.unflatten(self.out_tree, found)

    input_shardings, output_shardings = in_shardings, out_shardings

    def _sharding(self, value: ValueSignature, as_held: JaxValue) -> Any:
        return as_held.shown or api.Sharding(value.sharding)

    # ---- calls ----

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NamedLeaves:
        return list(zip(self._paths, self._leaves_of(args, kwargs), strict=True))

    def _donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[bool]:
        known = dict(zip(self._kept, self._kept_signature, strict=True))
        return [leaf in known and known[leaf].donated for leaf in range(self.in_tree.num_leaves)]

    def _call_of_new_kind(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Called by C++ for arguments of a new kind; returns the results, and the data for the next such call."""
        leaves = self._leaves_of(args, kwargs)
        results = self.run(leaves)
        return results, self.fast_call(leaves, results), False

    def _by_itself(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self._leaves_of(args, kwargs))

    def _leaves_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Errors: WrongType for arguments for which it was not compiled."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.in_tree:
            raise WrongType(
                f"compiled for arguments {self.in_tree}, called with {tree}",
                hint="static arguments are part of the program: leave them out",
            )
        if any(isinstance(leaf, jax_stages.Tracer) for leaf in leaves):
            raise WrongType(
                "a compiled function is called while JAX traces", hint="call the function from which it was compiled"
            )
        known = zip(self._kept, self._kept_signature, self._kept_avals, strict=True)
        for index, (leaf, value, aval) in enumerate(known):
            arguments.check(index, value, leaves[leaf], aval)
        for leaf, aval in self._unused.items():
            arguments.check_unused(f"argument '{self._paths[leaf]}', which is not used,", leaves[leaf], aval)
        return leaves

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call it with the leaves of its arguments.

        Errors: ExecutionError, as for programs of `gspmd.compile`, and for an array with another sharding than was
        specified by `in_shardings` or by the argument for which the function was lowered.
        """
        if not self._is_here:
            raise not_here("the function", self.machine.target)
        arguments.check_donation(self._kept_signature, [leaves[leaf] for leaf in self._kept])
        for leaf in self._placed:
            check_place(self._paths[leaf], leaves[leaf], self._kept[leaf])
        for leaf, layout in self._layouts.items():
            check_layout(self._paths[leaf], leaves[leaf], self._kept[leaf], layout)
        taken = list(leaves)
        for leaf, value in self._kept.items():
            taken[leaf] = value.taken(leaves[leaf])
        jax_stages.place_refs(zip(self._computation.refs, self._refs, strict=True))
        jax_stages.place_refs((leaves[leaf], value) for leaf, value in self._kept.items())
        try:
            with in_flight.turn(self._devices) as started:
                results = started(jax_stages.call(self._jax, self._constants, taken))
        except (JaxRuntimeError, RuntimeError, ValueError) as error:
            explanation = explained(error, list(zip(self._paths, leaves, strict=True)))
            if explanation is None:
                raise
            raise explanation from error
        if self._calls:
            jax.block_until_ready(results)
            jax.effects_barrier()
            self._calls.check()
        for leaf, described in zip(self._kept, self._kept_signature, strict=True):
            if described.donated and isinstance(leaves[leaf], jax.Array):
                leaves[leaf].delete()
        found = [
            array if result.given is None else result.given(array)
            for array, result in zip(results, self._outputs, strict=True)
        ]
        return jax.tree.unflatten(self.out_tree, found)

    def run_checking_keys(self, leaves: Sequence[Any]) -> Any:
        """`run` with the checks of `jax.debug_key_reuse`. Errors: KeyReuseError for a key that was used before."""

        def run(*leaves: Any, **_: Any) -> list[Any]:
            return jax.tree.leaves(self.run(leaves))

        return jax.tree.unflatten(self.out_tree, jax_stages.checking_keys(self._jaxpr, run, leaves))

    def fast_call(self, leaves: Sequence[Any], results: Any) -> Any:
        """The data by which C++ makes the next call like this one; None if it cannot."""
        if self._calls or not all(value.lies_right(leaves[leaf]) for leaf, value in self._kept.items()):
            return None
        as_is = all(value.given is None for value in (*self._outputs, *self._kept.values()))
        return jax_stages.fast_call(self._jax, self._constants, leaves, results) if as_is else None


def not_here(what: str, target: str) -> ExecutionError:
    """The error for a call of a function that is for the devices of a topology."""
    return ExecutionError(
        f"{what} is for '{target}', which is not here",
        hint="compile it by lower(...).compile(), or call it on a mesh of available devices",
        code=Code.OTHER_MACHINE,
    )


def _of_main(
    computation: Computation, mesh: DeviceMesh, inputs: ValueSpecs, outputs: ValueSpecs
) -> tuple[ValueSpecs, ValueSpecs]:
    """The specifications of the arguments and results of `@main`, including constants and mutable arrays."""
    known: ValueSpecs = [NO_SPEC] * len(computation.const_args)
    known += [inputs[leaf] for leaf in computation.kept_leaves()]
    known += [spec_of_ref(ref, mesh) for ref in computation.refs]
    typed = [NO_SPEC if s is None else spec_of_type(s, aval, mesh) for s, aval in computation.typed_results()]
    given = iter(outputs)
    results: ValueSpecs = []
    for ref, by_type in zip(computation.ref_results(), typed, strict=True):
        wanted = known[ref] if ref is not None else next(given)
        results.append(by_type if wanted == NO_SPEC and ref is None else wanted)
    return known, results


def spec_of_type(sharding: Any, aval: Any, mesh: DeviceMesh) -> ValueSpec:
    """The specification by the type of a value, if it has axes of type Explicit; axes of type Auto stay open."""
    wanted = spec_of_array(jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding), mesh)
    typed, kinds = wanted.sharding, dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_types, strict=True))
    if typed is None or AxisType.Auto not in kinds.values():
        return wanted
    unused = without(typed.mesh.all_axes(), typed.used_axes())
    kept = tuple(axis for axis in unused if kinds.get(axis.name) == AxisType.Explicit)
    dims = tuple(dataclasses.replace(dim, is_open=True) for dim in typed.dims)
    return dataclasses.replace(wanted, sharding=dataclasses.replace(typed, dims=dims, replicated=kept))


def annotated(
    computation: Computation, mesh: DeviceMesh, given: tuple[ValueSpecs, ValueSpecs], names: Sequence[str]
) -> ir.Module:
    """The module that JAX lowered, with the specifications of arguments and results and the names of arguments."""
    module = read_program(computation.module)
    with in_memory(module, bodies=False) as top:
        _annotate(top, computation, mesh, *given, names)
    return module


def _annotate(
    top: Operation,
    computation: Computation,
    mesh: DeviceMesh,
    inputs: ValueSpecs,
    outputs: ValueSpecs,
    names: Sequence[str],
) -> None:
    """Write the specifications of arguments and results, their names, and the mesh into the module."""
    func = main_function(top)
    tokens = computation.num_tokens
    for key, given, types, avals in zip(
        ("arg_attrs", "res_attrs"),
        (inputs, outputs),
        function_types(func),
        (computation.in_avals, computation.out_avals),
        strict=True,
    ):
        entries = dictionaries(func, key, len(types))
        for entry, wanted, type_, aval in zip(entries[tokens:], given, types[tokens:], avals, strict=True):
            _annotate_value(entry, wanted, type_, aval)
        if key == "arg_attrs":
            first = tokens + len(computation.const_args)
            for entry, name in zip(entries[first:], names, strict=False):
                entry[NAME] = ir.StringAttr.get(name)
        set_dictionaries(func, key, entries)
    count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.mesh.size)
    top.attributes["mhlo.num_partitions"] = count
    if not mesh_operations(top):
        named = dataclasses.replace(mesh.mesh, name="mesh")
        create_mesh(named, Point.at_begin(top.regions[0]), func.location)


def _annotate_value(entry: dict[str, ir.Attribute], wanted: ValueSpec, type_: TensorType, aval: Any) -> None:
    """Write the specification of one value into its attributes, in place of JAX's own."""
    entry.pop("mhlo.sharding", None)
    entry.pop("sdy.sharding", None)
    if wanted.sharding is not None:
        entry["sdy.sharding"] = inline_sharding(wanted.sharding, type_.rank)
    if wanted.memory_kind is not None:
        entry[MEMORY_KIND] = ir.StringAttr.get(wanted.memory_kind)
    if wanted.layout is not None:
        entry["mhlo.layout_mode"] = ir.StringAttr.get(jax_stages.layout_mode(wanted.layout, aval))

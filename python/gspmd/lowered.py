"""A function lowered by JAX, partitioned, compiled and called: values in and out are pytrees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jaxlib.mlir import ir

from gspmd import ahead_of_time, api, costs, explanation, machines, runtime
from gspmd.ahead_of_time import CompiledProgram
from gspmd.annotation import sdy_text
from gspmd.api import Partitioned
from gspmd.callbacks import refuse_callbacks
from gspmd.costs import CostReport
from gspmd.device_mesh import DeviceMesh
from gspmd.dialect.errors import UsageError
from gspmd.dialect.notation import print_mesh
from gspmd.dispatch import Dispatcher
from gspmd.explanation import Explanation
from gspmd.processes import TIMEOUT_S
from gspmd.reading import read_program
from gspmd.sharded_array import jax_can_hold, jax_sharding
from gspmd.transforms.support.mlir import main_function, new_context
from gspmd.transforms.support.signature import NAME, ValueSignature, dictionaries, set_dictionaries
from gspmd.transforms.support.target_file import is_topology
from gspmd.value_shardings import Given

# What `explain` takes of what `partition` does.
_EXPLAINED = ("replicate_unsupported", "custom_rules", "target", "options")


class Lowered:
    """A function lowered for arguments of known shapes, with what is said of its shardings."""

    def __init__(
        self,
        lowered: Any,
        mesh: DeviceMesh,
        inputs: Given,
        outputs: Given,
        in_tree: Any,
        results: Any,
        names: Sequence[str],
        options: dict[str, Any],
    ) -> None:
        self.mesh = mesh
        self.in_tree = in_tree
        self.out_info = results
        self._lowered, self._given, self._names = lowered, (inputs, outputs), names
        self._target = options.get("target", "")
        # Devices that are here say nothing of their speed.
        self._options = {**options, "target": ""} if machines.is_here(self._target) else options

    @functools.cached_property
    def program(self) -> ir.Module:
        """The annotated module that is partitioned: StableHLO for one device, with shardings."""
        module = read_program(self._lowered, new_context())
        with module.context:
            refuse_callbacks(module)
            _annotate(module, self.mesh, *self._given, self._names)
        return module

    def as_text(self) -> str:
        """The annotated module, with places in the source."""
        return str(self.program.operation.get_asm(enable_debug_info=True))

    @functools.cached_property
    def partitioned(self) -> Partitioned:
        """The program of one device: its text, shardings, collectives and, by `gspmd.cost`, what it costs.

        Errors: as `gspmd.partition`.
        """
        return api.partition(self.program, **self._options)

    def cost(self, target: str | None = None) -> CostReport:
        """What a step costs on a target, by default the one that it was partitioned for. Errors: as `gspmd.cost`."""
        target = self._options.get("target", "") if target is None else target
        return costs.cost(self.partitioned, target=target, original=self.program)

    def explain(self) -> Explanation:
        """Why values are sharded as they are, and what conflicts cost. Errors: as `gspmd.explain`."""
        options = {name: self._options[name] for name in _EXPLAINED if name in self._options}
        return explanation.explain(self.program, **options)

    def compile(self, devices: Sequence[Any] | None = None, *, timeout_s: float = TIMEOUT_S) -> Any:
        """A `Compiled`, ready to run on the given devices, by default those of the mesh or the target.

        For a target that is a topology, as `tpu:v5p:8x8x8`, the `CompiledProgram` of `compile_for`. `timeout_s` and
        errors: as for `gspmd.compile`.
        """
        if devices is None and is_topology(self._target):
            return self.compile_for(self._target)
        executable = runtime.compile(self.partitioned, self._devices(devices), timeout_s=timeout_s)
        return Compiled(self.partitioned, executable, self.in_tree, self.out_info)

    def compile_for(
        self, target: str, compiler_options: Mapping[str, str | int | float | bool] | None = None
    ) -> CompiledProgram:
        """Partitioned and compiled for a machine that need not be here, as `gspmd.compile_for` says."""
        if target == self._target:
            return ahead_of_time.compile_for(self.partitioned, target, compiler_options=compiler_options)
        options = {name: value for name, value in self._options.items() if name != "target"}
        return ahead_of_time.compile_for(self.program, target, compiler_options=compiler_options, **options)

    def _devices(self, devices: Sequence[Any] | None) -> tuple[Any, ...]:
        if devices is not None:
            return tuple(devices)
        if not machines.is_here(self._target):
            return self.mesh.here()
        if self.mesh.devices is None:
            return machines.machine(self._target, self.mesh.mesh).devices
        platform = self.mesh.devices[0].platform
        if platform != self._target.partition(":")[0]:
            raise UsageError(f"the mesh has {platform} devices, the target is '{self._target}'")
        return self.mesh.devices


class Compiled:
    """A partitioned function on its devices. Called as the function, without static arguments."""

    def __init__(self, partitioned: Partitioned, executable: runtime.Executable, in_tree: Any, out_info: Any) -> None:
        self.partitioned = partitioned
        self.executable = executable
        self.in_tree = in_tree
        out_avals, self.out_tree = jax.tree.flatten(out_info)
        self._dispatch = Dispatcher(executable, out_avals)

    @property
    def in_shardings(self) -> Any:
        """`((positional, ...), {keyword: ...})` of `jax.sharding.NamedSharding`, to put arguments in place with.

        Where JAX has none, as for uneven shards, of `gspmd.Sharding`.
        """
        return jax.tree.unflatten(self.in_tree, self._shardings(self.executable.signature.inputs))

    @property
    def out_shardings(self) -> Any:
        """The same of the results."""
        return jax.tree.unflatten(self.out_tree, self._shardings(self.executable.signature.outputs))

    def _shardings(self, values: Sequence[ValueSignature]) -> list[Any]:
        devices = self.executable.devices
        return [
            jax_sharding(v.sharding, devices) if jax_can_hold(v.sharding, v.shape) else api.Sharding(v.sharding)
            for v in values
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.in_tree:
            raise UsageError(
                f"compiled for arguments {self.in_tree}, called with {tree}",
                hint="static arguments are part of the program: leave them out",
            )
        return self.run(leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call it with the leaves of its arguments."""
        return jax.tree.unflatten(self.out_tree, self._dispatch(leaves))


def _annotate(module: ir.Module, mesh: DeviceMesh, inputs: Given, outputs: Given, names: Sequence[str]) -> None:
    """Write shardings of arguments and results, names, and the mesh into what JAX lowered for one device."""
    func = main_function(module)
    for key, given, types in (
        ("arg_attrs", inputs, func.type.inputs),
        ("res_attrs", outputs, func.type.results),
    ):
        entries = dictionaries(func, key, len(types))
        for entry, sharding, type_ in zip(entries, given, types, strict=True):
            if sharding is not None:
                text = sdy_text(sharding, ir.RankedTensorType(type_).rank)
                entry["sdy.sharding"] = ir.Attribute.parse(text)
        if key == "arg_attrs":
            for entry, name in zip(entries, names, strict=True):
                entry[NAME] = ir.StringAttr.get(name)
        set_dictionaries(func, key, entries)
    count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.mesh.size)
    module.operation.attributes["mhlo.num_partitions"] = count
    if not any(op.operation.name == "sdy.mesh" for op in module.body):
        attributes = {
            "sym_name": ir.StringAttr.get("mesh"),
            "mesh": ir.Attribute.parse(f"#sdy.mesh{print_mesh(mesh.mesh)}"),
        }
        ir.Operation.create(
            "sdy.mesh", attributes=attributes, ip=ir.InsertionPoint.at_block_begin(module.body), loc=func.location
        )

"""A function lowered by JAX, partitioned, compiled and called: values in and out are pytrees of arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from gspmd import api, runtime
from gspmd.annotation import sdy_text
from gspmd.api import Partitioned
from gspmd.device_mesh import DeviceMesh
from gspmd.dialect.errors import UsageError
from gspmd.dialect.notation import print_mesh
from gspmd.dtypes import numpy_dtype
from gspmd.reading import read_program
from gspmd.sharded_array import ShardedArray, jax_can_hold, jax_sharding
from gspmd.transforms.support.mlir import main_function, new_context
from gspmd.transforms.support.signature import ValueSignature, dictionaries, set_dictionaries
from gspmd.value_shardings import Given


class Lowered:
    """A function lowered for arguments of known shapes, with what is said of its shardings."""

    def __init__(
        self, lowered: Any, mesh: DeviceMesh, inputs: Given, outputs: Given, in_tree: Any, options: dict[str, Any]
    ) -> None:
        self.mesh = mesh
        self.in_tree = in_tree
        self.out_info = lowered.out_info
        self._lowered, self._given, self._options = lowered, (inputs, outputs), options

    @functools.cached_property
    def program(self) -> ir.Module:
        """The annotated module that is partitioned: StableHLO for one device, with shardings."""
        module = read_program(self._lowered, new_context())
        with module.context:
            _annotate(module, self.mesh, *self._given)
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

    def compile(self, devices: Sequence[Any] | None = None) -> Compiled:
        """Ready to run, on the mesh's devices or the given ones. Errors: as `gspmd.compile`."""
        chosen = self.mesh.here() if devices is None else tuple(devices)
        return Compiled(self.partitioned, runtime.compile(self.partitioned, chosen), self.in_tree, self.out_info)


class Compiled:
    """A partitioned function on its devices. Called as the function, without static arguments."""

    def __init__(self, partitioned: Partitioned, executable: runtime.Executable, in_tree: Any, out_info: Any) -> None:
        self.partitioned = partitioned
        self.executable = executable
        self.in_tree = in_tree
        self._out_avals, self.out_tree = jax.tree.flatten(out_info)

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
            raise UsageError(f"compiled for arguments {self.in_tree}, called with {tree}")
        return self.run(leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call it with the leaves of its arguments."""
        inputs = self.executable.signature.inputs
        results = self.executable(*map(_argument, leaves, inputs))
        return jax.tree.unflatten(self.out_tree, map(_result, results, self._out_avals))


def _annotate(module: ir.Module, mesh: DeviceMesh, inputs: Given, outputs: Given) -> None:
    """Write shardings of arguments and results, and the mesh, into what JAX lowered for one device."""
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


def _argument(leaf: Any, value: ValueSignature) -> Any:
    """A leaf as the runtime takes it: random keys as their bits, host values as arrays of the expected type."""
    if isinstance(leaf, ShardedArray):
        return leaf
    if isinstance(leaf, jax.Array):
        return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return np.asarray(leaf, numpy_dtype(value.element_type))


def _result(array: ShardedArray, aval: Any) -> Any:
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(aval.shape, aval.dtype)
    if not jax_can_hold(array.sharding, array.shape):
        return array
    found = array.to_jax()
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(found, impl=aval.dtype._impl.name)  # JAX names it on arrays only
    return found

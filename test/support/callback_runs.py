"""Runs partitioned programs that call Python, by handing JAX's host callbacks to PJRT directly.

What is tested this way is the partitioned module alone, without the front end that users call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib import _jax

import gspmd
from gspmd.dialect.notation import parse_mesh
from gspmd.runtime import arguments, executable_module, placing
from gspmd.runtime import executable as runtime
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.runtime.manual_program import whole_forms
from gspmd.transforms.ir.signature import ValueSignature, arrays


def lower(function: Any, *args: Any) -> Any:
    """What JAX lowers the function to for one device."""
    return jax.jit(function, keep_unused=True).lower(*args)


def annotated(lowered: Any, mesh: str, shardings: Sequence[str]) -> str:
    """The lowered function over a mesh (`<["x"=4, "y"=2]>`), with shardings of its arguments (`{"x"}, {}`).

    Tokens come before the arguments of the function and have no sharding.
    """
    text = str(lowered.as_text())
    if "sdy.mesh @mesh =" not in text:
        text = text.replace("{\n", f"{{\n  sdy.mesh @mesh = {mesh}\n", 1)
    count = f"mhlo.num_partitions = {parse_mesh(mesh, 'mesh').size}"
    text = text.replace("mhlo.num_partitions = 1", count, 1)
    head, start, rest = text.partition("func.func public @main(")
    given, end, rest = rest.partition(") -> ")
    tokens = len(lowered._lowering.compile_args["ordered_effects"])
    for index, sharding in enumerate(shardings, start=tokens):
        before, name, after = given.partition(f"%arg{index}: ")
        type_, close, others = after.partition(">")
        given = f"{before}{name}{type_}{close} {{sdy.sharding = #sdy.sharding<@mesh, [{sharding}]>}}{others}"
    return f"{head}{start}{given}{end}{rest}"


class Run:
    """A program partitioned and compiled for the first virtual devices, with the functions that it calls by number."""

    def __init__(self, program: str, callbacks: Sequence[Callable[..., Any]], **options: Any) -> None:
        self.partitioned = gspmd.partition(program, **options)
        module, signature = executable_module.read_partitioned(self.partitioned.module)
        self._devices = tuple(jax.devices("cpu")[: signature.num_partitions])
        with module.context, runtime.quiet():
            self._loaded = self._devices[0].client.compile_and_load(
                module,
                _jax.DeviceList(self._devices),
                runtime.compile_options(self._devices),
                host_callbacks=list(callbacks),
            )
        self._inputs, self._outputs = arrays(signature.inputs), arrays(signature.outputs)
        self._tokens = len(signature.inputs) - len(self._inputs)
        self._forms = whole_forms(signature)

    def __call__(self, *args: Any) -> list[Any]:
        """The results of one run, as numpy arrays, when all its effects are done."""
        inputs = [self._token() for _ in range(self._tokens)]
        for index, (value, form, arg) in enumerate(zip(self._inputs, self._forms[0], args, strict=True)):
            placed = arguments.place(index, value, arg, self._devices, "nan")
            inputs.append(placing.as_passed(placed, form, self._devices))
        results = self._loaded.execute_sharded(inputs, with_tokens=True)
        results.consume_with_handlers([lambda buffers: buffers] * self._tokens, strict=False)
        effects = results.consume_token()
        handlers = [functools.partial(self._result, value) for value in self._outputs]
        values = [value.to_numpy() for value in results.consume_with_handlers(handlers)]
        for number in range(len(self._loaded.local_devices())):
            effects.get_token(number).block_until_ready()
        return values

    def _result(self, value: ValueSignature, buffers: Sequence[jax.Array]) -> gspmd.ShardedArray:
        dtype = numpy_dtype(value.element_type)
        return placing.from_buffers(value.shape, dtype, value.sharding, self._devices, buffers)

    def _token(self) -> jax.Array:
        nothing = [jax.device_put(np.zeros(0, bool), device) for device in self._loaded.local_devices()]
        mesh = jax.sharding.Mesh(np.array(self._devices, object), ("partition",))
        return jax.make_array_from_single_device_arrays((0,), NamedSharding(mesh, PartitionSpec()), nothing)


def compiled(function: Any, mesh: str, shardings: Sequence[str], *args: Any, **options: Any) -> Run:
    """A function that JAX lowers, with what it calls."""
    lowered = lower(function, *args)
    callbacks = lowered._lowering.compile_args["host_callbacks"]
    return Run(annotated(lowered, mesh, shardings), callbacks, **options)

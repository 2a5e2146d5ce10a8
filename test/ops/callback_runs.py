"""Runs partitioned programs that call Python, by handing JAX's host callbacks to PJRT directly.

What is tested this way is the partitioned module alone, without the front end that users call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir

import gspmd
from gspmd import executable_module, runtime
from gspmd.dialect.notation import parse_mesh
from gspmd.transforms.support.mlir import main_function
from gspmd.transforms.support.signature import read_signature


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
    arguments, end, rest = rest.partition(") -> ")
    tokens = len(lowered._lowering.compile_args["ordered_effects"])
    for index, sharding in enumerate(shardings, start=tokens):
        before, name, after = arguments.partition(f"%arg{index}: ")
        type_, close, others = after.partition(">")
        arguments = f"{before}{name}{type_}{close} {{sdy.sharding = #sdy.sharding<@mesh, [{sharding}]>}}{others}"
    return f"{head}{start}{arguments}{end}{rest}"


class Run:
    """A program partitioned and compiled for the first virtual devices, with the functions that it calls by number."""

    def __init__(self, program: str, callbacks: Sequence[Callable[..., Any]], **options: Any) -> None:
        self.partitioned = gspmd.partition(program, **options)
        signature = self.partitioned.signature
        devices = tuple(jax.devices("cpu")[: signature.num_partitions])
        module = _as_manual_computation(self.partitioned)
        with module.context, runtime.quiet():
            self._loaded = devices[0].client.compile_and_load(
                module,
                _jax.DeviceList(devices),
                runtime.compile_options(devices, use_shardy=True),
                host_callbacks=list(callbacks),
            )
        self._executable = runtime.Executable(self._loaded, signature, devices, "nan")
        self._tokens = [value.is_token for value in signature.inputs].count(True)

    def __call__(self, *args: Any) -> list[Any]:
        """The results of one run, as numpy arrays, when all its effects are done."""
        executable, tokens = self._executable, self._tokens
        inputs = [self._token() for _ in range(tokens)]
        inputs += [executable.input(tokens + index, arg) for index, arg in enumerate(args)]
        results = self._loaded.execute_sharded(inputs, with_tokens=True)
        results.consume_with_handlers([lambda buffers: buffers] * tokens, strict=False)
        effects = results.consume_token()
        handlers = [
            functools.partial(executable.result, index) for index in range(tokens, len(executable.signature.outputs))
        ]
        values = [value.to_numpy() for value in results.consume_with_handlers(handlers)]
        for number in range(len(self._loaded.local_devices())):
            effects.get_token(number).block_until_ready()
        return values

    def _token(self) -> jax.Array:
        nothing = [jax.device_put(np.zeros(0, bool), device) for device in self._loaded.local_devices()]
        return jax.make_array_from_single_device_arrays((0,), self._executable._per_device, nothing)


def _as_manual_computation(partitioned: gspmd.Partitioned) -> ir.Module:
    """The partitioned program as the body of a computation over one manual axis, as `shard_map` lowers to.

    Arguments and results are said to be replicated: they have the types of one device, whatever is in them.
    """
    module = executable_module.read_module(partitioned.module_text)
    signature = read_signature(module)
    function = main_function(module)
    types, attributes = function.type, function.operation.attributes
    with module.context:
        attributes["sym_name"] = ir.StringAttr.get("body")
        attributes["sym_visibility"] = ir.StringAttr.get("private")
    for key in ("arg_attrs", "res_attrs"):
        if key in attributes:
            del attributes[key]
    ins, outs = (", ".join(map(str, found)) for found in (types.inputs, types.results))
    count, made = len(types.inputs), len(types.results)
    taken, inner = (", ".join(f"%{name}{i}: {t}" for i, t in enumerate(types.inputs)) for name in "ab")
    given, handed = (", ".join(f"%{name}{i}" for i in range(count)) for name in "ab")
    called, returned = (", ".join(f"%{name}#{i}" for i in range(made)) for name in "cr")
    text = f"""
      module @program attributes {{mhlo.num_partitions = {signature.num_partitions} : i32}} {{
        sdy.mesh @devices = <["p"={signature.num_partitions}]>
        func.func public @main({taken}) -> ({outs}) {{
          {"%r:" + str(made) + " = " if made else ""}sdy.manual_computation({given})
              in_shardings=[{_whole(types.inputs)}] out_shardings=[{_whole(types.results)}]
              manual_axes={{"p"}} ({inner}) {{
            {"%c:" + str(made) + " = " if made else ""}func.call @body({handed}) : ({ins}) -> ({outs})
            sdy.return {called + " : " + outs if made else ""}
          }} : ({ins}) -> ({outs})
          return {returned + " : " + outs if made else ""}
        }}
        {function!s}
      }}"""
    return executable_module.read_module(text)


def _whole(types: Sequence[ir.Type]) -> str:
    """Shardings that split nothing."""
    ranks = [ir.RankedTensorType(t).rank if isinstance(t, ir.RankedTensorType) else 0 for t in types]
    return ", ".join(f"<@devices, [{', '.join(['{}'] * rank)}]>" for rank in ranks)


def compiled(function: Any, mesh: str, shardings: Sequence[str], *args: Any, **options: Any) -> Run:
    """A function that JAX lowers, with what it calls."""
    lowered = lower(function, *args)
    callbacks = lowered._lowering.compile_args["host_callbacks"]
    return Run(annotated(lowered, mesh, shardings), callbacks, **options)

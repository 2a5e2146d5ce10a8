"""Kernels on a GPU: what `gspmd.jit` makes of programs with Pallas, Triton, cuDNN and FFI calls must be right there.

Run as `python test/gpu_kernels.py [--only NAME ..] [--anywhere]` where JAX has a GPU. Each program is run twice. First
over a mesh of the GPUs that are there, and is compared with what `jax.jit` makes of the same function without kernels.
Then it is partitioned for eight GPUs: the program of one device is compiled once and run for each of the eight in
turn, on one GPU, with its shards of the arguments, and the results are put together. So only programs that send nothing
have a second run; of the others the program of eight devices is compiled. The exit code is 1 if something is wrong.
`--anywhere` runs on CPUs what needs no GPU: Pallas kernels are then interpreted.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax
from jaxlib.mlir import ir

import gspmd
from gspmd.comparisons.peers import peer_options
from gspmd.transforms.parsing.mlir import new_context, parse_module

P = PartitionSpec
_AXES = ("data", "model")
_EIGHT = (4, 2)
_ON_CPUS = "--anywhere" in sys.argv


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of global arrays that calls a kernel on what a device has, and the same function without it.

    `specs` are those of the arguments, `out` that of all results; `arguments` are made from a seed. `wide` is the
    largest difference that counts as rounding, relative to the largest expected value. `sends` says that the program
    of eight devices has collectives. `interpreted` says that it runs without a GPU, too.
    """

    kernel: Callable[..., Any]
    plain: Callable[..., Any]
    specs: tuple[Any, ...]
    out: Any
    shapes: tuple[tuple[int, ...], ...]
    dtype: Any = jnp.float32
    wide: float = 1e-5
    sends: bool = False
    interpreted: bool = False

    def arguments(self) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(0)
        return [np.asarray(rng.normal(size=shape), np.float32).astype(self.dtype) for shape in self.shapes]


def mapped(kernel: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[[Mesh], Callable[..., Any]]:
    """The kernel in a computation that is manual over all axes of a mesh, which is given later."""
    return lambda mesh: jax.shard_map(kernel, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def _scaled(x: jax.Array, y: jax.Array) -> jax.Array:
    """A Pallas kernel of our own, a block for each row of blocks, as Triton compiles it."""

    def body(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * jnp.exp(y_ref[...])

    rows = pallas.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pallas.pallas_call(
        body,
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[rows, rows],
        out_specs=rows,
        interpret=_ON_CPUS,
        **_by_triton(),
    )(x, y)


def _by_triton() -> dict[str, Any]:
    if _ON_CPUS:
        return {}
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=4)}


def _tripled(x: jax.Array) -> jax.Array:
    """A Pallas kernel of our own for the tensor memory of Hopper GPUs, by Mosaic."""
    from jax.experimental.pallas import mosaic_gpu

    def body(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] * 3.0

    return pallas.pallas_call(
        body, jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=mosaic_gpu.CompilerParams()
    )(x)


def _flash(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """JAX's own flash attention for GPUs, a Pallas kernel that Triton compiles."""
    from jax.experimental.pallas.ops.gpu.attention import mha

    return mha(q, k, v, segment_ids=None, causal=True)


def _by_cudnn(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def _by_xla(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla")


def _unscaled(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla", scale=1.0)


def _gradients(attend: Callable[..., Any]) -> Callable[..., Any]:
    def of(*given: jax.Array) -> Any:
        return jax.grad(lambda *qkv: (attend(*qkv).astype(jnp.float32) ** 2).sum(), (0, 1, 2))(*given)

    return of


def _step(attend: Callable[..., Any], x: jax.Array, w: jax.Array, o: jax.Array) -> Any:
    """The gradients of a block of attention, whose weights are split as in tensor parallelism."""

    def loss(w: jax.Array, o: jax.Array) -> jax.Array:
        q, k, v = jnp.einsum("bsd,pdhe->pbshe", x, w)
        return (jnp.einsum("bshe,hed->bsd", attend(q, k, v), o).astype(jnp.float32) ** 2).mean()

    return jax.grad(loss, (0, 1))(w, o)


def _eigenvalues(x: jax.Array) -> jax.Array:
    return jnp.linalg.eigvalsh(x @ x.mT)


_HEADS = P("data", None, "model")
_QKV = ((8, 256, 4, 64),) * 3
_WEIGHTS = P(None, None, "model"), P("model")


def _attention(
    kernel: Callable[..., Any],
    plain: Callable[..., Any],
    dtype: Any,
    *,
    with_gradients: bool = False,
    is_manual: bool = True,
) -> Case:
    """Attention over split batches and heads, or its gradients, in a manual computation or as the kernel splits it."""
    all_three, out, wide = (_HEADS,) * 3, _HEADS, 2e-2
    if with_gradients:
        kernel, plain, out, wide = _gradients(kernel), _gradients(plain), all_three, 3e-2
    made = mapped(kernel, _HEADS, out) if is_manual else lambda mesh: kernel
    return Case(made, plain, all_three, out, _QKV, dtype, wide)


def _block(mesh: Mesh) -> Callable[..., Any]:
    return functools.partial(_step, mapped(_by_cudnn, _HEADS, _HEADS)(mesh))


CASES = {
    "triton": Case(
        mapped(_scaled, P("data", "model"), P("data", "model")),
        lambda x, y: x * jnp.exp(y),
        (P("data", "model"),) * 2,
        P("data", "model"),
        ((64, 256),) * 2,
        interpreted=True,
    ),
    "mosaic": Case(mapped(_tripled, P("data"), P("data")), lambda x: x * 3.0, (P("data"),), P("data"), ((512, 128),)),
    "flash attention": _attention(_flash, _unscaled, jnp.float16),
    "gradients of flash attention": _attention(_flash, _unscaled, jnp.float16, with_gradients=True),
    "cuDNN": _attention(_by_cudnn, _by_xla, jnp.bfloat16),
    "gradients of cuDNN": _attention(_by_cudnn, _by_xla, jnp.bfloat16, with_gradients=True),
    "cuDNN by its own partitioning": _attention(_by_cudnn, _by_xla, jnp.bfloat16, is_manual=False),
    "gradients of cuDNN by its own partitioning": _attention(
        _by_cudnn, _by_xla, jnp.bfloat16, with_gradients=True, is_manual=False
    ),
    "FFI calls of cuSOLVER": Case(
        mapped(_eigenvalues, P(("data", "model")), P(("data", "model"))),
        _eigenvalues,
        (P(("data", "model")),),
        P(("data", "model")),
        ((16, 24, 24),),
        wide=1e-4,
        interpreted=True,
    ),
    "cuDNN in a training step": Case(
        _block,
        functools.partial(_step, _by_xla),
        (P("data"), *_WEIGHTS),
        _WEIGHTS,
        ((8, 128, 256), (3, 256, 4, 64), (4, 64, 256)),
        jnp.bfloat16,
        4e-2,
        sends=True,
    ),
}


def wrong(case: Case) -> list[str]:
    """What is wrong: with the results over the GPUs that are there, and of eight devices."""
    given = case.arguments()
    expected = [np.asarray(each, np.float64) for each in jax.tree.leaves(jax.jit(case.plain)(*given))]
    here = np.array(jax.devices()[: len(jax.devices()) // 2 * 2 or 1]).reshape(-1, 1)
    found = jax.tree.leaves(_jitted(case, _mesh(here))(*given))
    bad = _different("over what is there", found, expected, case.wide)
    if _ON_CPUS:
        eight = np.array(jax.devices()[:8])
    else:
        from jax.experimental import topologies

        topology = topologies.get_topology_desc(platform="cuda", topology_name="gpus", topology="1x1x8")
        eight = np.array(topology.devices)
    mesh = _mesh(eight.reshape(_EIGHT))
    lowered = _jitted(case, mesh).lower(*given)
    lowered.compile()
    text = lowered.partitioned.module_text
    if case.sends:
        return bad if "all_reduce" in text else [*bad, "the program of eight devices sends nothing"]
    found = _shard_by_shard(case, mesh, text, given, [each.shape for each in expected])
    return bad + _different("shard by shard", found, expected, case.wide)


def _mesh(devices: np.ndarray[Any, Any]) -> Mesh:
    return Mesh(devices, _AXES, axis_types=(AxisType.Auto,) * 2)


def _jitted(case: Case, mesh: Mesh) -> Any:
    over = functools.partial(jax.tree.map, functools.partial(NamedSharding, mesh))
    return gspmd.jit(case.kernel(mesh), in_shardings=over(case.specs), out_shardings=over(case.out))


def _shard_by_shard(
    case: Case, mesh: Mesh, text: str, given: list[Any], shapes: list[tuple[int, ...]]
) -> list[np.ndarray[Any, Any]]:
    """The results of the program of one device, which is run for each of the mesh, one after the other."""
    over = functools.partial(jax.tree.map, functools.partial(NamedSharding, mesh))
    run = _alone(text)
    where_in = [s.devices_indices_map(x.shape) for s, x in zip(over(case.specs), given, strict=True)]
    where_out = [s.devices_indices_map(shape) for s, shape in zip(jax.tree.leaves(over(case.out)), shapes, strict=True)]
    whole = [np.full(shape, np.nan) for shape in shapes]
    for at in mesh.devices.flat:
        shards = [jax.device_put(np.ascontiguousarray(x[where[at]])) for x, where in zip(given, where_in, strict=True)]
        results = run.execute_sharded(shards).disassemble_into_single_device_arrays()
        for i, (part,) in enumerate(results):
            whole[i][where_out[i][at]] = part
    return whole


def _alone(text: str) -> Any:
    """The program of one device of many, which sends nothing, compiled for a device that is alone."""
    module = parse_module(text, new_context())
    with module.context:
        module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
        for operation in module.body.operations:
            for name in ("arg_attrs", "res_attrs"):
                if name in operation.attributes:
                    del operation.attributes[name]
        device = jax.devices()[0]
        options = peer_options((device,), use_shardy=True)
        return device.client.compile_and_load(module, _jax.DeviceList((device,)), options)


def _different(where: str, found: list[Any], expected: list[Any], wide: float) -> list[str]:
    bad = []
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        off = np.abs(np.asarray(one, np.float64) - other).max() / np.abs(other).max()
        if not off <= wide:
            bad.append(f"result {i} {where} differs by {off:.2g} of its largest value")
    return bad


def main() -> int:
    options = _parse()
    print(f"{jax.devices()[0].device_kind}, {len(jax.devices())} of them; jax {jax.__version__}", flush=True)
    failures = 0
    for name, case in CASES.items():
        if (options.only and name not in options.only) or (_ON_CPUS and not case.interpreted):
            continue
        try:
            bad = wrong(case)
        except Exception as error:  # noqa: BLE001  the other cases still say something
            bad = [f"{type(error).__name__}: {str(error)[:1500]}"]
            if options.traceback:
                traceback.print_exc()
        print(f"{name}: {'; '.join(bad) or 'right'}", flush=True)
        failures += bool(bad)
    return 1 if failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help="some programs only")
    parser.add_argument("--traceback", action="store_true", help="print where errors come from")
    parser.add_argument("--anywhere", action="store_true", help="run without a GPU what needs none")
    return parser.parse_args()


if __name__ == "__main__":
    if _ON_CPUS:
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    sys.exit(main())

"""Small programs around the kernels and the ways to partition by hand that JAX programs use."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

MESH = {"d": 4, "t": 2}
BATCH, HEADS, SEQUENCE, HEAD_SIZE, MODEL, EXPERTS, HIDDEN = 8, 4, 256, 128, 128, 4, 256
_CALLS = 4


@dataclasses.dataclass(frozen=True)
class Program:
    """A function that `make` is the name of, over 8 CPU devices or compiled for the devices of `target`.

    On CPUs its kernels are run by JAX's interpreter of TPUs if they are `interpreted` and cannot say so themselves.
    """

    make: str
    target: str = ""
    interpreted: bool = False
    tolerance: float = 1e-5


_NAMES = {
    "flash attention": "_flash",
    "splash attention": "_splash",
    "paged attention": "_paged",
    "megablox": "_megablox",
    "Tokamax attention": "_tokamax",
    "custom_partitioning": "_custom_partitioning",
    "torchax": "_torchax",
}
_INTERPRETED = ("_flash", "_paged")
PROGRAMS: dict[str, Program] = {
    f"{name}, 8 CPU devices": Program(make, interpreted=make in _INTERPRETED) for name, make in _NAMES.items()
}
# Tokamax looks for a TPU in the process and finds none; its kernels are in MaxText's ring of contexts.
_ONLY_HERE = ("_tokamax", "_torchax")
PROGRAMS |= {
    f"{name}, v5e:2x4": Program(make, "tpu:v5e:2x4") for name, make in _NAMES.items() if make not in _ONLY_HERE
}


def measure(program: Program, how: str) -> dict[str, Any]:
    """What the function gives where it can be called, and what it sends, holds, computes and takes."""
    import ahead_of_time
    import training

    (ahead_of_time if program.target else training).prepare()
    import contextlib
    import time

    import jax
    import numpy as np
    from figures import figures
    from jax.experimental.pallas import tpu as pltpu
    from watching import Watch, check_made_by

    started = time.perf_counter()
    devices = _devices(program.target) if program.target else jax.devices()
    auto = (jax.sharding.AxisType.Auto,) * len(MESH)
    mesh = jax.sharding.Mesh(np.array(devices).reshape(*MESH.values()), tuple(MESH), axis_types=auto)
    fun, shapes, specs = globals()[program.make](mesh, bool(program.target))
    placed = [
        jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=jax.sharding.NamedSharding(mesh, spec))
        for shape, spec in zip(shapes, specs, strict=True)
    ]
    watch = Watch(how, lambda results: float(results[0] if isinstance(results, tuple) else results))
    step = watch.jit(fun, in_shardings=tuple(shape.sharding for shape in placed))
    interpreted = pltpu.force_tpu_interpret_mode() if program.interpreted else contextlib.nullcontext()
    with jax.set_mesh(mesh), interpreted:
        step.lower(*placed).compile()
        for _ in range(0 if program.target else _CALLS):
            step(*(_filled(shape) for shape in placed))
    (record,) = watch.records
    check_made_by(how, record.compiled)
    found = {
        "run_s": time.perf_counter() - started,
        "call_s": record.call_s,
        "lower_s": record.lower_s,
        "partition_s": record.partition_s,
        "compile_s": record.compile_s,
        **figures(record.compiled),
    }
    if program.target:
        return found | ahead_of_time.estimate(record.compiled.as_text(), program.target, devices)
    return found | {"values": record.results}


def _devices(target: str) -> list[Any]:
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(platform="tpu", topology_name=target.removeprefix("tpu:"))
    return list(topology.devices)


def _filled(shape: Any) -> Any:
    """An array of small numbers that differ; of integers as many as there are places in the last dimension."""
    import jax
    import numpy as np

    count = int(np.prod(shape.shape))
    if np.issubdtype(shape.dtype, np.integer):
        values = np.arange(count, dtype=shape.dtype).reshape(shape.shape) % max(1, SEQUENCE // 64)
        return jax.device_put(values + (64 if shape.ndim == 1 else 0), shape.sharding)
    return jax.device_put(np.sin(np.arange(count)).reshape(shape.shape).astype(shape.dtype), shape.sharding)


Made = tuple[Callable[..., Any], list[Any], list[Any]]


def _array(*shape: int, dtype: str = "float32") -> Any:
    import jax

    return jax.ShapeDtypeStruct(shape, dtype)


def _attention_layer(mesh: Any, attend: Callable[..., Any]) -> Made:
    """A step of gradients through attention over heads on `t` and examples on `d`; `attend` is for one device."""
    import jax
    import jax.numpy as jnp
    from jax import P

    heads = P("d", "t")

    def loss(query: Any, key: Any, value: Any, out: Any, x: Any) -> Any:
        q, k, v = (jnp.einsum("bsm,mhk->bhsk", x, weight) for weight in (query, key, value))
        attended = jax.shard_map(attend, mesh=mesh, in_specs=(heads,) * 3, out_specs=heads, check_vma=False)(q, k, v)
        return jnp.square(jnp.einsum("bhsk,hkm->bsm", attended, out)).mean()

    weight, back = _array(MODEL, HEADS, HEAD_SIZE), _array(HEADS, HEAD_SIZE, MODEL)
    specs = [P("d", "t")] * 3 + [P("t", None, "d"), P("d")]
    return (
        jax.value_and_grad(loss, argnums=(0, 1, 2, 3)),
        [weight, weight, weight, back, _array(BATCH, SEQUENCE, MODEL)],
        specs,
    )


def _flash(mesh: Any, on_tpu: bool) -> Made:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    return _attention_layer(mesh, functools.partial(flash_attention, causal=True, sm_scale=HEAD_SIZE**-0.5))


def _splash(mesh: Any, on_tpu: bool) -> Made:
    import jax
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    def attend(q: Any, k: Any, v: Any) -> Any:
        mask = splash.MultiHeadMask([splash.CausalMask((SEQUENCE, SEQUENCE))] * q.shape[1])
        kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, interpret=not on_tpu)
        return jax.vmap(kernel)(q * HEAD_SIZE**-0.5, k, v)

    return _attention_layer(mesh, attend)


def _tokamax(mesh: Any, on_tpu: bool) -> Made:
    import jax.numpy as jnp
    import tokamax

    def attend(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (jnp.swapaxes(each, 1, 2) for each in (q, k, v))
        attended = tokamax.dot_product_attention(q, k, v, is_causal=True, implementation="xla")
        return jnp.swapaxes(attended, 1, 2)

    return _attention_layer(mesh, attend)


def _paged(mesh: Any, on_tpu: bool) -> Made:
    """A token of each sequence against its cached pages, heads on `t` and sequences on `d`."""
    import jax
    import jax.numpy as jnp
    from jax import P
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

    page, per_sequence = 64, SEQUENCE // 64

    def attend(q: Any, keys: Any, values: Any, lengths: Any, pages: Any) -> Any:
        return paged_attention(q, keys, values, lengths, pages, pages_per_compute_block=per_sequence)

    specs = [P("d", "t"), P("t"), P("t"), P("d"), P("d")]

    def step(*arguments: Any) -> Any:
        attended = jax.shard_map(attend, mesh=mesh, in_specs=tuple(specs), out_specs=P("d", "t"), check_vma=False)(
            *arguments
        )
        return jnp.square(attended).mean()

    cached = _array(HEADS, 2 * per_sequence, page, HEAD_SIZE)
    whole = [_array(BATCH, 2 * HEADS, HEAD_SIZE), cached, cached]
    return step, [*whole, _array(BATCH, dtype="int32"), _array(BATCH, per_sequence, dtype="int32")], specs


def _megablox(mesh: Any, on_tpu: bool) -> Made:
    """Products with the matrix of a token's expert: tokens on `d`, hidden units on `t`."""
    import jax
    import jax.numpy as jnp
    from jax import P
    from jax.experimental.pallas.ops.tpu.megablox import ops

    def multiply(tokens: Any, weights: Any) -> Any:
        sizes = jnp.full((EXPERTS,), tokens.shape[0] // EXPERTS, jnp.int32)
        return ops.gmm(tokens, weights, sizes, tokens.dtype, (128, 128, 128), interpret=not on_tpu)

    def loss(weights: Any, tokens: Any) -> Any:
        specs = (P("d"), P(None, None, "t"))
        hidden = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("d", "t"), check_vma=False)
        return jnp.square(hidden(tokens, weights)).mean()

    shapes = [_array(EXPERTS, MODEL, HIDDEN), _array(2048, MODEL)]
    return jax.value_and_grad(loss), shapes, [P(None, "d", "t"), P("d")]


def _custom_partitioning(mesh: Any, on_tpu: bool) -> Made:
    """A normalised product as Transformer Engine has its layers: forward and backward each partition themselves."""
    import jax
    import jax.numpy as jnp
    from jax import P
    from jax.experimental.custom_partitioning import custom_partitioning
    from jax.sharding import NamedSharding

    def product(x: Any, weight: Any) -> Any:
        scale = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)
        return jnp.einsum("bsm,mh->bsh", x * scale, weight)

    def spec_of(sharding: Any, rank: int) -> tuple[Any, ...]:
        return (*sharding.spec, *[None] * (rank - len(sharding.spec)))

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        x, weight = (spec_of(argument.sharding, rank) for argument, rank in zip(arguments, (3, 2), strict=True))
        given = NamedSharding(mesh, P(*x[:2], None)), NamedSharding(mesh, P(None, weight[1]))
        return mesh, product, NamedSharding(mesh, P(*x[:2], weight[1])), given

    def infer(mesh: Any, arguments: Any, result: Any) -> Any:
        x, weight = (spec_of(argument.sharding, rank) for argument, rank in zip(arguments, (3, 2), strict=True))
        return NamedSharding(mesh, P(*x[:2], weight[1]))

    partitioned = custom_partitioning(product)
    partitioned.def_partition(
        partition=partition, infer_sharding_from_operands=infer, sharding_rule="b s m, m h -> b s h"
    )

    @jax.custom_vjp
    def layer(x: Any, weight: Any) -> Any:
        return partitioned(x, weight)

    def backward(saved: Any, gradient: Any) -> Any:
        return jax.vjp(product, *saved)[1](gradient)

    layer.defvjp(lambda x, weight: (partitioned(x, weight), (x, weight)), backward)

    def loss(up: Any, down: Any, x: Any) -> Any:
        return jnp.square(layer(jax.nn.gelu(layer(x, up)), down)).mean()

    shapes = [_array(MODEL, HIDDEN), _array(HIDDEN, MODEL), _array(BATCH, SEQUENCE, MODEL)]
    return jax.value_and_grad(loss, argnums=(0, 1)), shapes, [P(None, "t"), P("d", "t"), P("d")]


def _torchax(mesh: Any, on_tpu: bool) -> Made:
    """Gradients through a block of PyTorch's own modules, which torchax makes a function of JAX."""
    import jax
    import jax.numpy as jnp
    import torch
    import torchax
    from jax import P

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.heads = torch.nn.LayerNorm(MODEL), torch.nn.Linear(MODEL, 3 * MODEL)
            self.up, self.down = torch.nn.Linear(MODEL, HIDDEN), torch.nn.Linear(HIDDEN, MODEL)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shape = (*x.shape[:2], HEADS, MODEL // HEADS)
            q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.heads(self.norm(x)).chunk(3, -1))
            attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + attended.transpose(1, 2).reshape(x.shape)
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    state, function = torchax.extract_jax(Block())
    names = sorted(state)
    split = {"heads.weight": P("t", "d"), "up.weight": P("t", "d"), "down.weight": P("d", "t")}

    def loss(*arguments: Any) -> Any:
        *weights, x = arguments
        return jnp.square(function(dict(zip(names, weights, strict=True)), (x,))).mean()

    shapes = [_array(*state[name].shape) for name in names] + [_array(BATCH, SEQUENCE, MODEL)]
    specs = [split.get(name, P()) for name in names] + [P("d")]
    return jax.value_and_grad(loss, argnums=tuple(range(len(names)))), shapes, specs

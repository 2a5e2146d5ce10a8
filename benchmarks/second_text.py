"""The paper's decoder in a second text, as users of large JAX code bases write it.

The model, its sizes and its sharding are those of `paper_cell.py`, whose text is `gspmd.examples.decoder_lm`. This one
differs from it in what authors choose. All that is moved is annotated with `jax.lax.with_sharding_constraint` in every
layer: the residual stream before and after each block, what the products of a block read as gathered over `y`, their
weights as gathered over `x`, heads, and hidden units. Projections are matrices, whose results are reshaped to heads.
Norms have no mean and no bias. Layers are scanned with a policy that saves nothing, labels are compared as one-hot
vectors, and Adafactor factors the two largest dimensions of a weight.

Sources: Zhang and Sennrich, arXiv 1910.07467 (RMSNorm); Su et al., arXiv 2104.09864 (rotary embedding); Shazeer, arXiv
2002.05202 (gated GELU); Shazeer and Stern, arXiv 1804.04235 (Adafactor, with a constant decay and rate).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from gspmd.examples.common.program import Program

Array = Any
Tree = Any

_RATE, _DECAY, _EPSILON, _CLIP = 1e-2, 0.99, 1e-30, 1.0
_RESIDUAL = PartitionSpec("x", None, "y")  # batch, sequence, model
_READ = PartitionSpec("x", None, None)  # the same, as the products of a block read it
_HEADS = PartitionSpec("x", None, "y", None)  # batch, sequence, heads, head size
_INTO = PartitionSpec("x", "y"), PartitionSpec(None, "y")  # weights from the model, as they are stored and as used
_BACK = PartitionSpec("y", "x"), PartitionSpec("y", None)  # weights back to the model
_HIDDEN = PartitionSpec("x", None, "y")  # batch, sequence, hidden units or vocabulary
_USED = {"wq": _INTO, "wk": _INTO, "wv": _INTO, "wo": _BACK, "wi": _INTO, "wg": _INTO, "wd": _BACK}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the model and of its batch (counts of elements). `remat`: layers are computed again when going back."""

    layers: int
    model: int
    heads: int
    head_size: int
    hidden: int
    vocabulary: int
    sequence: int
    batch: int
    gated: bool = False
    remat: bool = True


def program(sizes: Sizes) -> Program:
    """The training step over the mesh axes `x` and `y`."""
    specs = _specs(sizes)

    def init() -> Tree:
        params = _init(sizes)
        return {"params": params, "moments": jax.tree.map(_moments, params), "step": jnp.zeros((), jnp.int32)}

    def step(state: Tree, tokens: Array) -> tuple[Tree, dict[str, Array]]:
        value, gradient = jax.value_and_grad(lambda params: _loss(sizes, params, tokens))(state["params"])
        params, treedef = jax.tree.flatten(state["params"])
        old = jax.tree.leaves(state["moments"], is_leaf=lambda each: isinstance(each, tuple))
        updated = [_adafactor(*each) for each in zip(params, jax.tree.leaves(gradient), old, strict=True)]
        moved, moments = (jax.tree.unflatten(treedef, part) for part in zip(*updated, strict=True))
        return {"params": moved, "moments": moments, "step": state["step"] + 1}, {"loss": value}

    def batch(index: int) -> np.ndarray:
        rng = np.random.default_rng(index)
        return rng.integers(0, sizes.vocabulary, (sizes.batch, sizes.sequence + 1)).astype(np.int32)

    shapes = jax.eval_shape(lambda: _init(sizes))
    moments = jax.tree.map(lambda p, spec: _moment_specs(p.shape, spec), shapes, specs)
    state_specs = {"params": specs, "moments": moments, "step": PartitionSpec()}
    return Program(step, init, batch, state_specs, PartitionSpec("x", None))


def _shapes(sizes: Sizes) -> dict[str, Any]:
    """Shapes of weights, each with its sharding; those of layers are stacked."""
    layers, model, heads, size, hidden = sizes.layers, sizes.model, sizes.heads, sizes.head_size, sizes.hidden
    projection, wide, scale = (model, heads * size), (model, hidden), ((layers, model), PartitionSpec(None, "y"))
    weights = {"wq": projection, "wk": projection, "wv": projection, "wo": (heads * size, model)}
    weights |= {"wi": wide, "wd": (hidden, model)} | ({"wg": wide} if sizes.gated else {})
    layer = {name: ((layers, *shape), PartitionSpec(None, *_USED[name][0])) for name, shape in weights.items()}
    layer |= {"attention_norm": scale, "mlp_norm": scale}
    table = ((sizes.vocabulary, model), PartitionSpec("y", "x"))
    return {"table": table, "final_norm": ((model,), PartitionSpec("y")), "layers": layer}


def _is_shape(entry: Any) -> bool:
    return isinstance(entry, tuple)


def _specs(sizes: Sizes) -> Tree:
    return jax.tree.map(lambda entry: entry[1], _shapes(sizes), is_leaf=_is_shape)


def _init(sizes: Sizes) -> Tree:
    entries, treedef = jax.tree.flatten(_shapes(sizes), is_leaf=_is_shape)
    keys = jax.random.split(jax.random.key(0), len(entries))

    def weight(key: Array, shape: tuple[int, ...]) -> Array:
        vector = len(shape) == 1 or shape == (sizes.layers, sizes.model)
        return jnp.ones(shape) if vector else jax.random.normal(key, shape) / math.sqrt(sizes.model)

    weights = [weight(key, shape) for key, (shape, _) in zip(keys, entries, strict=True)]
    return jax.tree.unflatten(treedef, weights)


def _loss(sizes: Sizes, params: Tree, tokens: Array) -> Array:
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    table = params["table"].astype(jnp.bfloat16)
    x = jax.lax.with_sharding_constraint(jnp.take(table, inputs, axis=0), _RESIDUAL)

    def body(x: Array, layer: Tree) -> tuple[Array, None]:
        return _layer(sizes, x, layer), None

    if sizes.remat:
        body = jax.checkpoint(body, policy=jax.checkpoint_policies.nothing_saveable, prevent_cse=False)
    x, _ = jax.lax.scan(body, x, params["layers"])
    logits = jnp.einsum("btd,vd->btv", _norm(x, params["final_norm"]), table)
    logits = jax.lax.with_sharding_constraint(logits, _HIDDEN).astype(jnp.float32)
    chosen = jnp.sum(logits * jax.nn.one_hot(targets, sizes.vocabulary), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def _layer(sizes: Sizes, x: Array, weights: Tree) -> Array:
    w = {name: _used(name, weight, x.dtype) for name, weight in weights.items() if name in _USED}
    x = jax.lax.with_sharding_constraint(x, _RESIDUAL)
    normed = jax.lax.with_sharding_constraint(_norm(x, weights["attention_norm"]), _READ)

    def heads(projected: Array) -> Array:
        return projected.reshape(*projected.shape[:2], sizes.heads, sizes.head_size)

    query, key, value = (
        jax.lax.with_sharding_constraint(heads(jnp.einsum("btd,dp->btp", normed, w[name])), _HEADS)
        for name in ("wq", "wk", "wv")
    )
    mixed = jax.lax.with_sharding_constraint(_attend(_rotate(query), _rotate(key), value), _HEADS)
    mixed = mixed.reshape(*mixed.shape[:2], sizes.heads * sizes.head_size)
    x = jax.lax.with_sharding_constraint(x + jnp.einsum("btp,pd->btd", mixed, w["wo"]), _RESIDUAL)
    normed = jax.lax.with_sharding_constraint(_norm(x, weights["mlp_norm"]), _READ)
    hidden = jax.nn.gelu(jax.lax.with_sharding_constraint(jnp.einsum("btd,df->btf", normed, w["wi"]), _HIDDEN))
    if sizes.gated:
        hidden = hidden * jax.lax.with_sharding_constraint(jnp.einsum("btd,df->btf", normed, w["wg"]), _HIDDEN)
    return jax.lax.with_sharding_constraint(x + jnp.einsum("btf,fd->btd", hidden, w["wd"]), _RESIDUAL)


def _used(name: str, weight: Array, dtype: Any) -> Array:
    """The weight of a layer as its product reads it: converted where it is stored, and then gathered."""
    held, used = _USED[name]
    return jax.lax.with_sharding_constraint(jax.lax.with_sharding_constraint(weight.astype(dtype), held), used)


def _norm(x: Array, scale: Array) -> Array:
    """Root mean square 1 along the last dimension, times `scale`; computed in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


def _rotate(x: Array) -> Array:
    """Rotary embedding of `x [batch, sequence, heads, head size]`."""
    length, half = x.shape[1], x.shape[-1] // 2
    angle = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cosine, sine = (wave(angle)[None, :, None, :].astype(x.dtype) for wave in (jnp.cos, jnp.sin))
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def _attend(query: Array, key: Array, value: Array) -> Array:
    """Causal attention with a softmax in float32."""
    length = query.shape[1]
    scores = jnp.einsum("btnh,bsnh->bnts", query / math.sqrt(query.shape[-1]), key).astype(jnp.float32)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1).astype(value.dtype), value)


def _factored(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The two largest dimensions of a weight; vectors, which are stacked as matrices, are not factored."""
    if len(shape) < 2 or min(sorted(shape)[-2:]) < 256:
        return None
    first, second = sorted(sorted(range(len(shape)), key=lambda dim: shape[dim])[-2:])
    return first, second


def _moments(p: Array) -> tuple[Array, ...]:
    dims = _factored(p.shape)
    shapes = [tuple(np.delete(p.shape, dim)) for dim in dims] if dims else [p.shape]
    return tuple(jnp.zeros(shape) for shape in shapes)


def _moment_specs(shape: tuple[int, ...], spec: PartitionSpec) -> tuple[PartitionSpec, ...]:
    dims = _factored(shape)
    if dims is None:
        return (spec,)
    return tuple(PartitionSpec(*(axis for at, axis in enumerate(spec) if at != dim)) for dim in dims)


def _adafactor(p: Array, gradient: Array, moments: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """The parameter after a step, and its second moments: means over each of the two factored dimensions."""
    square = gradient * gradient + _EPSILON
    dims = _factored(p.shape)
    if dims is None:
        kept: tuple[Array, ...] = (_DECAY * moments[0] + (1 - _DECAY) * square,)
        change = gradient * jax.lax.rsqrt(kept[0])
    else:
        first, second = dims
        kept = tuple(
            _DECAY * m + (1 - _DECAY) * jnp.mean(square, axis=dim) for m, dim in zip(moments, dims, strict=True)
        )
        columns, rows = kept  # without the first, without the second dimension
        share = rows / jnp.mean(rows, axis=first, keepdims=True)
        change = gradient * jnp.expand_dims(jax.lax.rsqrt(share), second)
        change *= jnp.expand_dims(jax.lax.rsqrt(columns), first)
    change /= jnp.maximum(1.0, jnp.sqrt(jnp.mean(change * change)) / _CLIP)
    return p - _RATE * change, kept

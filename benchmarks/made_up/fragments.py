"""Fragments of models, as steps of made-up programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Numbers = tuple[Any, ...]


def softmax(numbers: Numbers, a: Any) -> Any:
    """Along one dimension."""
    return jax.nn.softmax(a, axis=numbers[0])


def layer_norm(numbers: Numbers, a: Any, scale: Any) -> Any:
    """Of the last dimension, with a scale."""
    mean = a.mean(-1, keepdims=True)
    return (a - mean) * lax.rsqrt(a.var(-1, keepdims=True) + 1e-5) * scale


def attention(numbers: Numbers, x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    """Of [batch, positions, model], with weights [model, heads, size]; causal if the first number says so."""
    q, k, v = (jnp.einsum("bsd,dhk->bshk", x, w) * x.shape[-1] ** -0.5 for w in (wq, wk, wv))
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
    if numbers[0]:
        i, j = (lax.broadcasted_iota(jnp.int32, scores.shape, dim) for dim in (2, 3))
        scores = jnp.where(i >= j, scores, -1e9)
    mixed = jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores), v)
    return jnp.einsum("bqhk,hkd->bqd", mixed, wo)


def mlp(numbers: Numbers, x: Any, up: Any, down: Any) -> Any:
    """Two products with a nonlinearity between them, and what came in added."""
    hidden = jnp.tanh(x @ up * up.shape[0] ** -0.5)
    return x + hidden @ down * down.shape[0] ** -0.5


def dispatch(numbers: Numbers, x: Any, gate: Any, up: Any, down: Any) -> Any:
    """Top-1 gating with capacity, as products with a mask: x is [groups, tokens, model]."""
    tokens, experts = x.shape[1], gate.shape[1]
    capacity = max(1, tokens * 2 // experts)
    probabilities = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, gate))
    chosen = jax.nn.one_hot(probabilities.argmax(-1), experts)
    position = jnp.cumsum(chosen, axis=1) * chosen - 1
    mask = jax.nn.one_hot(position.astype(jnp.int32), capacity) * chosen[..., None]
    sent = jnp.einsum("gsec,gsm->egcm", mask, x)
    hidden = jnp.tanh(jnp.einsum("egcm,emh->egch", sent, up))
    back = jnp.einsum("egch,ehm->egcm", hidden, down)
    return jnp.einsum("gsec,egcm->gsm", mask * probabilities[..., None], back)


def routed(numbers: Numbers, x: Any, gate: Any, weights: Any) -> Any:
    """Tokens sorted by expert, gathered, multiplied, and scattered back: x is [tokens, model]."""
    experts = gate.shape[1]
    scores = x @ gate
    order = jnp.argsort(scores.argmax(-1))
    rows = jnp.take(x, order, axis=0, mode="clip")
    each = rows.reshape(experts, x.shape[0] // experts, x.shape[1])
    made = jnp.einsum("etm,emh->eth", each, weights).reshape(x.shape[0], weights.shape[2])
    return jnp.zeros_like(made).at[order].set(made)


def cross_entropy(numbers: Numbers, logits: Any, ids: Any) -> Any:
    """Of each row, the logarithm of the probability of the class that is asked for."""
    found = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(found, ids[..., None], axis=-1, mode="clip")[..., 0]


def rotary(numbers: Numbers, a: Any) -> Any:
    """Halves of the last dimension, turned by an angle that grows with the position in the one before."""
    half = a.shape[-1] // 2
    angle = lax.broadcasted_iota(jnp.float32, (*a.shape[:-1], half), a.ndim - 2) * 0.01
    first, second = a[..., :half], a[..., half : 2 * half]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def recurrence(numbers: Numbers, a: Any, weights: Any) -> Any:
    """A loop over the first dimension that carries rows through a product."""

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        made = jnp.tanh(carry @ weights * weights.shape[0] ** -0.5 + row)
        return made, made

    return lax.scan(step, jnp.zeros_like(a[0]), a)[1]


FRAGMENTS: Mapping[str, Callable[..., Any]] = {
    "softmax": softmax,
    "layer_norm": layer_norm,
    "attention": attention,
    "mlp": mlp,
    "dispatch": dispatch,
    "routed": routed,
    "cross_entropy": cross_entropy,
    "rotary": rotary,
    "recurrence": recurrence,
}

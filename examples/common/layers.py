"""Layers that several models are made of, as plain functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = Any


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    """`x [..., m]` with mean 0 and variance 1 along the last dimension, times `scale [m]`, plus `bias [m]`.

    Computed in float32; the result has the type of `x`.
    """
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axis=-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + 1e-6) * scale + bias).astype(x.dtype)


def rotary(x: Array, positions: Array) -> Array:
    """Rotary position embedding of `x [batch, sequence, heads, size]`, whose elements are at `positions [sequence]`.

    Source: Su et al., arXiv 2104.09864.
    """
    half = x.shape[-1] // 2
    frequency = jnp.exp(-jnp.log(10000.0) * jnp.arange(half) / half)
    angle = positions[:, None] * frequency[None, :]
    cosine, sine = (f(angle)[None, :, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def attention(query: Array, key: Array, value: Array, mask: Array | None = None) -> Array:
    """`query [b, q, n, d]` over `key` and `value [b, k, n, d]`, where `mask [q, k]` is true; softmax in float32.

    Source: Vaswani et al., arXiv 1706.03762.
    """
    score = jnp.einsum("bqnd,bknd->bnqk", query, key).astype(jnp.float32) / query.shape[-1] ** 0.5
    weight = jax.nn.softmax(score if mask is None else jnp.where(mask, score, -1e9), axis=-1)
    return jnp.einsum("bnqk,bknd->bqnd", weight.astype(value.dtype), value)


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Mean over all places of minus the log probability, computed in float32, that `logits [..., v]` give `labels`."""
    log_probability = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(log_probability, labels[..., None], axis=-1))

"""Parts of Transformers, and how their values are split.

Dimensions: b batch, s sequence, t sequence that is attended to, m model, n heads, d head size, h hidden units of a
feed-forward layer. Recipes name those of weights in lower and those of activations in upper case.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gspmd.examples.common import layers
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.weights import Weight

Array = Any
Tree = Any

NORM = {"scale": Weight("M", fill=1.0), "bias": Weight("M", fill=0.0)}
ATTENTION = {
    "query": Weight("mnd", fan_in="m"),
    "key": Weight("mnd", fan_in="m"),
    "value": Weight("mnd", fan_in="m"),
    "output": Weight("ndm", fan_in="nd"),
}
MLP = {
    "in": Weight("mh", fan_in="m"),
    "in_bias": Weight("H", fill=0.0),
    "out": Weight("hm", fan_in="h"),
    "out_bias": Weight("M", fill=0.0),
}
LAYER = {"attention_norm": NORM, "attention": ATTENTION, "mlp_norm": NORM, "mlp": MLP}


def norm(w: Tree, x: Array) -> Array:
    """`x [b, s, m]` normalised along its last dimension."""
    return layers.layer_norm(x, w["scale"], w["bias"])


def attention(recipe: Recipe, w: Tree, x: Array, memory: Array, mask: Array | None = None) -> Array:
    """`x [b, s, m]` attends to `memory [b, t, m]` where `mask [s, t]` is true; gives `[b, s, m]`."""
    query = recipe.split(jnp.einsum("bsm,mnd->bsnd", x, w["query"]), "BSND")
    key = recipe.split(jnp.einsum("btm,mnd->btnd", memory, w["key"]), "BTND")
    value = recipe.split(jnp.einsum("btm,mnd->btnd", memory, w["value"]), "BTND")
    mixed = recipe.split(layers.attention(query, key, value, mask), "BSND")
    return recipe.split(jnp.einsum("bsnd,ndm->bsm", mixed, w["output"]), "BSM")


def mlp(recipe: Recipe, w: Tree, x: Array) -> Array:
    """Two dense layers around a GELU, from and to `[b, s, m]`."""
    hidden = recipe.split(jnp.einsum("bsm,mh->bsh", x, w["in"]) + w["in_bias"], "BSH")
    return recipe.split(jnp.einsum("bsh,hm->bsm", jax.nn.gelu(hidden), w["out"]) + w["out_bias"], "BSM")


def layer(recipe: Recipe, w: Tree, x: Array, mask: Array | None = None) -> Array:
    """Self-attention and a feed-forward layer of `x [b, s, m]`, normalised before and added to it."""
    normed = norm(w["attention_norm"], x)
    x = x + attention(recipe, w["attention"], normed, normed, mask)
    return x + mlp(recipe, w["mlp"], norm(w["mlp_norm"], x))


def stack(recipe: Recipe, layers: Any, x: Array, remat: bool = False) -> Array:
    """All `layers`, a list or stacked, one after the other; with `remat` computed again in the backward pass."""

    def one(x: Array, w: Tree) -> tuple[Array, None]:
        return layer(recipe, w, x), None

    step = jax.checkpoint(one) if remat else one
    if not isinstance(layers, list):
        return jax.lax.scan(step, x, layers)[0]
    for w in layers:
        x, _ = step(x, w)
    return x

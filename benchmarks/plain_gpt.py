"""The training step of a GPT in plain `jax.numpy`, layers unrolled, as one would write it for a single device."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

Tree = dict[str, Any]

_RATE, _DECAYS, _EPSILON = 1e-3, (0.9, 0.99), 1e-8


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and forms.

    `tied`: logits are made with the table of tokens; `biases`: products have them; `fused`: query, key and value have
    one weight; `adam`: the optimizer, which is gradient descent otherwise.
    """

    layers: int = 8
    width: int = 128
    heads: int = 4
    positions: int = 64
    batch: int = 8
    vocabulary: int = 256
    tied: bool = False
    biases: bool = True
    fused: bool = False
    adam: bool = True


def init(config: Config) -> Tree:
    """Weights, the optimizer's state and the number of the step."""
    rng, width = np.random.default_rng(0), config.width

    def weight(*shape: int) -> Any:
        return rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    def norm() -> Tree:
        return {"scale": np.ones(width, np.float32), "shift": np.zeros(width, np.float32)}

    def dense(inner: int, outer: int) -> Tree:
        made = {"w": weight(inner, outer)}
        return {**made, "b": np.zeros(outer, np.float32)} if config.biases else made

    def layer() -> Tree:
        looks = {"qkv": dense(width, 3 * width)} if config.fused else {n: dense(width, width) for n in "qkv"}
        rest = {"out": dense(width, width), "up": dense(width, 4 * width), "down": dense(4 * width, width)}
        return {"before_attention": norm(), "before_mlp": norm(), **looks, **rest}

    params = {
        "tokens": weight(config.vocabulary, width),
        "positions": weight(config.positions, width),
        "last": norm(),
        **{f"layer_{i}": layer() for i in range(config.layers)},
    }
    if not config.tied:
        params["logits"] = weight(width, config.vocabulary)
    moments = {name: jax.tree.map(np.zeros_like, params) for name in ("mean", "square")} if config.adam else {}
    return {"params": params, **moments, "step": np.zeros((), np.int32)}


def tokens(config: Config) -> Any:
    """A batch of token numbers, one position longer than what goes in, so that each has a next."""
    rng = np.random.default_rng(1)
    return rng.integers(0, config.vocabulary, (config.batch, config.positions + 1)).astype(np.int32)


def specs(state: Tree, devices: int, split: str = "first") -> Tree:
    """Fully sharded: of every array the `first`, `last` or `largest` dimension that the devices divide is over "x"."""

    def spec(value: Any) -> PartitionSpec:
        dims = [dim for dim, n in enumerate(value.shape) if n % devices == 0]
        if not dims:
            return PartitionSpec()
        chosen = {"first": dims[0], "last": dims[-1], "largest": max(dims, key=lambda dim: value.shape[dim])}[split]
        return PartitionSpec(*[None] * chosen, "x")

    return {**jax.tree.map(spec, state)}


def step(config: Config, state: Tree, batch: Any) -> tuple[Tree, Any]:
    """The state after one step, and the loss before it."""
    loss, gradients = jax.value_and_grad(lambda params: _loss(config, params, batch))(state["params"])
    number = state["step"] + 1
    if not config.adam:
        params = jax.tree.map(lambda w, g: w - _RATE * g, state["params"], gradients)
        return {"params": params, "step": number}, loss
    means, squares = (
        jax.tree.map(lambda m, g, d=decay, p=power: d * m + (1 - d) * g**p, state[name], gradients)
        for name, decay, power in (("mean", _DECAYS[0], 1), ("square", _DECAYS[1], 2))
    )
    unbiased = [1 - decay ** number.astype(jnp.float32) for decay in _DECAYS]

    def updated(w: Any, mean: Any, square: Any) -> Any:
        return w - _RATE * (mean / unbiased[0]) / (jnp.sqrt(square / unbiased[1]) + _EPSILON)

    params = jax.tree.map(updated, state["params"], means, squares)
    return {"params": params, "mean": means, "square": squares, "step": number}, loss


def _loss(config: Config, params: Tree, batch: Any) -> Any:
    inputs, wanted = batch[:, :-1], batch[:, 1:]
    x = params["tokens"][inputs] + params["positions"][: inputs.shape[1]]
    for i in range(config.layers):
        layer = params[f"layer_{i}"]
        x = x + _attention(config, layer, _normalized(layer["before_attention"], x))
        hidden = jax.nn.gelu(_dense(layer["up"], _normalized(layer["before_mlp"], x)))
        x = x + _dense(layer["down"], hidden)
    logits = _normalized(params["last"], x) @ (params["tokens"].T if config.tied else params["logits"])
    scores = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(scores, wanted[..., None], -1).mean()


def _normalized(norm: Tree, x: Any) -> Any:
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * norm["scale"] + norm["shift"]


def _dense(dense: Tree, x: Any) -> Any:
    x = x @ dense["w"]
    return x + dense["b"] if "b" in dense else x


def _attention(config: Config, layer: Tree, x: Any) -> Any:
    if config.fused:
        parts = jnp.split(_dense(layer["qkv"], x), 3, -1)
    else:
        parts = [_dense(layer[name], x) for name in "qkv"]
    query, key, value = (part.reshape(*x.shape[:2], config.heads, -1) for part in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
    return _dense(layer["out"], jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape))

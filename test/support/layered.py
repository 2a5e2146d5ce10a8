"""Random programs of unrolled layers, as they are after JAX lowered them: what is repeated, how, and in which order."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Weights: TypeAlias = dict[str, Any]
Block: TypeAlias = Callable[[Weights, Any, Any], Any]
_SHAPES = dict.fromkeys(("query", "key", "value", "out", "skip", "loop", "scan"), (16, 16)) | {
    "up": (16, 32),
    "down": (32, 16),
    "scale": (16,),
    "taps": (4, 16, 16),
}
_CONTAINERS = ("list", "names", "sorted names", "by weight")


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))


def _constrained(x: Any, *spec: str | None) -> Any:
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh(), PartitionSpec(*spec)))


def _perceptron(w: Weights, x: Any, _first: Any) -> Any:
    return x + jax.nn.gelu(x @ w["up"]) @ w["down"]


def _attention(w: Weights, x: Any, _first: Any) -> Any:
    query, key, value = ((x @ w[name]).reshape(*x.shape[:2], 4, 4) for name in ("query", "key", "value"))
    scores = jnp.einsum("bshd,bthd->bhst", query, key) / 4
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    return x + jnp.einsum("bhst,bthd->bshd", weights, value).reshape(x.shape) @ w["out"]


def _norm(w: Weights, x: Any, _first: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1) * w["scale"]


def _skip(w: Weights, x: Any, first: Any) -> Any:
    return x * 0.5 + first @ w["skip"]


def _convolution(w: Weights, x: Any, _first: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w["taps"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def _loop(w: Weights, x: Any, _first: Any) -> Any:
    return jax.lax.fori_loop(0, 2, lambda _, v: jnp.tanh(v @ w["loop"]), x)


def _scan(w: Weights, x: Any, _first: Any) -> Any:
    start = jnp.zeros_like(x[:, 0])
    return jax.lax.scan(lambda h, t: (h * 0.9 + t @ w["scan"], h), start, x.swapaxes(0, 1))[1].swapaxes(0, 1)


def _by_channel(_w: Weights, x: Any, _first: Any) -> Any:
    return _constrained(x, "x", None, "y")


def _by_position(_w: Weights, x: Any, _first: Any) -> Any:
    return _constrained(x, "x", "y", None)


BLOCKS: dict[Block, tuple[str, ...]] = {
    _perceptron: ("up", "down"),
    _attention: ("query", "key", "value", "out"),
    _norm: ("scale",),
    _skip: ("skip",),
    _convolution: ("taps",),
    _loop: ("loop",),
    _scan: ("scan",),
    _by_channel: (),
    _by_position: (),
}
"""What a layer may consist of, and the weights that it has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """So many layers of these blocks; `container` is what their weights lie in, `remat` computes them again."""

    count: int
    blocks: tuple[Block, ...]
    container: str
    remat: bool

    @property
    def names(self) -> list[str]:
        """The weights of a layer."""
        return sorted({name for block in self.blocks for name in BLOCKS[block]})

    def pack(self, make: Callable[[str], Any]) -> Any:
        """What is made for every weight of every layer."""
        layers = [{name: make(name) for name in self.names} for _ in range(self.count)]
        if self.container == "list":
            return layers
        if self.container == "by weight":
            return {name: [layer[name] for layer in layers] for name in self.names}
        return {self._name(i): layer for i, layer in enumerate(layers)}

    def _name(self, i: int) -> str:
        return f"{i}" if self.container == "names" else f"{i:02}"

    def _layer(self, params: Any, i: int) -> Weights:
        if self.container == "by weight":
            return {name: params[name][i] for name in self.names}
        layer: Weights = params[i if self.container == "list" else self._name(i)]
        return layer

    def _step(self, w: Weights, x: Any, first: Any) -> Any:
        for block in self.blocks:
            x = block(w, x, first)
        return x

    def forward(self, params: Any, x: Any) -> Any:
        return self.results(params, x)[0]

    def results(self, params: Any, first: Any) -> tuple[Any, list[Any]]:
        """The last layer's value, and something of every layer's."""
        step = jax.checkpoint(self._step) if self.remat else self._step
        x, made = first, []
        for i in range(self.count):
            x = step(self._layer(params, i), x, first)
            made.append(x.sum(-1))
        return x, made

    def gradient(self, params: Any, x: Any) -> Any:
        return jax.grad(lambda p: jnp.sum(self.forward(p, x) ** 2))(params)

    def sgd(self, params: Any, x: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, self.gradient(params, x))

    def momentum(self, params: Any, x: Any, moments: Any) -> Any:
        """A step by gradients divided by the norm of all."""
        grads = self.gradient(params, x)
        norm = jnp.sqrt(1 + sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g / norm, moments, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments


def program(seed: int) -> str:
    """A program of 9 to 14 layers: a forward pass, with what each layer adds, its gradient, or a step of training."""
    rng = random.Random(seed)
    blocks = [rng.choice(list(BLOCKS)) for _ in range(rng.randint(1, 3))]
    if not any(BLOCKS[block] for block in blocks):
        blocks.append(_perceptron)
    kind = rng.choice(["forward", "results", "gradient", "sgd", "momentum"])
    model = Model(rng.randint(9, 14), tuple(blocks), rng.choice(_CONTAINERS), kind == "gradient" and rng.random() < 0.5)
    specs = {name: _random_spec(rng, len(_SHAPES[name])) for name in model.names}
    split = model.pack(lambda name: NamedSharding(mesh(), PartitionSpec(*specs[name])))
    x_split = NamedSharding(mesh(), PartitionSpec(*rng.choice([("x",), ("x", "y"), ("x", None, "y"), ()])))
    params = model.pack(lambda name: jnp.zeros(_SHAPES[name]))
    arguments: tuple[Any, ...] = (params, jnp.zeros((8, 8, 16)))
    shardings: tuple[Any, ...] = (split, x_split)
    given: dict[str, Any] = {}
    if kind == "momentum":
        arguments, shardings = (*arguments, params), (*shardings, split)
        given = {"out_shardings": (split, split), "donate_argnums": (0, 2)}
    elif kind == "sgd":
        given = {"donate_argnums": 0}
    text: str = jax.jit(getattr(model, kind), in_shardings=shardings, **given).lower(*arguments).as_text()
    return text


def _random_spec(rng: random.Random, rank: int) -> tuple[str | None, ...]:
    axes: list[str | None] = ["x", "y", *[None] * rank]
    rng.shuffle(axes)
    return tuple(axes[:rank])

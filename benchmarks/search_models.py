"""Models that `search.py` looks for plans of, beside those of the examples: small texts with layers scanned or few.

`Llama` is a decoder with grouped heads, SwiGLU and RMS norms (arXiv 2307.09288, arXiv 2407.21783), trained or decoding;
`Vision` a Transformer on patches (arXiv 2010.11929); `Graph` passes messages along edges (arXiv 1704.01212);
`Diffusion` is a U-Net that is told the time (arXiv 2006.11239). Dimensions of weights are named by lower-case letters,
those of activations by upper-case ones, as in the examples; S is the sequence within a block and P between blocks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from gspmd.examples.common import convolution, layers, transformer, weights
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.weights import Weight

Array = Any
Tree = Any


@dataclasses.dataclass(frozen=True)
class Llama:
    """Sizes of a Llama-like model; `length` positions are trained on, or cached where one token is decoded.

    `dtype` is what is computed in, here and in the other models.
    """

    layers: int
    model: int
    heads: int
    groups: int
    hidden: int
    batch: int
    length: int
    head_size: int = 128
    vocabulary: int = 128256
    is_decoding: bool = False
    dtype: str = "bfloat16"

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions of weights."""
        named = {"l": self.layers, "m": self.model, "n": self.heads, "k": self.groups, "d": self.head_size}
        return {**named, "h": self.hidden, "v": self.vocabulary}

    @property
    def weights(self) -> Tree:
        """Layers are stacked."""
        layer = {
            "attention_scale": Weight("M", fill=1.0),
            "query": Weight("mnd", fan_in="m"),
            "key": Weight("mkd", fan_in="m"),
            "value": Weight("mkd", fan_in="m"),
            "output": Weight("ndm", fan_in="nd"),
            "mlp_scale": Weight("M", fill=1.0),
            "gate": Weight("mh", fan_in="m"),
            "up": Weight("mh", fan_in="m"),
            "down": Weight("hm", fan_in="h"),
        }
        outer = {
            "embedding": Weight("vm", fan_in="m"),
            "scale": Weight("M", fill=1.0),
            "head": Weight("mv", fan_in="m"),
        }
        return {**outer, "layers": weights.stacked(layer, "l")}

    def program(self, recipe: Recipe) -> Program:
        """A step of training with Adam, weights in float32; or of decoding, with weights in `dtype`."""
        return self._decoding(recipe) if self.is_decoding else self._training(recipe)

    def _training(self, recipe: Recipe) -> Program:
        return training(
            functools.partial(self._loss, recipe),
            lambda: weights.init(self.weights, self.sizes),
            weights.specs(self.weights, recipe),
            lambda _: jnp.zeros((self.batch, self.length), jnp.int32),
            recipe.spec("BS"),
            adam(3e-4),
            weights.moment_specs(self.weights, self.sizes, recipe),
            self.dtype,
        )

    def _decoding(self, recipe: Recipe) -> Program:
        def init() -> Tree:
            shape = (self.layers, self.batch, self.length, self.groups, self.head_size)
            params = jax.tree.map(lambda w: w.astype(self.dtype), weights.init(self.weights, self.sizes))
            return {"params": params, "cache": (jnp.zeros(shape, self.dtype), jnp.zeros(shape, self.dtype))}

        def step(state: Tree, data: Tree) -> tuple[Tree, Tree]:
            logits, cache = self._read(recipe, state["params"], data["tokens"], data["at"], state["cache"])
            return {"params": state["params"], "cache": cache}, {"next": jnp.argmax(logits[:, 0], axis=-1)}

        specs = {"params": weights.specs(self.weights, recipe), "cache": (recipe.spec("lBTKD"),) * 2}
        data = {"tokens": jnp.zeros((self.batch, 1), jnp.int32), "at": jnp.int32(0)}
        return Program(step, init, lambda _: data, specs, {"tokens": recipe.spec("B."), "at": PartitionSpec()})

    def _loss(self, recipe: Recipe, params: Tree, tokens: Array) -> Array:
        logits, _ = self._read(recipe, params, tokens, 0, None)
        return layers.cross_entropy(logits[:, :-1], tokens[:, 1:])

    def _read(self, recipe: Recipe, params: Tree, tokens: Array, start: Any, cache: Tree) -> tuple[Array, Tree]:
        """Logits of all tokens, and the cache with them in it, where there is one."""
        x = recipe.split(params["embedding"][tokens], "BPM")
        one = functools.partial(self._layer, recipe, start)
        x, cache = jax.lax.scan(jax.checkpoint(one) if cache is None else one, x, (params["layers"], cache))
        logits = jnp.einsum("bsm,mv->bsv", _rms(x, params["scale"]), params["head"])
        return recipe.split(logits, "BSV"), cache

    def _layer(self, recipe: Recipe, start: Any, x: Array, layer: Tree) -> tuple[Array, Tree]:
        w, cached = layer
        count = x.shape[1]
        positions = start + jnp.arange(count)
        normed = _rms(x, w["attention_scale"])
        query = recipe.split(jnp.einsum("bsm,mnd->bsnd", normed, w["query"]), "BSND")
        key = recipe.split(jnp.einsum("bsm,mkd->bskd", normed, w["key"]), "BSKD")
        value = recipe.split(jnp.einsum("bsm,mkd->bskd", normed, w["value"]), "BSKD")
        query, key = layers.rotary(query, positions), layers.rotary(key, positions)
        if cached is not None:
            key, value = (
                recipe.split(jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=1), "BTKD")
                for old, new in zip(cached, (key, value), strict=True)
            )
        mask = jnp.arange(key.shape[1]) <= positions[:, None]
        grouped = query.reshape(*query.shape[:2], self.groups, -1, self.head_size)
        score = jnp.einsum("bskgd,btkd->bkgst", grouped, key).astype(jnp.float32) / self.head_size**0.5
        weight = jax.nn.softmax(jnp.where(mask, score, -1e9), axis=-1).astype(x.dtype)
        mixed = jnp.einsum("bkgst,btkd->bskgd", weight, value).reshape(query.shape)
        x = x + recipe.split(jnp.einsum("bsnd,ndm->bsm", recipe.split(mixed, "BSND"), w["output"]), "BPM")
        normed = _rms(x, w["mlp_scale"])
        gate = recipe.split(jnp.einsum("bsm,mh->bsh", normed, w["gate"]), "BSH")
        up = recipe.split(jnp.einsum("bsm,mh->bsh", normed, w["up"]), "BSH")
        x = x + recipe.split(jnp.einsum("bsh,hm->bsm", jax.nn.silu(gate) * up, w["down"]), "BPM")
        return x, None if cached is None else (key, value)


@dataclasses.dataclass(frozen=True)
class Vision:
    """Sizes of a vision Transformer on `tokens` patches of `inputs` elements."""

    layers: int
    model: int
    heads: int
    hidden: int
    batch: int
    head_size: int = 128
    tokens: int = 256
    inputs: int = 588
    classes: int = 1024
    dtype: str = "bfloat16"

    def program(self, recipe: Recipe) -> Program:
        """A step of training with Adam."""
        sizes = {"l": self.layers, "m": self.model, "n": self.heads, "d": self.head_size, "h": self.hidden}
        sizes |= {"i": self.inputs, "s": self.tokens, "c": self.classes}
        described = {
            "patch": Weight("im", fan_in="i"),
            "positions": Weight("SM", fan_in="m"),
            "layers": weights.stacked(transformer.LAYER, "l"),
            "head": Weight("Mc", fan_in="m"),
        }

        def loss(params: Tree, data: Tree) -> Array:
            x = jnp.einsum("bsi,im->bsm", data["patches"].astype(self.dtype), params["patch"])
            x = recipe.split(x + params["positions"], "BSM")
            x = transformer.stack(recipe, params["layers"], x, remat=True)
            return layers.cross_entropy(jnp.einsum("bm,mc->bc", jnp.mean(x, axis=1), params["head"]), data["classes"])

        shape = (self.batch, self.tokens, self.inputs)
        return training(
            loss,
            lambda: weights.init(described, sizes),
            weights.specs(described, recipe),
            lambda _: {"patches": jnp.zeros(shape), "classes": jnp.zeros((self.batch,), jnp.int32)},
            recipe.spec("B"),
            adam(1e-3),
            weights.moment_specs(described, sizes, recipe),
            self.dtype,
        )


@dataclasses.dataclass(frozen=True)
class Graph:
    """Sizes of a network that passes messages along the `edges` of a graph; layers are scanned."""

    layers: int
    nodes: int
    edges: int
    model: int
    hidden: int
    dtype: str = "bfloat16"

    def program(self, recipe: Recipe) -> Program:
        """A step of training with Adam on one graph."""
        sizes = {"l": self.layers, "m": self.model, "w": 2 * self.model, "h": self.hidden}
        layer = {
            "message_in": Weight("wh", fan_in="w"),
            "message_out": Weight("hm", fan_in="h"),
            "update_in": Weight("wh", fan_in="w"),
            "update_out": Weight("hm", fan_in="h"),
        }
        described = {"layers": weights.stacked(layer, "l")}

        def dense(x: Array, first: Array, second: Array, dims: str) -> Array:
            hidden = recipe.split(jax.nn.silu(x @ first), dims)
            return hidden @ second

        def loss(params: Tree, graph: Tree) -> Array:
            @jax.checkpoint
            def one(x: Array, w: Tree) -> tuple[Array, None]:
                ends = jnp.concatenate([x[graph["from"]], x[graph["to"]]], axis=-1)
                message = recipe.split(dense(ends, w["message_in"], w["message_out"], "EH"), "EM")
                summed = recipe.split(jnp.zeros_like(x).at[graph["to"]].add(message), "NM")
                both = jnp.concatenate([x, summed], axis=-1)
                return x + recipe.split(dense(both, w["update_in"], w["update_out"], "NH"), "NM"), None

            x = recipe.split(graph["nodes"].astype(self.dtype), "NM")
            x, _ = jax.lax.scan(one, x, params["layers"])
            return jnp.mean(jnp.square(x.astype(jnp.float32) - graph["nodes"]))

        data = {
            "nodes": jnp.zeros((self.nodes, self.model)),
            "from": jnp.zeros((self.edges,), jnp.int32),
            "to": jnp.zeros((self.edges,), jnp.int32),
        }
        split = {"nodes": recipe.spec("NM"), "from": recipe.spec("E"), "to": recipe.spec("E")}
        return training(
            loss,
            lambda: weights.init(described, sizes),
            weights.specs(described, recipe),
            lambda _: data,
            split,
            adam(1e-3),
            weights.moment_specs(described, sizes, recipe),
            self.dtype,
        )


@dataclasses.dataclass(frozen=True)
class Diffusion:
    """Sizes of a U-Net on square images; `channels` doubles with every level."""

    batch: int
    image: int
    channels: int
    levels: int
    dtype: str = "bfloat16"

    def program(self, recipe: Recipe) -> Program:
        """A step of training with Adam: the noise in an image is guessed, given how much there is."""
        widths = [self.channels * 2**level for level in range(self.levels)]

        def init() -> Tree:
            def kernel(window: int, inputs: int, outputs: int) -> Array:
                return jnp.zeros((window, window, inputs, outputs))

            pairs = list(zip(widths, [*widths[1:], widths[-1]], strict=True))
            down = [{"in": kernel(3, a, a), "time": jnp.zeros((256, a)), "out": kernel(3, a, b)} for a, b in pairs]
            up = [{"in": kernel(3, b, a), "out": kernel(3, 2 * a, a)} for a, b in pairs]
            return {"first": kernel(3, 4, widths[0]), "down": down, "up": up, "last": kernel(3, widths[0], 4)}

        specs = jax.tree.map(lambda x: recipe.spec("..io") if x.ndim == 4 else recipe.spec(".o"), jax.eval_shape(init))

        def loss(params: Tree, data: Tree) -> Array:
            image = data["image"].astype(self.dtype)
            x, skips = recipe.split(convolution.conv(image, params["first"]), "BYXC"), []
            for w in params["down"]:
                told = recipe.split(data["time"].astype(x.dtype) @ w["time"], "BC")
                x = jax.nn.silu(recipe.split(convolution.conv(x, w["in"]), "BYXC") + told[:, None, None])
                skips.append(x)
                x = recipe.split(convolution.conv(x, w["out"], stride=2), "BYXC")
            for w, skip in zip(reversed(params["up"]), reversed(skips), strict=True):
                x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
                x = jnp.concatenate([recipe.split(convolution.conv(x, w["in"]), "BYXC"), skip], axis=-1)
                x = jax.nn.silu(recipe.split(convolution.conv(x, w["out"]), "BYXC"))
            found = convolution.conv(x, params["last"]).astype(jnp.float32)
            return jnp.mean(jnp.square(found - data["image"]))

        data = {"image": jnp.zeros((self.batch, self.image, self.image, 4)), "time": jnp.zeros((self.batch, 256))}
        split = {"image": recipe.spec("BYX."), "time": recipe.spec("B.")}
        return training(loss, init, specs, lambda _: data, split, adam(1e-4), dtype=self.dtype)


def _rms(x: Array, scale: Array) -> Array:
    """`x [..., m]` divided by its root mean square, times `scale [m]`."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-5) * scale).astype(x.dtype)

"""Decoding with a Transformer: a sharded cache of keys and values, prompts prefilled, tokens sampled from the top k.

One step takes a batch of prompts: all their positions at once fill the cache, then a loop samples a token at a time,
each attending to what is cached. The cache, the largest thing here, stays where it is: split by heads, by examples, or
by positions, which serves long contexts of few examples; then a new position is written by the device that holds it,
and attention reduces a maximum, a sum and a mix of values of one position.

Sources: the model is that of `decoder_lm`; splitting caches is discussed by Pope et al., arXiv 2211.05102; sampling
from the top k is by Fan et al., arXiv 1805.04833.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.examples import decoder_lm
from gspmd.examples.common.layers import attention
from gspmd.examples.common.program import DTYPES, Metrics, Program
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.settings import choose

Array = Any
Tree = Any

# As in decoder_lm, and T, the positions of the cache.
_TENSOR = {"n": "y", "h": "y", "v": "y", "N": "y", "H": "y", "V": "y"}
RECIPES = {
    "heads": Recipe("the cache by heads, weights by heads and hidden units, on y", {"y": 8}, _TENSOR),
    "batch": Recipe("the cache by examples, on x; every device holds all weights", {"x": 8}, {"B": "x"}),
    "positions": Recipe(
        "the cache by positions on x and by heads on y, weights by heads and hidden units on y",
        {"x": 4, "y": 2},
        {**_TENSOR, "T": "x"},
    ),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes (counts of elements); `new` tokens follow a prompt, each one of the `top_k` most likely.

    `dtype` is what is computed and cached in: float32 or bfloat16.
    """

    layers: int = 2
    model: int = 64
    heads: int = 8
    head_size: int = 8
    hidden: int = 256
    vocabulary: int = 128
    batch: int = 8
    prompt: int = 8
    new: int = 24
    top_k: int = 8
    seed: int = 0
    dtype: str = "float32"
    recipe: str = "heads"

    @property
    def length(self) -> int:
        """Positions of the cache."""
        return self.prompt + self.new

    @property
    def decoder(self) -> decoder_lm.Config:
        """The model: layers are stacked."""
        shared = {field.name for field in dataclasses.fields(decoder_lm.Config)} - {"recipe"}
        sizes = {name: value for name, value in dataclasses.asdict(self).items() if name in shared}
        return decoder_lm.Config(scan=True, sequence=self.length, **sizes)


def read(config: Config, recipe: Recipe, params: Tree, cache: Tree, tokens: Array, start: Any) -> tuple[Array, Tree]:
    """Log probabilities `[batch, vocabulary]` of what follows `tokens [batch, count]`, and the cache with these in it.

    `start` is the position of the first. `cache` are keys and values `[layers, batch, length, heads, head size]`.
    """
    positions = start + jnp.arange(tokens.shape[1])
    before = jnp.arange(config.length) <= positions[:, None]

    def layer(x: Array, layer: tuple[Tree, Tree]) -> tuple[Array, Tree]:
        w, cached = layer

        def attend(query: Array, key: Array, value: Array) -> tuple[Array, Tree]:
            keys, values = (
                recipe.split(jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=1), "BTND")
                for old, new in zip(cached, (key, value), strict=True)
            )
            return attention(query, keys, values, before), (keys, values)

        return decoder_lm.layer(recipe, x, w, positions, attend)

    x = decoder_lm.embed(config.decoder, recipe, params, tokens)
    x, cache = jax.lax.scan(layer, x, (params["layers"], cache))
    scores = decoder_lm.logits(recipe, params, x[:, -1:])[:, 0]
    return jax.nn.log_softmax(scores.astype(jnp.float32)), cache


def sample(config: Config, key: Array, scores: Array) -> tuple[Array, Array]:
    """A token for every line of `scores [batch, vocabulary]`, which are log probabilities, and its own."""
    best, candidates = jax.lax.top_k(scores, config.top_k)
    chosen = jax.random.categorical(key, best)[:, None]
    token, score = (jnp.take_along_axis(each, chosen, axis=1)[:, 0] for each in (candidates, best))
    return token, score


def step(config: Config, recipe: Recipe, state: Tree, prompts: Array) -> tuple[Tree, Metrics]:
    """Continues `prompts [batch, prompt]`; `state["tokens"]` then has them with what follows."""
    params, key = state["params"], jax.random.fold_in(jax.random.key(config.seed), state["step"])
    scores, cache = read(config, recipe, params, state["cache"], prompts, 0)
    first = sample(config, jax.random.fold_in(key, 0), scores)

    def one(carry: tuple[Tree, Array], index: Array) -> tuple[Any, tuple[Array, Array]]:
        cache, token = carry
        scores, cache = read(config, recipe, params, cache, token[:, None], config.prompt + index - 1)
        token, score = sample(config, jax.random.fold_in(key, index), scores)
        return (cache, token), (token, score)

    (cache, _), found = jax.lax.scan(one, (cache, first[0]), jnp.arange(1, config.new))
    tokens, log_probabilities = (jnp.concatenate([a[:, None], b.T], axis=1) for a, b in zip(first, found, strict=True))
    tokens = recipe.split(jnp.concatenate([prompts, tokens], axis=1), "BS")
    made = {"params": params, "cache": cache, "tokens": tokens, "step": state["step"] + 1}
    return made, {"surprise": -jnp.mean(log_probabilities)}


def program(config: Config, recipe: Recipe) -> Program:
    """Batches of prompts, continued; the cache of one is written over by the next."""
    if not 0 < config.top_k <= config.vocabulary:
        raise UsageError(
            f"'top_k' is {config.top_k}",
            hint=f"give 1 to {config.vocabulary}, the size of the vocabulary",
            code=Code.BAD_VALUE,
        )
    decoder = config.decoder

    def init() -> Tree:
        shape = (config.layers, config.batch, config.length, config.heads, config.head_size)
        empty = jnp.zeros(shape, choose("dtype", config.dtype, DTYPES))
        tokens = jnp.zeros((config.batch, config.length), jnp.int32)
        params = decoder_lm.init(decoder)
        return {"params": params, "cache": (empty, empty.copy()), "tokens": tokens, "step": jnp.int32(0)}

    def batch(index: int) -> np.ndarray:
        return decoder_lm.batch(decoder, index)[:, : config.prompt]

    cache = recipe.spec("lBTND")
    specs = {
        "params": decoder_lm.specs(decoder, recipe),
        "cache": (cache, cache),
        "tokens": recipe.spec("BS"),
        "step": PartitionSpec(),
    }
    return Program(lambda state, prompts: step(config, recipe, state, prompts), init, batch, specs, recipe.spec("BS"))

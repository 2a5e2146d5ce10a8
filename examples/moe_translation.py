"""A sparse mixture-of-experts Transformer that translates, like the M4 model of GShard.

Every other layer of encoder and decoder is a mixture of experts: each token goes to two experts, each expert takes a
limited number of tokens from each sequence, and a further loss keeps the experts equally busy. Dispatch and combination
are einsums with a tensor that says which token goes where. Batch and experts are split over the same axis: the exchange
of tokens between devices is the change of a tensor's sharding from one to the other, an all-to-all before the experts
and one after them.

Sources: GShard (arXiv 2006.16668, section 2.2 and algorithm 1, here without dropping second experts at random); GSPMD
(arXiv 2105.04663, section 5.4).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gspmd.examples.common import layers, transformer, weights
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.weights import Weight

Array = Any
Params = dict[str, Any]

# Beside those of common/transformer.py: e and E experts, o those that the gate chooses from, C places at an expert,
# v and V vocabulary.
RECIPES = {
    "expert": Recipe(
        "experts are split as the batch is; all else is data parallel",
        {"x": 8},
        {"B": "x", "e": "x", "E": "x"},
    ),
    "expert+tensor": Recipe(
        "experts and batch on x; heads, hidden units, vocabulary and activations between layers on y",
        {"x": 4, "y": 2},
        {"B": "x", "e": "x", "E": "x", "n": "y", "h": "y", "v": "y", "M": "y", "N": "y", "H": "y", "V": "y"},
    ),
    "dp": Recipe("every device holds all experts", {"x": 8}, {"B": "x"}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. `capacity_percent`: places for tokens at the experts, in percent of what an equal load takes.

    `remat` computes layers again in the backward pass, `dtype` is what is computed in.
    """

    layers: int = 2
    model: int = 64
    heads: int = 4
    head_size: int = 16
    hidden: int = 128
    experts: int = 8
    capacity_percent: int = 125
    vocabulary: int = 16
    sequence: int = 8
    batch: int = 64
    remat: bool = False
    dtype: str = "float32"
    recipe: str = "expert"

    @property
    def capacity(self) -> int:
        """Places at an expert for the tokens of one sequence, each of which goes to two experts."""
        return -(-2 * self.sequence * self.capacity_percent // (100 * self.experts))

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "m": self.model,
            "n": self.heads,
            "d": self.head_size,
            "h": self.hidden,
            "e": self.experts,
            "o": self.experts,
            "v": self.vocabulary,
            "s": self.sequence,
        }


MIXTURE = {
    "gate": Weight("Mo", fan_in="m"),
    "in": Weight("emh", fan_in="m"),
    "out": Weight("ehm", fan_in="h"),
}


def model(config: Config) -> Params:
    """Layers 0, 2, ... are sparse. A decoder's layer attends to the source, too."""

    def layer(index: int) -> Params:
        return {**transformer.LAYER, "mlp": transformer.MLP if index % 2 else MIXTURE}

    def decoding(index: int) -> Params:
        return {**layer(index), "source_norm": transformer.NORM, "source_attention": transformer.ATTENTION}

    return {
        "embedding": Weight("vm", fan_in="m"),
        "positions": Weight("SM", fan_in="m"),
        "encoder": [layer(index) for index in range(config.layers)],
        "decoder": [decoding(index) for index in range(config.layers)],
        "encoder_norm": transformer.NORM,
        "decoder_norm": transformer.NORM,
    }


def top_two(probability: Array, capacity: int) -> tuple[Array, Array]:
    """How much of each expert's places each token takes and gets back, and the loss of unequal load.

    `probability` is [batch, sequence, experts]; the result [batch, sequence, experts, capacity]. Tokens come to an
    expert in the order of the sequence, first choices before second ones; those for whom no place is left are passed on
    unchanged. The loss is 1 where all experts are chosen equally.
    """
    experts = probability.shape[-1]
    first = jax.nn.one_hot(jnp.argmax(probability, axis=-1), experts)
    second = jax.nn.one_hot(jnp.argmax(jnp.where(first > 0, -1.0, probability), axis=-1), experts)
    share = jnp.sum(probability * (first + second), axis=-1, keepdims=True)
    combine, before = jnp.zeros((*probability.shape, capacity)), jnp.zeros(())
    for chosen in (first, second):
        place = jnp.cumsum(chosen, axis=1) - chosen + before
        before = before + jnp.sum(chosen, axis=1, keepdims=True)
        weight = chosen * probability / share
        combine = combine + weight[..., None] * jax.nn.one_hot(place.astype(jnp.int32), capacity)
    load = jnp.mean(first, axis=1) * jnp.mean(probability, axis=1)
    return combine, experts * jnp.mean(jnp.sum(load, axis=-1))


def mixture(config: Config, recipe: Recipe, w: Params, x: Array) -> tuple[Array, Array]:
    """Two experts for every token of `x` [batch, sequence, model]; also the loss of unequal load."""
    probability = jax.nn.softmax(jnp.einsum("bsm,me->bse", x, w["gate"]).astype(jnp.float32))
    combine, imbalance = top_two(probability, config.capacity)
    combine = recipe.split(combine, "BSEC")
    dispatch = recipe.split((combine > 0).astype(x.dtype), "BSEC")
    tokens = recipe.split(jnp.einsum("bsec,bsm->ebcm", dispatch, x), "EBCM")
    hidden = recipe.split(jnp.einsum("ebcm,emh->ebch", tokens, w["in"]), "EBCH")
    made = recipe.split(jnp.einsum("ebch,ehm->ebcm", jax.nn.gelu(hidden), w["out"]), "EBCM")
    return recipe.split(jnp.einsum("bsec,ebcm->bsm", combine.astype(x.dtype), made), "BSM"), imbalance


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Mean cross-entropy of `batch["target"]` given `batch["source"]`, both int32 [batch, sequence]."""
    imbalances: list[Array] = []
    causal = jnp.tril(jnp.ones((config.sequence, config.sequence), bool))
    again = jax.checkpoint if config.remat else lambda layer: layer

    def feed_forward(w: Params, x: Array) -> tuple[Array, list[Array]]:
        normed = transformer.norm(w["mlp_norm"], x)
        if "gate" not in w["mlp"]:
            return x + transformer.mlp(recipe, w["mlp"], normed), []
        made, imbalance = mixture(config, recipe, w["mlp"], normed)
        return x + made, [imbalance]

    def encoding(w: Params, x: Array) -> tuple[Array, list[Array]]:
        normed = transformer.norm(w["attention_norm"], x)
        return feed_forward(w, x + transformer.attention(recipe, w["attention"], normed, normed))

    def decoding(w: Params, x: Array, source: Array) -> tuple[Array, list[Array]]:
        normed = transformer.norm(w["attention_norm"], x)
        x = x + transformer.attention(recipe, w["attention"], normed, normed, causal)
        normed = transformer.norm(w["source_norm"], x)
        return feed_forward(w, x + transformer.attention(recipe, w["source_attention"], normed, source))

    def embedded(tokens: Array) -> Array:
        return recipe.split(params["embedding"][tokens] + params["positions"], "BSM")

    source = embedded(batch["source"])
    for w in params["encoder"]:
        source, more = again(encoding)(w, source)
        imbalances += more
    source = transformer.norm(params["encoder_norm"], source)

    x = embedded(jnp.pad(batch["target"][:, :-1], ((0, 0), (1, 0))))  # token 0 begins a sentence
    for w in params["decoder"]:
        x, more = again(decoding)(w, x, source)
        imbalances += more
    x = transformer.norm(params["decoder_norm"], x)
    logits = recipe.split(jnp.einsum("bsm,vm->bsv", x, params["embedding"]), "BSV")
    translation = layers.cross_entropy(logits, batch["target"])
    imbalance = sum(imbalances) / len(imbalances)
    return translation + 0.01 * imbalance, {"translation": translation, "imbalance": imbalance}


def data(config: Config, step: int) -> Params:
    """The target language has other words, and says them in reverse. Token 0 begins a sentence and is in none."""
    dictionary = 1 + np.random.default_rng(0).permutation(config.vocabulary - 1)
    words = np.random.default_rng(1000 + step).integers(1, config.vocabulary, (config.batch, config.sequence))
    target = dictionary[words[:, ::-1] - 1]
    return {"source": words.astype(np.int32), "target": target.astype(np.int32)}


def program(config: Config, recipe: Recipe) -> Program:
    """Steps of training with Adam."""
    return training(
        functools.partial(loss, config, recipe),
        lambda: weights.init(model(config), config.sizes),
        weights.specs(model(config), recipe),
        functools.partial(data, config),
        recipe.spec("BS"),
        adam(3e-3),
        dtype=config.dtype,
    )

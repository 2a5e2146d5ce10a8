"""One decoder in six parallelisms, from data parallelism to a pipeline of 2-D stages, by annotations alone.

Model, data and optimizer are those of `decoder_lm`, here always the same; a recipe is all that changes. The losses are,
too. `python -m gspmd.examples.parallelisms` prints them side by side.

Source: incremental changes of parallelism are a point of the GSPMD paper (arXiv 2105.04663, sections 3 and 5);
sequence parallelism is that of Korthikanti et al., arXiv 2205.05198.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import gspmd
from gspmd.dialect.errors import UsageError
from gspmd.examples import decoder_lm
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.running import lowered

Array = Any

_TENSOR = {"n": "y", "h": "y", "v": "y", "N": "y", "H": "y", "V": "y"}
_TWO_D = {**_TENSOR, "m": "x", "B": "x", "M": "y"}
RECIPES = {
    "dp": Recipe("data parallelism: the batch on x", {"x": 8}, {"B": "x"}),
    "fsdp": Recipe("fully sharded: the batch, weights and optimizer state on x", {"x": 8}, {"B": "x", "m": "x"}),
    "tp": Recipe("tensor parallelism: heads, hidden units and vocabulary on y", {"y": 8}, _TENSOR),
    "tp-sp": Recipe("tensor and sequence parallelism: positions on y between blocks", {"y": 8}, {**_TENSOR, "P": "y"}),
    "2d": Recipe("2-D: weights on x and y, the batch on x, activations on y", {"x": 4, "y": 2}, _TWO_D),
    "pipeline-2d": Recipe(
        "a pipeline of 2-D stages: layers on stage; outside of the layers, the batch on stage, too; the rest as in 2-D",
        {"stage": 2, "x": 2, "y": 2},
        {**_TWO_D, "l": "stage", "E": ("x", "stage")},
    ),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model and of its batch (counts of elements), and microbatches where there is a pipeline.

    `remat`, `dtype` and `optimizer` are those of the decoder.
    """

    layers: int = 4
    model: int = 64
    heads: int = 8
    head_size: int = 8
    hidden: int = 256
    vocabulary: int = 128
    sequence: int = 32
    batch: int = 16
    microbatches: int = 4
    remat: bool = False
    dtype: str = "float32"
    optimizer: str = "adam"
    recipe: str = "dp"

    @property
    def decoder(self) -> decoder_lm.Config:
        """The model: layers are stacked."""
        sizes = dataclasses.asdict(self)
        return decoder_lm.Config(scan=True, **{k: v for k, v in sizes.items() if k not in ("microbatches", "recipe")})


def program(config: Config, recipe: Recipe) -> Program:
    """Training. What the recipe splits layers over are a pipeline's stages, which share the batch outside of it."""
    stages = recipe.size("l")
    if config.layers % stages:
        raise UsageError(f"{config.layers} layers make no {stages} equal stages", hint="set 'layers' to a multiple")

    def pipelined(decoder: decoder_lm.Config, outside: Recipe, x: Array, layers: Any) -> Array:
        if stages == 1:
            return decoder_lm.blocks(decoder, outside, x, layers)
        by_stage = jax.tree.map(lambda w: w.reshape(stages, w.shape[0] // stages, *w.shape[1:]), layers)
        run = gspmd.pipeline(
            lambda w, x: decoder_lm.blocks(decoder, recipe, x, w), stages, config.microbatches, axis=recipe.axes("l")
        )
        return outside.split(run(by_stage, x), "BPM")

    return decoder_lm.program(config.decoder, recipe.renamed({"B": "E"}) if stages > 1 else recipe, pipelined)


def losses(config: Config, steps: int, recipes: Mapping[str, Recipe]) -> dict[str, list[float]]:
    """The losses of every step, by recipe, each partitioned over its own mesh."""
    found: dict[str, list[float]] = {}
    for name, recipe in recipes.items():
        made = program(config, recipe)
        step = lowered(made, recipe.mesh).compile()
        state, found[name] = made.init(), []
        for index in range(steps):
            state, metrics = step(state, made.batch(index))
            found[name].append(float(np.asarray(metrics["loss"])))
    return found


def table(found: Mapping[str, Sequence[float]]) -> str:
    """Losses side by side, a line a step."""
    lines = ["step  " + "  ".join(f"{name:>11}" for name in found)]
    for step, values in enumerate(zip(*found.values(), strict=True)):
        lines.append(f"{step:4}  " + "  ".join(f"{value:11.6f}" for value in values))
    return "\n".join(lines)


def main() -> None:
    """Print the losses of all recipes, run on virtual CPU devices."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    print(table(losses(Config(), 10, RECIPES)))


if __name__ == "__main__":
    main()

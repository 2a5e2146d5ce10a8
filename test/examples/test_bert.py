"""The masked language model: what weight-update sharding saves, and what is sent for it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import jax
import numpy as np
import pytest
from support.example_moves import STATE_TOLERANCE, errors, losses, of_kind, sent, step

from gspmd.examples import bert as example

# The vocabulary is uneven over every axis.
CONFIG = example.Config(layers=1, model=48, hidden=96, vocabulary=33, topics=4, sequence=16, batch=32)
EVEN = dataclasses.replace(CONFIG, vocabulary=32)


def by(recipe: str, config: example.Config = CONFIG) -> example.Config:
    return dataclasses.replace(config, recipe=recipe)


def shapes(config: example.Config) -> list[tuple[int, ...]]:
    return [leaf.shape(config.sizes) for leaf in jax.tree.leaves(example.model(config))]


def moment_bytes(config: example.Config) -> int:
    """Of the optimizer's state, on one device."""
    program = example.program(config, example.RECIPES[config.recipe])
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(program.abstract())]
    values = step(example, config).partitioned.signature.inputs
    return sum(
        4 * math.prod(value.sharding.local_shape(value.shape))
        for path, value in zip(paths, values, strict=True)
        if "'moments'" in path
    )


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


def test_the_optimizers_state_takes_an_eighth_where_its_update_is_split_over_eight_devices() -> None:
    assert moment_bytes(by("dp+update", EVEN)) * 8 == moment_bytes(by("dp", EVEN))


def test_gradients_are_scattered_and_weights_gathered_once_each() -> None:
    found = sent(example, by("dp+update"))
    expected = Counter(map(math.prod, shapes(EVEN)))
    even = sent(example, by("dp+update", EVEN))
    assert Counter(each.elements for each in of_kind(even, "reduce_scatter")) == expected
    assert Counter(each.elements for each in of_kind(even, "all_gather")) == expected
    for kind in ("reduce_scatter", "all_gather"):
        assert len(of_kind(found, kind)) == len(shapes(CONFIG)), "uneven shards make no difference"
    assert {each.given for each in of_kind(found, "all_reduce")} == {()}, "the loss and the share of hits"


def test_data_parallelism_reduces_each_gradient_once() -> None:
    found = sent(example, by("dp"))
    # Before or after a gradient is transposed.
    reduced = Counter(tuple(sorted(each.given)) for each in found if each.given)
    assert reduced == Counter(tuple(sorted(shape)) for shape in shapes(CONFIG))
    assert {each.kind for each in found} == {"all_reduce"}


def test_two_dimensional_sharding_moves_activations_along_y_alone_and_reduces_no_matrix_whole() -> None:
    found = sent(example, by("2d", EVEN))
    activations = [each for each in found if each.given[:2] == (EVEN.batch // 4, EVEN.sequence)]
    assert {each.axes for each in activations} == {"y"}
    table = EVEN.vocabulary * EVEN.model // 2
    others = of_kind(found, "all_to_all", "collective_permute")
    assert all(each.elements <= table for each in others), "parts of the table of words alone"
    gradients = [each for each in of_kind(found, "all_reduce") if each.axes == "x"]
    assert max(each.elements for each in gradients) <= EVEN.sequence * EVEN.model, "no more than the positions'"


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG)
    assert np.mean(found[-5:]) < 0.75 * np.mean(found[:5])

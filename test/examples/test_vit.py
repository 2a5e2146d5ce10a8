"""The Vision Transformer, its patches split unevenly among others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from example_moves import STATE_TOLERANCE, errors, losses, of_kind, sent

from gspmd.examples import vit as example
from gspmd.examples.common.pictures import patches

CONFIG = example.Config(layers=1, model=48, hidden=96, batch=24)  # 65 tokens
# To look at what is sent where the batch is split: activations larger than weights, and heads together more than
# twice as wide as the model, so that what is made of them is less to send. Nothing of this size is run.
LARGE = dataclasses.replace(CONFIG, batch=192, head_size=32)
SHARD = 17  # of the tokens over four devices


def by(recipe: str, config: example.Config = CONFIG) -> example.Config:
    return dataclasses.replace(config, recipe=recipe)


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


def test_split_patches_gather_keys_and_values_and_scatter_their_gradients() -> None:
    found = sent(example, by("patches"))
    heads = (CONFIG.batch // 2, SHARD, CONFIG.heads, CONFIG.head_size)
    assert [each.given for each in of_kind(found, "all_gather")] == [heads, heads]
    assert [each.got for each in of_kind(found, "reduce_scatter")] == [heads, heads]
    assert not of_kind(found, "all_to_all")


def test_pixels_of_split_patches_pass_to_the_neighbour_where_the_class_token_shifts_them() -> None:
    (shift,) = of_kind(sent(example, by("patches")), "collective_permute")
    assert shift.axes == "x"
    assert shift.elements <= 2 * CONFIG.batch // 2 * CONFIG.sizes["i"], "two patches of each picture"


def test_no_activations_of_split_patches_are_reduced_but_the_class_token() -> None:
    found = of_kind(sent(example, by("patches")), "all_reduce")
    local = CONFIG.batch // 2
    assert [each.given for each in found if each.given[:1] == (local,)] == [(local, CONFIG.model)]


def test_data_parallelism_only_reduces_gradients_and_metrics() -> None:
    found = sent(example, by("dp", LARGE))
    assert {each.kind for each in found} == {"all_reduce"}
    assert not [each for each in found if each.given[:2] == (LARGE.batch // 8, LARGE.tokens)]


def test_two_dimensional_sharding_moves_activations_along_y_alone_and_gathers_seven_weights_along_x() -> None:
    found = sent(example, by("2d", LARGE))
    activations = [each for each in found if (LARGE.batch // 4, LARGE.tokens) in (each.given[:2], each.got[:2])]
    assert {each.axes for each in activations} == {"y"}
    gathered = [each for each in of_kind(found, "all_gather") if each not in activations]
    weights = [each for each in gathered if each.axes == "x"]
    assert len(weights) == 7, "of patches, attention and the two dense layers"
    others = [each for each in gathered if each not in weights]
    assert {each.axes for each in others} == {"y"}
    assert max(each.elements for each in others) <= LARGE.tokens * LARGE.model, "positions, scales, the class token"


def test_patches_are_cut_row_by_row() -> None:
    image = np.arange(16).reshape(1, 4, 4, 1)
    cut = np.asarray(patches(image, 2))
    assert cut.tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]]


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG)
    assert np.mean(found[-5:]) < 0.7 * np.mean(found[:5])

"""The Vision Transformer, its patches split unevenly among others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.example_moves import STATE_TOLERANCE, errors, losses, of_kind, sent

from gspmd.examples import vit as example
from gspmd.examples.common.pictures import patches

CONFIG = example.Config(layers=1, model=48, hidden=96, batch=24)  # 65 tokens
# To look at what is sent where the batch is split: activations larger than weights, and heads together more than
# twice as wide as the model, so that what is made of them is less to send. Nothing of this size is run.
LARGE = dataclasses.replace(CONFIG, batch=192, head_size=32)
FEW = dataclasses.replace(CONFIG, batch=2)  # pictures, one for each part of the devices that share patches
SHARD = 17  # of the tokens over four devices


def by(recipe: str, config: example.Config = CONFIG) -> example.Config:
    return dataclasses.replace(config, recipe=recipe)


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


def test_split_patches_send_no_more_than_keys_and_values_and_their_gradients() -> None:
    """Where the batch cannot be split further. Gradients of weights, split over the batch as well, are not counted."""
    config = by("patches", FEW)
    keys = config.batch // 2 * config.tokens * config.heads * config.head_size
    along = [each for each in sent(example, config, as_written=False) if each.axes == "x"]
    weights = [each for each in along if each.given[:1] == (config.model,)]
    assert {(each.kind, each.got) for each in weights} == {("all_gather", (48, 4, 16))}
    assert len(weights) == 3, "the gradients of queries, keys and values"
    along = [each for each in along if each not in weights]
    assert 0 < sum(each.elements for each in along) <= 4 * keys
    assert not of_kind(tuple(along), "collective_permute"), "of pixels, which the class token shifts"


def test_no_activations_of_split_patches_are_reduced() -> None:
    config = by("patches", FEW)
    found = of_kind(sent(example, config, as_written=False), "all_reduce")
    assert not [each for each in found if each.given[1:2] in ((SHARD,), (config.tokens,))]


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
    assert len(weights) == 7, "of the patches, of attention and of the two dense layers"
    rest = [each for each in gathered if each not in weights]
    assert [each.got for each in rest] == [(48, 12)], (
        "a shard of a weight, before it is gathered; all else is as it lies"
    )


def test_patches_are_cut_row_by_row() -> None:
    image = np.arange(16).reshape(1, 4, 4, 1)
    cut = np.asarray(patches(image, 2))
    assert cut.tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]]


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG)
    assert np.mean(found[-5:]) < 0.7 * np.mean(found[:5])

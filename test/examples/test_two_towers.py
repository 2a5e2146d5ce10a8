"""The model of two towers: each moves what its own parallelism does, and between them go vectors alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from example_moves import STATE_TOLERANCE, Sent, errors, losses, sent

from gspmd.examples import two_towers as example

# No dimension of one tower is as large as one of the other.
CONFIG = example.Config(
    layers=1, image=20, image_model=40, image_hidden=80, text_model=48, text_hidden=96, sequence=6, vector=28
)
IMAGE_TOKENS = CONFIG.image_sizes["s"]
VECTORS = CONFIG.batch * CONFIG.vector


def by(recipe: str) -> example.Config:
    return dataclasses.replace(CONFIG, recipe=recipe)


def activations(found: tuple[Sent, ...], tokens: int) -> list[Sent]:
    """What moves values of a tower with so many tokens a picture or caption."""
    return [each for each in found if len(each.given) == 3 and each.given[1] == tokens]


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


def test_each_tower_communicates_by_its_own_parallelism() -> None:
    found = sent(example, by("towers"))
    assert not activations(found, IMAGE_TOKENS), "pictures are data parallel"
    captions = activations(found, CONFIG.sequence)
    local = (CONFIG.batch // 4, CONFIG.sequence, CONFIG.text_model)
    assert [(each.kind, each.axes, each.given) for each in captions] == [("all_reduce", "y", local)] * 4


def test_the_towers_swap_their_parallelisms_by_the_recipe() -> None:
    found = sent(example, by("swapped"))
    assert not activations(found, CONFIG.sequence), "captions are data parallel"
    pictures = activations(found, IMAGE_TOKENS)
    local = (CONFIG.batch // 4, IMAGE_TOKENS, CONFIG.image_model)
    assert [(each.kind, each.axes, each.given) for each in pictures] == [("all_reduce", "y", local)] * 4


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_between_the_towers_the_vectors_of_the_batch_are_gathered_and_scattered_once(recipe: str) -> None:
    found = [each for each in sent(example, by(recipe)) if each.kind != "all_reduce"]
    assert all(each.elements <= VECTORS for each in found)
    whole = [each.kind for each in found if each.elements == VECTORS]
    assert sorted(whole) == ["all_gather", "reduce_scatter"]
    smaller = [each for each in found if each.elements < VECTORS]
    assert all(each.kind == "all_gather" and each.axes == "y" for each in smaller), "from all devices to those on x"
    assert len(smaller) <= (recipe != "dp")


def test_gradients_are_reduced_over_the_axes_of_each_towers_batch() -> None:
    reduced = {(each.given, each.axes) for each in sent(example, by("towers")) if each.kind == "all_reduce"}
    assert ((CONFIG.image_model, CONFIG.image_hidden), "x, y") in reduced
    assert ((CONFIG.text_model, CONFIG.text_hidden // 2), "x") in reduced


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG)
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])

"""The model of two towers: each moves what its own parallelism does, and between them go vectors alone."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from support.example_moves import STATE_TOLERANCE, Sent, errors, losses, of_kind, sent

from gspmd.examples import two_towers as example

# No dimension of one tower is as large as one of the other.
CONFIG = example.Config(
    layers=1, image=20, image_model=40, image_hidden=80, text_model=48, text_hidden=96, sequence=6, vector=28
)
# To look at what is sent: more examples, so that these and not latencies decide, and heads as wide as hidden units, so
# that mixed values take more than what is made of them. Nothing of this size is run.
LARGE = dataclasses.replace(CONFIG, batch=512, head_size=32)
IMAGE_TOKENS = LARGE.image_sizes["s"]


def by(recipe: str, config: example.Config = LARGE) -> example.Config:
    return dataclasses.replace(config, recipe=recipe)


def activations(found: tuple[Sent, ...], tokens: int) -> list[Sent]:
    """What moves values of a tower with so many tokens a picture or caption, split or not."""
    return [each for each in found if len(each.given) == 3 and tokens in (each.given[1], each.got[1])]


def check_reduced(found: list[Sent], local: tuple[int, ...], times: int) -> None:
    """Sums over y of values of this local shape, and nothing else: each once, or scattered and gathered."""
    assert {each.axes for each in found} == {"y"}
    assert all(local in (each.given, each.got) for each in found)
    kinds = Counter(each.kind for each in found)
    assert kinds.keys() <= {"all_reduce", "reduce_scatter", "all_gather"}
    assert kinds["reduce_scatter"] == kinds["all_gather"]
    assert kinds["all_reduce"] + kinds["reduce_scatter"] == times
    assert all(
        2 * min(map(math.prod, (each.given, each.got))) == each.elements for each in of_kind(tuple(found), "all_gather")
    )


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe, CONFIG))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


def test_each_tower_communicates_by_its_own_parallelism() -> None:
    found = sent(example, by("towers"))
    assert not activations(found, IMAGE_TOKENS), "pictures are data parallel"
    captions = activations(found, LARGE.sequence)
    check_reduced(captions, (LARGE.batch // 4, LARGE.sequence, LARGE.text_model), 4)


def test_the_towers_swap_their_parallelisms_by_the_recipe() -> None:
    found = sent(example, by("swapped"))
    assert not activations(found, LARGE.sequence), "captions are data parallel"
    pictures = activations(found, IMAGE_TOKENS)
    check_reduced(pictures, (LARGE.batch // 4, IMAGE_TOKENS, LARGE.image_model), 4)


@pytest.mark.parametrize(("recipe", "others"), [("dp", 0), ("towers", 1), ("swapped", 2)])
def test_between_the_towers_the_vectors_of_the_batch_are_gathered_and_scattered_once(recipe: str, others: int) -> None:
    found = [each for each in sent(example, by(recipe)) if each.kind != "all_reduce" and len(each.given) == 2]
    (gathered,) = [each for each in found if each.got == (LARGE.batch, LARGE.vector)]
    assert gathered.kind == "all_gather"
    (scattered,) = [each for each in found if each.given[0] == LARGE.batch]
    assert scattered.kind == "reduce_scatter"
    # Where the towers' batches are split differently, from all devices to those on x.
    smaller = [each for each in found if each not in (gathered, scattered)]
    assert len(smaller) == others
    assert all(each.axes == "y" and each.elements <= LARGE.batch // 4 * LARGE.vector for each in smaller)


def test_gradients_are_reduced_over_the_axes_of_each_towers_batch() -> None:
    reduced = {(each.given, each.axes) for each in sent(example, by("towers")) if each.kind == "all_reduce"}
    assert ((LARGE.image_model, LARGE.image_hidden), "x, y") in reduced
    assert ((LARGE.text_model, LARGE.text_hidden // 2), "x") in reduced


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG)
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])

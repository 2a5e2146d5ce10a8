"""The sparse translation model: its experts exchange tokens, and nothing gathers them."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from support.example_moves import STATE_TOLERANCE, errors, losses, of_kind, sent

from gspmd.examples import moe_translation as example

# No two dimensions are equal. One layer each: one mixture of experts in the encoder, one in the decoder.
CONFIG = example.Config(layers=1, model=48, heads=4, head_size=16, hidden=96, vocabulary=12, sequence=6, batch=64)
# To look at what data parallelism sends: more tokens than their experts' gradients. Nothing of this size is run.
LARGE_BATCH = dataclasses.replace(CONFIG, batch=512, recipe="dp")
MIXTURES = 2
TOKENS = CONFIG.experts * CONFIG.batch * CONFIG.capacity * CONFIG.model  # of a mixture, at their experts


def by(recipe: str) -> example.Config:
    return dataclasses.replace(CONFIG, recipe=recipe)


@pytest.mark.parametrize("recipe", example.RECIPES)
def test_five_steps_agree_with_one_device(recipe: str) -> None:
    metric_error, state_error = errors(example, by(recipe))
    assert metric_error <= 1e-5
    assert state_error <= STATE_TOLERANCE


@pytest.mark.parametrize("recipe", ["expert", "expert+tensor"])
def test_tokens_are_exchanged_twice_forward_and_twice_backward_in_each_mixture(recipe: str) -> None:
    exchanged = [each for each in of_kind(sent(example, by(recipe)), "all_to_all") if each.axes == "x"]
    assert [each.elements for each in exchanged] == [TOKENS // 8] * 4 * MIXTURES


def test_experts_split_as_the_batch_are_reached_by_exchanges_alone() -> None:
    found = sent(example, by("expert"))
    assert {each.kind for each in found} == {"all_to_all", "all_reduce"}
    weights = CONFIG.hidden * CONFIG.model
    assert max(each.elements for each in of_kind(found, "all_reduce")) <= weights, "no expert's gradient is reduced"


def test_with_split_hidden_units_nothing_is_gathered_along_the_batch() -> None:
    found = sent(example, by("expert+tensor"))
    assert not [each for each in of_kind(found, "all_gather", "reduce_scatter") if each.axes != "y"]


def test_data_parallel_experts_only_reduce_gradients() -> None:
    found = sent(example, LARGE_BATCH)
    assert {each.kind for each in found} == {"all_reduce"}
    local_batch = LARGE_BATCH.batch // 8
    assert not [each for each in found if each.given[:2] == (local_batch, LARGE_BATCH.sequence)]


def test_each_token_goes_to_its_two_best_experts_as_long_as_there_is_place() -> None:
    probability = jnp.array([[[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.7, 0.2, 0.1]]])
    combine, imbalance = example.top_two(probability, capacity=2)
    taken = np.asarray(combine[0])
    np.testing.assert_allclose(taken[0, 0], [0.5 / 0.8, 0], rtol=1e-6)
    np.testing.assert_allclose(taken[1, 0], [0, 0.6 / 0.9], rtol=1e-6)
    assert not taken[2, 0].any(), "the third token that chooses expert 0 finds no place there"
    np.testing.assert_allclose(taken[0, 1], [0.3 / 0.8, 0], rtol=1e-6)
    np.testing.assert_allclose(taken[2, 1], [0, 0.2 / 0.9], rtol=1e-6)
    np.testing.assert_allclose(taken[1, 2], [0.3 / 0.9, 0], rtol=1e-6)
    assert imbalance == pytest.approx(3 * 0.6)


def test_the_loss_falls() -> None:
    found = losses(example, CONFIG, steps=40)
    assert np.mean(found[-5:]) < 0.9 * np.mean(found[:5])

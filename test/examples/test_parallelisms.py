"""One model under six configurations: the same losses, and of each the communication that it is known for."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest
from support.example_moves import BOUND

import gspmd
from gspmd.examples import parallelisms
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered

SMALL = parallelisms.Config(
    layers=2, model=16, heads=8, head_size=4, hidden=32, vocabulary=32, sequence=8, batch=8, microbatches=2
)
STEPS = 5

# To look at what is sent: sizes at which a parallelism is the one that sends least. Nothing of these is run.
# Of data parallelism and pipelines, activations are larger than weights.
BATCHES = dataclasses.replace(SMALL, model=64, head_size=8, hidden=256, vocabulary=128, sequence=32, batch=64)
# Of a large model, weights do not fit on every device: those of a layer are gathered in the loop, and dropped.
MODEL = dataclasses.replace(SMALL, model=2048, heads=16, head_size=128, hidden=8192, vocabulary=32768)
FULL = dataclasses.replace(MODEL, sequence=1024, batch=64)
FEW_TOKENS = dataclasses.replace(MODEL, sequence=128, batch=8)  # activations are smaller than weights


@functools.cache
def step(recipe: str, config: parallelisms.Config = SMALL) -> gspmd.Lowered:
    row = parallelisms.RECIPES[recipe]
    return lowered(parallelisms.program(config, row), row.mesh, options=BOUND)


@pytest.fixture(scope="module")
def losses() -> dict[str, list[float]]:
    """Of every step, by recipe and on one device."""
    found: dict[str, list[float]] = {}
    expected: list[float] = []
    single = parallelisms.program(SMALL, ONE_DEVICE)
    for name, row in parallelisms.RECIPES.items():
        found[name] = []
        for each in compare(parallelisms.program(SMALL, row), single, row.mesh, STEPS, step(name).compile()):
            found[name].append(float(each.partitioned["loss"]))
            expected.append(float(each.single["loss"]))
            assert each.state_error <= 5e-4, (name, each)  # seen: 1e-4, of Adam's first steps
    return {**found, "one device": expected[:STEPS]}


def test_all_six_have_the_losses_of_one_device(losses: dict[str, list[float]]) -> None:
    expected = losses["one device"]
    assert len(losses) == 7
    for name, found in losses.items():
        np.testing.assert_allclose(found, expected, rtol=2e-6, err_msg=name)
    assert expected[-1] < expected[0]


def test_losses_are_printed_side_by_side(losses: dict[str, list[float]]) -> None:
    lines = parallelisms.table(losses).splitlines()
    assert len(lines) == 1 + STEPS
    assert lines[0].split() == ["step", *parallelisms.RECIPES, "one", "device"]
    assert len(set(lines[1].split()[1:])) <= 2, "to six decimals"


def kinds(recipe: str, axis: str, config: parallelisms.Config, sent: int | None = None) -> Counter[str]:
    """How often a step runs collectives of each kind over this axis, all or those that send so many bytes."""
    found: Counter[str] = Counter()
    for collective in step(recipe, config).partitioned.collectives:
        if f'"{axis}"' in collective.axes and sent in (None, collective.bytes):
            found[collective.kind] += collective.count or 1
    return found


def activation(config: parallelisms.Config) -> int:
    """Bytes of what goes from block to block."""
    return config.batch * config.sequence * config.model * 4


def test_data_parallelism_reduces_gradients() -> None:
    """Of the loss, of three parameters outside of layers, and of twelve of each layer, in the loop."""
    assert kinds("dp", "x", BATCHES) == {"all_reduce": 1 + 3 + 12 * BATCHES.layers}


def test_fully_sharded_data_parallelism_gathers_weights_forward_and_backward_and_scatters_gradients() -> None:
    matrices = 6 * FULL.layers
    found = kinds("fsdp", "x", FULL)
    assert found["all_gather"] == 2 * matrices + 1
    assert found["reduce_scatter"] == matrices + 1
    assert found["all_to_all"] == found["collective_permute"] == 0


def test_tensor_parallelism_reduces_activations_once_a_block_and_direction_some_in_two_halves_of_the_same_bytes() -> (
    None
):
    """And where words are looked up and logits made. A sum may be scattered and gathered, with a norm in between."""
    half = activation(FEW_TOKENS) * 7 // 8
    whole = kinds("tp", "y", FEW_TOKENS, 2 * half)
    halves = kinds("tp", "y", FEW_TOKENS, half)
    assert set(whole) <= {"all_reduce"}
    assert set(halves) <= {"reduce_scatter", "all_gather"}
    assert halves["reduce_scatter"] == halves["all_gather"]
    assert whole["all_reduce"] + halves["reduce_scatter"] == 4 * FEW_TOKENS.layers + 2
    others = [c.bytes for c in step("tp", FEW_TOKENS).partitioned.collectives if c.bytes not in (half, 2 * half)]
    assert max(others) <= 2 * FEW_TOKENS.model * 4, "of norms and the softmax"


def test_sequence_parallelism_scatters_and_gathers_what_tensor_parallelism_reduces() -> None:
    """What is gathered for a product is kept for the gradient of its weight."""
    half = activation(FEW_TOKENS) * 7 // 8
    sums = 4 * FEW_TOKENS.layers + 2
    assert kinds("tp-sp", "y", FEW_TOKENS, half) == {"reduce_scatter": sums, "all_gather": sums}
    found = kinds("tp-sp", "y", FEW_TOKENS)
    assert found["reduce_scatter"] == sums + 1, "of the softmax of a token's word"
    assert found["all_gather"] == sums + FEW_TOKENS.layers, "of the biases behind the dense layers"
    assert found["all_to_all"] == found["collective_permute"] == 0
    reduced = [c.bytes for c in step("tp-sp", FEW_TOKENS).partitioned.collectives if c.kind == "all_reduce"]
    assert max(reduced) < activation(FEW_TOKENS) / 4


def test_the_pipeline_sends_one_permute_a_step_each_way() -> None:
    """Between stages. Outside of them these share the batch, whose shards go to the stages, and what the last stage
    makes goes back; so do gradients.
    """
    stages = parallelisms.RECIPES["pipeline-2d"].size("l")
    steps = BATCHES.microbatches + stages - 1
    microbatch = activation(BATCHES) // BATCHES.microbatches // 2 // 2  # and so is an example's shard outside
    found = kinds("pipeline-2d", "stage", BATCHES, microbatch)
    assert found["collective_permute"] == 2 * steps
    assert found.total() == 2 * steps + 4
    assert found["reduce_scatter"] == 2, "of what is zero on all stages but the last"
    every = kinds("pipeline-2d", "stage", BATCHES)
    # Gradients of the embedding, of scale and bias, and the loss; one is reduced and gathered in two steps.
    small = {"all_reduce": 3, "reduce_scatter": 1, "all_gather": 1}
    assert every - found == small


def test_weights_of_a_pipeline_stay_on_their_stage() -> None:
    values = {v.name: v for v in step("pipeline-2d").partitioned.signature.inputs}
    weight = values["state['params']['layers']['mlp_in']"]
    assert weight.shape == (2, 16, 32)
    assert weight.local_shape == (1, 8, 16)


def test_stages_are_equal() -> None:
    config = dataclasses.replace(SMALL, layers=3)
    with pytest.raises(gspmd.UsageError, match="3 layers make no 2 equal stages; set 'layers' to a multiple"):
        parallelisms.program(config, parallelisms.RECIPES["pipeline-2d"])

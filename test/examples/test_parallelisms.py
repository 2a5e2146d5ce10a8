"""One model under six configurations: the same losses, and of each the communication that it is known for."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest

import gspmd
from gspmd.examples import parallelisms
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered

SMALL = parallelisms.Config(
    layers=2, model=16, heads=8, head_size=4, hidden=32, vocabulary=32, sequence=8, batch=8, microbatches=2
)
STEPS = 5


@functools.cache
def step(recipe: str) -> gspmd.Lowered:
    row = parallelisms.RECIPES[recipe]
    return lowered(parallelisms.program(SMALL, row), row.mesh)


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


def kinds(recipe: str, axis: str) -> Counter[str]:
    """How often a step runs collectives of each kind over this axis."""
    found: Counter[str] = Counter()
    for collective in step(recipe).partitioned.collectives:
        if f'"{axis}"' in collective.axes:
            found[collective.kind] += collective.count or 1
    return found


def test_data_parallelism_reduces_gradients() -> None:
    """Of the loss, of three parameters outside of layers, and of twelve of each layer, in the loop."""
    assert kinds("dp", "x") == {"all_reduce": 1 + 3 + 12 * SMALL.layers}


def test_fully_sharded_data_parallelism_gathers_weights_forward_and_backward_and_scatters_gradients() -> None:
    matrices = 6 * SMALL.layers
    found = kinds("fsdp", "x")
    assert found["all_gather"] == 2 * matrices + 1
    assert found["reduce_scatter"] == matrices + 1


def test_tensor_parallelism_reduces_activations_once_a_block_and_direction() -> None:
    activation = SMALL.batch * SMALL.sequence * SMALL.model * 4 * 2 * 7 // 8
    whole = [c.count or 1 for c in step("tp").partitioned.collectives if c.bytes == activation]
    assert sum(whole) == 4 * SMALL.layers + 1


def test_sequence_parallelism_scatters_and_gathers_what_tensor_parallelism_reduces() -> None:
    """Gathered again for the gradients of weights: two products forward, two backward, two for weights."""
    found = kinds("tp-sp", "y")
    assert found["reduce_scatter"] == 4 * SMALL.layers + 2
    assert found["all_gather"] == 6 * SMALL.layers + 2
    assert found["all_to_all"] == found["collective_permute"] == 0
    activation = SMALL.batch * SMALL.sequence * SMALL.model * 4
    reduced = [c.bytes for c in step("tp-sp").partitioned.collectives if c.kind == "all_reduce"]
    assert max(reduced) < activation / 4


def test_the_pipeline_sends_one_permute_a_step_each_way() -> None:
    """Between stages. Outside of them these share the batch, whose shards go to the stages and come back once."""
    stages = parallelisms.RECIPES["pipeline-2d"].size("l")
    steps = SMALL.microbatches + stages - 1
    found = kinds("pipeline-2d", "stage")
    assert found["collective_permute"] == 2 * steps
    assert set(found) <= {"collective_permute", "all_to_all", "reduce_scatter", "all_reduce"}
    assert found["all_to_all"] + found["reduce_scatter"] == 4
    assert found["all_reduce"] == 4  # the loss, and gradients outside the stages: the embedding, scale and bias


def test_weights_of_a_pipeline_stay_on_their_stage() -> None:
    values = {v.name: v for v in step("pipeline-2d").partitioned.signature.inputs}
    weight = values["state['params']['layers']['mlp_in']"]
    assert weight.shape == (2, 16, 32)
    assert weight.local_shape == (1, 8, 16)


def test_stages_are_equal() -> None:
    config = dataclasses.replace(SMALL, layers=3)
    with pytest.raises(gspmd.UsageError, match="3 layers make no 2 equal stages; set 'layers' to a multiple"):
        parallelisms.program(config, parallelisms.RECIPES["pipeline-2d"])

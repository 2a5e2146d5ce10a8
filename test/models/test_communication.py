"""What is communicated in a training step, and how often: as one who writes the collectives by hand would do it.

The decoder's sizes tell its dimensions apart: no two of batch, sequence, model, hidden and vocabulary are equal.
"""

from __future__ import annotations

import math

import pytest
from traced import Move, moves

from gspmd.examples import decoder_lm, mlp

BATCH, SEQUENCE, MODEL, HIDDEN, VOCABULARY, HEADS, HEAD_SIZE = 8, 32, 64, 256, 128, 4, 16
LAYERS = 2
LAYER_MATRICES = 6  # query, key, value, output, mlp_in, mlp_out
LAYER_VECTORS = 6
SIZES = {"model": MODEL, "hidden": HIDDEN, "vocabulary": VOCABULARY, "sequence": SEQUENCE, "batch": BATCH}
# Large enough that time on the wire counts, and not the latency of a collective.
LARGE = {"model": 1024, "heads": 16, "head_size": 64, "hidden": 4096, "vocabulary": 8192, "sequence": 256, "batch": 96}

ACTIVATION = (BATCH, SEQUENCE, MODEL)


def decoder(recipe: str, scan: bool = False, mesh: str = "4x2") -> tuple[Move, ...]:
    return moves(decoder_lm, decoder_lm.Config(recipe=recipe, scan=scan, layers=LAYERS, **SIZES), mesh)


def kinds(found: tuple[Move, ...]) -> dict[str, int]:
    return {kind: sum(m.kind == kind for m in found) for kind in sorted({m.kind for m in found})}


def is_activation(move: Move, batch: int) -> bool:
    return batch in move.shape[:2]


# ---- the perceptron ----


@pytest.mark.parametrize("mesh", ["8", "4x2", "2x2x2"])
def test_data_parallelism_reduces_each_gradient_once_and_the_loss(mesh: str) -> None:
    found = moves(mlp, mlp.Config(recipe="dp"), mesh)
    assert kinds(found) == {"all_reduce": 5}
    assert sorted(math.prod(m.shape) for m in found) == [1, 64, 256, 64 * 256, 64 * 256]


def test_tensor_parallelism_of_a_perceptron_reduces_its_output_once() -> None:
    found = moves(mlp, mlp.Config(recipe="tp"), "4x2")
    over_y = [m for m in found if '"y"' in m.axes]
    assert [(m.kind, m.shape) for m in over_y] == [("all_reduce", (64, 64))]
    assert kinds(tuple(m for m in found if m not in over_y)) == {"all_reduce": 5}


@pytest.mark.parametrize("mesh", ["8", "4x2", "2x2x2"])
def test_fully_sharded_weights_are_gathered_and_their_gradients_scattered(mesh: str) -> None:
    config = mlp.Config(recipe="fsdp", batch=96)
    found = moves(mlp, config, mesh)
    assert [m.shape for m in found if m.kind == "all_gather"] == [(64, 256), (256, 64)]
    assert [m.shape for m in found if m.kind == "reduce_scatter"] == [(64, 256), (256, 64)]
    assert kinds(found) == {"all_gather": 2, "all_reduce": 3, "reduce_scatter": 2}
    assert not [m for m in found if is_activation(m, 96)]


# ---- the decoder: data parallelism ----


def test_a_data_parallel_decoder_reduces_each_gradient_once_and_the_loss() -> None:
    found = decoder("dp")
    assert kinds(found) == {"all_reduce": LAYERS * (LAYER_MATRICES + LAYER_VECTORS) + 3 + 1}
    assert not [m for m in found if is_activation(m, BATCH)]


# ---- the decoder: fully sharded data parallelism ----


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_each_fully_sharded_weight_is_gathered_once_in_each_loop_it_is_used_in(scan: bool) -> None:
    gathers = [m for m in decoder("fsdp", scan) if m.kind == "all_gather" and not is_activation(m, BATCH)]
    layers = [m for m in gathers if m.shape != (VOCABULARY, MODEL)]
    assert len(gathers) - len(layers) == 1, "the embedding is gathered once for both its uses"
    if scan:  # the loop forward, and the loop backward
        assert len(layers) == 2 * LAYER_MATRICES
        assert all(m.in_loop for m in layers), "never are the weights of all layers gathered together"
    else:
        assert len(layers) == LAYERS * LAYER_MATRICES


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_each_fully_sharded_gradient_is_scattered_once(scan: bool) -> None:
    scatters = [m for m in decoder("fsdp", scan) if m.kind == "reduce_scatter"]
    assert len(scatters) == (1 if scan else LAYERS) * LAYER_MATRICES + 1
    assert not [m for m in scatters if is_activation(m, BATCH)]
    matrices = {(MODEL, HIDDEN), (HIDDEN, MODEL), (VOCABULARY, MODEL)}
    heads = {(MODEL, HEADS, HEAD_SIZE), (HEADS, HEAD_SIZE, MODEL)}
    assert {m.shape for m in scatters} == matrices | heads


def test_no_matrix_gradient_of_a_fully_sharded_decoder_is_reduced_whole() -> None:
    reduced = [m for m in decoder("fsdp") if m.kind == "all_reduce"]
    assert max(math.prod(m.shape) for m in reduced) <= HIDDEN


# ---- the decoder: tensor parallelism ----


def over_y(found: tuple[Move, ...], batch: int) -> list[Move]:
    """What moves activations of a whole layer, over the axis of heads and hidden units."""
    return [m for m in found if is_activation(m, batch) and len(m.shape) >= 3 and m.shape[-1] > 1]


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_a_tensor_parallel_decoder_reduces_once_per_block_and_direction(scan: bool) -> None:
    found = over_y(decoder("tp", scan), BATCH)
    blocks = (1 if scan else LAYERS) * 2
    backward_of_logits = 1
    assert [(m.kind, m.shape) for m in found] == [("all_reduce", ACTIVATION)] * (2 * blocks + backward_of_logits)


def test_tensor_parallel_weights_and_gradients_stay_where_they_are() -> None:
    still = [m for m in decoder("tp") if not is_activation(m, BATCH)]
    assert [m.shape for m in still] == [(VOCABULARY, MODEL)], "only the table to look tokens up in is gathered"


# ---- the decoder: the two-dimensional sharding of the paper ----


def test_the_2d_decoder_gathers_weights_over_x_and_activations_over_y() -> None:
    found = decoder("2d")
    for move in found:
        if move.kind == "all_gather" and move.shape != (VOCABULARY, MODEL):
            assert move.axes.count('"') == 2
            assert ('"y"' in move.axes) == is_activation(move, BATCH)


def test_the_2d_decoder_scatters_each_matrix_gradient_over_x() -> None:
    scatters = [m for m in decoder("2d") if m.kind == "reduce_scatter"]
    gradients = [m for m in scatters if not is_activation(m, BATCH)]
    assert len(gradients) == LAYERS * LAYER_MATRICES + 1
    assert all('"x"' in m.axes and '"y"' not in m.axes for m in gradients)


def test_the_2d_decoder_scatters_activations_over_y_once_per_block_and_direction() -> None:
    scatters = [m for m in decoder("2d") if m.kind == "reduce_scatter" and is_activation(m, BATCH)]
    assert len(scatters) == LAYERS * 4 + 1
    assert all('"y"' in m.axes for m in scatters)


# ---- sizes at which bytes count ----


def large(recipe: str, scan: bool = False) -> tuple[Move, ...]:
    return moves(decoder_lm, decoder_lm.Config(recipe=recipe, scan=scan, layers=1, **LARGE), "4x2")


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_fully_sharded_decoder_moves_no_activations(size: str) -> None:
    found, batch = (decoder("fsdp"), BATCH) if size == "small" else (large("fsdp"), LARGE["batch"])
    assert [m for m in found if is_activation(m, batch)] == []


def test_a_large_tensor_parallel_decoder_reduces_once_per_block_and_direction() -> None:
    found = over_y(large("tp"), LARGE["batch"])
    assert [m.kind for m in found] == ["all_reduce"] * 5


def test_a_large_data_parallel_decoder_reduces_each_gradient_once_and_the_loss() -> None:
    assert kinds(large("dp")) == {"all_reduce": LAYER_MATRICES + LAYER_VECTORS + 3 + 1}


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_each_large_fully_sharded_weight_is_gathered_and_its_gradient_scattered(scan: bool) -> None:
    found = [m for m in large("fsdp", scan) if not is_activation(m, LARGE["batch"])]
    counts = kinds(tuple(found))
    assert counts["all_gather"] == (2 if scan else 1) * LAYER_MATRICES + 1
    assert counts["reduce_scatter"] == LAYER_MATRICES + 1

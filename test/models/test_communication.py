"""What is communicated in a training step, and how often: as one who writes the collectives by hand would do it.

Which parallelism sends least depends on sizes, so each recipe is given those that it is for: data parallelism more
tokens than a matrix has rows, tensor parallelism far fewer, and the two-dimensional sharding about as many. A recipe
has the mesh of the axes that it names; what becomes of an axis that it does not is asked by itself.

The decoder's sizes tell its dimensions apart: no two of batch, sequence, model, hidden and vocabulary are equal.
"""

from __future__ import annotations

import math

import pytest
from support.traced import Move, moves

from gspmd.examples import decoder_lm, mlp

PERCEPTRON_BATCH = 512  # an activation is larger than a weight of 64 by 256

BATCH, SEQUENCE, MODEL, HIDDEN, VOCABULARY, HEADS, HEAD_SIZE = 512, 32, 64, 256, 128, 4, 16
LAYERS = 2
LAYER_MATRICES = 6  # query, key, value, output, mlp_in, mlp_out
LAYER_VECTORS = 6
MANY_TOKENS = {"model": MODEL, "hidden": HIDDEN, "vocabulary": VOCABULARY, "sequence": SEQUENCE, "batch": BATCH}
WIDE = {"model": 1024, "heads": 16, "head_size": 64, "hidden": 4096, "vocabulary": 8192}
SOME_TOKENS = {**WIDE, "sequence": 128, "batch": 32}
FEW_TOKENS = {**WIDE, "sequence": 5, "batch": 3}
SIZES = {"dp": MANY_TOKENS, "fsdp": MANY_TOKENS, "tp": FEW_TOKENS, "2d": SOME_TOKENS}
MESH = {"dp": "8", "fsdp": "8", "tp": "y8", "2d": "4x2"}

# Large enough that time on the wire and memory traffic count, and not the latency of a collective.
LARGE = {**WIDE, "sequence": 256, "batch": 96}
LARGE_TENSOR = {"model": 8192, "heads": 64, "head_size": 128, "hidden": 32768, "vocabulary": 65536}
LARGE_SIZES = {"dp": LARGE, "fsdp": LARGE, "tp": {**LARGE_TENSOR, "sequence": 256, "batch": 8}}


def decoder(recipe: str, scan: bool = False, mesh: str = "", as_written: bool = True) -> tuple[Move, ...]:
    config = decoder_lm.Config(recipe=recipe, scan=scan, layers=LAYERS, **SIZES[recipe])
    return moves(decoder_lm, config, mesh or MESH[recipe], as_written)


def large(recipe: str, scan: bool = False, layers: int = 1) -> tuple[Move, ...]:
    config = decoder_lm.Config(recipe=recipe, scan=scan, layers=layers, **LARGE_SIZES[recipe])
    return moves(decoder_lm, config, MESH[recipe])


def kinds(found: tuple[Move, ...]) -> dict[str, int]:
    return {kind: sum(m.kind == kind for m in found) for kind in sorted({m.kind for m in found})}


def elements(found: tuple[Move, ...], kind: str) -> list[int]:
    return sorted(math.prod(m.shape) for m in found if m.kind == kind)


def is_activation(move: Move, batch: int) -> bool:
    return batch in move.shape[:2]


# ---- the perceptron ----


@pytest.mark.parametrize("mesh", ["8", "4x2", "2x2x2"])
def test_data_parallelism_reduces_each_gradient_once_and_the_loss(mesh: str) -> None:
    found = moves(mlp, mlp.Config(recipe="dp", batch=PERCEPTRON_BATCH), mesh)
    assert kinds(found) == {"all_reduce": 5}
    assert sorted(math.prod(m.shape) for m in found) == [1, 64, 256, 64 * 256, 64 * 256]


def test_tensor_parallelism_of_a_perceptron_reduces_its_output_once() -> None:
    found = moves(mlp, mlp.Config(recipe="tp", batch=PERCEPTRON_BATCH), "4x2")
    over_y = [m for m in found if '"y"' in m.axes]
    assert [(m.kind, m.shape) for m in over_y] == [("all_reduce", (PERCEPTRON_BATCH, 64))]
    assert kinds(tuple(m for m in found if m not in over_y)) == {"all_reduce": 5}


@pytest.mark.parametrize("mesh", ["8", "4x2", "2x2x2"])
def test_fully_sharded_weights_are_gathered_and_their_gradients_scattered(mesh: str) -> None:
    config = mlp.Config(recipe="fsdp", batch=PERCEPTRON_BATCH)
    found = moves(mlp, config, mesh)
    assert [m.shape for m in found if m.kind == "all_gather"] == [(64, 256), (256, 64)]
    assert [m.shape for m in found if m.kind == "reduce_scatter"] == [(64, 256), (256, 64)]
    assert kinds(found) == {"all_gather": 2, "all_reduce": 3, "reduce_scatter": 2}
    assert not [m for m in found if is_activation(m, PERCEPTRON_BATCH)]


# ---- the decoder: data parallelism ----


def test_a_data_parallel_decoder_reduces_each_gradient_once_and_the_loss() -> None:
    found = decoder("dp")
    assert kinds(found) == {"all_reduce": LAYERS * (LAYER_MATRICES + LAYER_VECTORS) + 3 + 1}
    assert not [m for m in found if is_activation(m, BATCH)]


@pytest.mark.parametrize("recipe", ["dp", "fsdp"])
def test_an_axis_that_nothing_is_split_over_shares_the_products_that_make_gradients(recipe: str) -> None:
    """Devices of y have the same activations: each makes half of a gradient, which is gathered when it is reduced.

    To scatter a half and to gather it over both axes sends what its all-reduce and a gather over y do.
    """
    found = decoder(recipe, mesh="4x2")
    matrices = LAYERS * LAYER_MATRICES + 1
    scattered = [m for m in found if m.kind == "reduce_scatter" and len(m.shape) == 1]  # gradients of split vectors
    reduced = [m for m in found if m.kind == "all_reduce" and len(m.shape) > 1]
    scatters = [m for m in found if m.kind == "reduce_scatter" and m not in scattered]
    halves = [m for m in found if m.kind == "all_gather" and '"y"' in m.axes and len(m.shape) > 1]
    sums = scatters + reduced
    assert len(sums) == len(halves) == matrices
    assert all('"x"' in m.axes and '"y"' not in m.axes for m in sums)
    assert sorted(math.prod(m.shape) for m in halves) == sorted(math.prod(m.shape) for m in sums)
    before_use = matrices if recipe == "fsdp" else 0
    vectors = LAYERS * LAYER_VECTORS + 2
    assert kinds(found) == {
        "all_gather": matrices + before_use + len(scattered),
        "all_reduce": vectors + 1 - len(scattered) + len(reduced),
        "reduce_scatter": matrices + len(scattered) - len(reduced),
    }
    assert not [m for m in found if is_activation(m, BATCH)]


# ---- the decoder: fully sharded data parallelism ----


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_each_fully_sharded_weight_is_gathered_once_in_each_loop_it_is_used_in(scan: bool) -> None:
    found = large("fsdp", scan, LAYERS)
    gathers = [m for m in found if m.kind == "all_gather" and not is_activation(m, LARGE["batch"])]
    layers = [m for m in gathers if m.shape != (LARGE["vocabulary"], LARGE["model"])]
    assert len(gathers) - len(layers) == 1, "the embedding is gathered once for both its uses"
    if scan:  # the loop forward, and the loop backward
        assert len(layers) == 2 * LAYER_MATRICES
        assert all(m.in_loop for m in layers), "never are the weights of all layers gathered together"
    else:
        assert len(layers) == LAYERS * LAYER_MATRICES


def test_small_fully_sharded_weights_of_all_layers_are_gathered_once_before_the_loops() -> None:
    """A device hardly notices that it holds them: less than a thousandth of its memory."""
    gathers = [m for m in decoder("fsdp", scan=True, as_written=False) if m.kind == "all_gather"]
    layers = [m for m in gathers if m.shape != (VOCABULARY, MODEL)]
    assert len(gathers) - len(layers) == 1
    assert [m.shape[0] for m in layers] == [LAYERS] * LAYER_MATRICES
    assert not any(m.in_loop for m in gathers)


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


LOOK_UP_AND_LOGITS = 2  # the sum of what devices look up of their words, and the gradient of what logits are made of


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_a_tensor_parallel_decoder_reduces_once_per_block_and_direction(scan: bool) -> None:
    found = over_y(decoder("tp", scan), FEW_TOKENS["batch"])
    blocks = (1 if scan else LAYERS) * 2
    activation = (FEW_TOKENS["batch"], FEW_TOKENS["sequence"], FEW_TOKENS["model"])
    assert [(m.kind, m.shape) for m in found] == [("all_reduce", activation)] * (2 * blocks + LOOK_UP_AND_LOGITS)
    assert sum(m.in_loop for m in found) == (2 * blocks if scan else 0)


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_tensor_parallel_weights_and_gradients_stay_where_they_are(scan: bool) -> None:
    assert [m for m in decoder("tp", scan) if not is_activation(m, FEW_TOKENS["batch"])] == []


# ---- the decoder: the two-dimensional sharding of the paper ----


def test_the_2d_decoder_gathers_weights_over_x_and_activations_over_y() -> None:
    for move in decoder("2d"):
        if move.kind == "all_gather":
            assert move.axes.count('"') == 2
            assert ('"y"' in move.axes) == is_activation(move, SOME_TOKENS["batch"])


def test_the_2d_decoder_scatters_each_matrix_gradient_over_x() -> None:
    scatters = [m for m in decoder("2d") if m.kind == "reduce_scatter"]
    gradients = [m for m in scatters if not is_activation(m, SOME_TOKENS["batch"])]
    assert len(gradients) == LAYERS * LAYER_MATRICES + 1
    assert all('"x"' in m.axes and '"y"' not in m.axes for m in gradients)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_the_2d_decoder_gathers_and_scatters_activations_over_y_once_per_block_and_direction(kind: str) -> None:
    found = [m for m in over_y(decoder("2d"), SOME_TOKENS["batch"]) if m.kind == kind]
    assert len(found) == LAYERS * 4 + LOOK_UP_AND_LOGITS
    assert all('"y"' in m.axes for m in found)


# ---- sizes at which bytes count ----


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_fully_sharded_decoder_moves_no_activations(size: str) -> None:
    found, batch = (decoder("fsdp"), BATCH) if size == "small" else (large("fsdp"), LARGE["batch"])
    assert [m for m in found if is_activation(m, batch)] == []


def test_a_large_tensor_parallel_decoder_sums_once_per_block_and_direction_and_normalises_shares() -> None:
    """A sum that is scattered and gathered again sends what an all-reduce does; what is between is done in shares."""
    sizes = LARGE_SIZES["tp"]
    found = tuple(over_y(large("tp"), sizes["batch"]))
    counts = kinds(found)
    assert {m.shape for m in found} == {(sizes["batch"], sizes["sequence"], sizes["model"])}
    assert set(counts) == {"all_gather", "all_reduce", "reduce_scatter"}
    assert counts["all_reduce"] + counts["reduce_scatter"] == 4 + LOOK_UP_AND_LOGITS
    assert counts["all_gather"] == counts["reduce_scatter"]
    matrices = [m for m in large("tp") if not is_activation(m, sizes["batch"]) and len(m.shape) > 1]
    assert matrices == [], "weights and their gradients stay where they are"


def test_a_large_data_parallel_decoder_reduces_each_gradient_once_and_the_loss() -> None:
    """Whole, or scattered and gathered again, which sends the same bytes: a transpose between is done in shares."""
    found = large("dp")
    counts = kinds(found)
    assert set(counts) == {"all_gather", "all_reduce", "reduce_scatter"}
    assert counts["all_reduce"] + counts["reduce_scatter"] == LAYER_MATRICES + LAYER_VECTORS + 3 + 1
    assert elements(found, "all_gather") == elements(found, "reduce_scatter")
    square, hidden = LARGE["model"] * LARGE["model"], LARGE["model"] * LARGE["hidden"]
    vectors = [1] + [LARGE["model"]] * (LAYER_VECTORS - 1 + 2) + [LARGE["hidden"]]
    reduced = elements(found, "all_reduce") + elements(found, "reduce_scatter")
    assert sorted(reduced) == sorted([*vectors, *4 * [square], *2 * [hidden], LARGE["vocabulary"] * LARGE["model"]])
    assert not [m for m in found if is_activation(m, LARGE["batch"])]


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_each_large_fully_sharded_weight_is_gathered_and_its_gradient_scattered(scan: bool) -> None:
    found = [m for m in large("fsdp", scan) if not is_activation(m, LARGE["batch"])]
    counts = kinds(tuple(found))
    assert counts["all_gather"] == (2 if scan else 1) * LAYER_MATRICES + 1
    assert counts["reduce_scatter"] == LAYER_MATRICES + 1

"""What training steps cost: against closed formulas, against counting the module by other means, and against XLA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from support.traced import lower, partition_as_written

import gspmd
from gspmd.costs.cost_report import CostReport
from gspmd.costs.program_cost import cost_of
from gspmd.examples import decoder_lm, mlp

F32 = 4
BATCH = 512  # of a perceptron: sending weights is cheaper than sending activations


def report(example: Any, config: Any, mesh: str) -> CostReport:
    return cost_of(partition_as_written(example, config, mesh).module)


def gathered(elements: int, shards: int) -> float:
    """Bytes a device sends to gather a tensor of f32 (or scatter its sum): all but its own shard."""
    return elements * F32 * (shards - 1) / shards


def reduced(elements: int, devices: int) -> float:
    return 2 * gathered(elements, devices)


# ---- closed formulas ----


@pytest.mark.parametrize("mesh", ["8", "4x2"])
def test_a_data_parallel_perceptron_reduces_its_parameters_and_its_loss(mesh: str) -> None:
    config = mlp.Config(recipe="dp", batch=BATCH)
    parameters = 64 * 256 + 256 + 256 * 64 + 64
    found = report(mlp, config, mesh)
    assert found.bytes_by_kind == {"all_reduce": pytest.approx(reduced(parameters + 1, 8), abs=1)}


@pytest.mark.parametrize("mesh", ["8", "4x2", "2x2x2"])
def test_a_fully_sharded_perceptron_gathers_and_scatters_its_weights(mesh: str) -> None:
    config = mlp.Config(recipe="fsdp", batch=BATCH)
    found = report(mlp, config, mesh).bytes_by_kind
    weights = 2 * gathered(64 * 256, 8)
    assert found["all_gather"] == found["reduce_scatter"] == weights
    assert found["all_reduce"] == pytest.approx(reduced(256 + 64 + 1, 8), abs=1)


def test_a_tensor_parallel_perceptron_reduces_its_output_and_its_gradients() -> None:
    """4 devices share the batch, 2 the hidden units: weights are halves, reduced over the batch's axis."""
    found = report(mlp, mlp.Config(recipe="tp", batch=BATCH), "4x2").bytes_by_kind
    output = reduced(BATCH // 4 * 64, 2)
    gradients = reduced((64 * 256 + 256 + 256 * 64) // 2 + 64 + 1, 4)
    assert found == {"all_reduce": pytest.approx(output + gradients, abs=2)}


def a_layer(config: dict[str, Any], mesh: str) -> dict[str, int]:
    """Bytes by kind that one layer more makes more."""
    one, two = (report(decoder_lm, decoder_lm.Config(layers=n, **config), mesh).bytes_by_kind for n in (1, 2))
    return {kind: two[kind] - one.get(kind, 0) for kind in two if two[kind] != one.get(kind, 0)}


# Many tokens for data parallelism, few of a wide model for tensor parallelism: what each of them is for.
NARROW = {"model": 64, "heads": 4, "head_size": 16, "hidden": 256, "batch": 512, "sequence": 32}
WIDE = {"model": 1024, "heads": 16, "head_size": 64, "hidden": 4096, "vocabulary": 8192}
MATRICES = 4 * 64 * 64 + 2 * 64 * 256
VECTORS = 5 * 64 + 256


def test_a_data_parallel_layer_reduces_its_parameters() -> None:
    found = a_layer({"recipe": "dp", **NARROW}, "8")
    assert found == {"all_reduce": pytest.approx(reduced(MATRICES + VECTORS, 8), abs=12)}


def test_a_fully_sharded_layer_gathers_and_scatters_its_matrices() -> None:
    found = a_layer({"recipe": "fsdp", **NARROW}, "8")
    assert found["reduce_scatter"] == gathered(MATRICES, 8)
    assert found["all_gather"] == gathered(MATRICES, 8)
    assert found["all_reduce"] == pytest.approx(reduced(VECTORS, 8), abs=6)


def test_a_tensor_parallel_layer_reduces_activations_twice_each_way() -> None:
    """The recipe splits heads and hidden units only: nothing else is sent."""
    found = a_layer({"recipe": "tp", **WIDE, "batch": 3, "sequence": 5}, "y8")
    assert found == {"all_reduce": 4 * reduced(3 * 5 * 1024, 8)}


def test_a_large_tensor_parallel_layer_sends_what_four_reductions_do() -> None:
    """They may be scattered and gathered: vectors and statistics of shares are less than a thousandth beside them."""
    sizes = {"model": 8192, "heads": 64, "head_size": 128, "hidden": 32768, "vocabulary": 65536}
    found = a_layer({"recipe": "tp", **sizes, "batch": 8, "sequence": 256}, "y8")
    assert sum(found.values()) == pytest.approx(4 * reduced(8 * 256 * 8192, 8), rel=1e-3)


# ---- counted from the module by other means ----


def counted(module: ir.Module, trips: int) -> dict[str, float]:
    """Bytes by kind, from the shapes before and after each collective and its groups as listed."""
    found: dict[str, float] = {}

    def size(value: Any) -> float:
        type_ = ir.RankedTensorType(value.type)
        return math.prod(type_.shape) * {"f32": 4, "i32": 4, "ui32": 4, "i1": 1}[str(type_.element_type)]

    def visit(op: Any, times: int) -> None:
        kind = op.name.removeprefix("stablehlo.")
        if "replica_groups" in op.attributes or kind == "collective_permute":
            before, after = size(op.operands[0]), size(op.results[0])
            if kind == "all_reduce":
                group = np.array(op.attributes["replica_groups"]).shape[1]
                sent = 2 * before * (group - 1) / group
            elif kind == "all_to_all":
                group = np.array(op.attributes["replica_groups"]).shape[1]
                sent = before * (group - 1) / group
            else:
                sent = {"all_gather": after - before, "reduce_scatter": before - after}.get(kind, before)
            found[kind] = found.get(kind, 0.0) + times * sent
        for index, region in enumerate(op.regions):
            for inner in region.blocks[0].operations:
                visit(inner.operation, times * (trips if kind == "while" and index == 1 else 1))

    visit(module.operation, 1)
    return found


@pytest.mark.parametrize(
    ("recipe", "mesh", "scan"),
    [("2d", "8", True), ("2d", "4x2", False), ("2d", "2x2x2", True), ("fsdp", "4x2", True), ("tp", "4x2", False)],
)
def test_bytes_are_those_that_the_module_moves(recipe: str, mesh: str, scan: bool) -> None:
    module = partition_as_written(decoder_lm, decoder_lm.Config(recipe=recipe, scan=scan, layers=3), mesh).module
    found = cost_of(module)
    assert found.bytes_by_kind == pytest.approx(counted(module, 3), abs=0.5 * found.runs)


# ---- arithmetic ----


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_the_decoders_products_are_those_of_its_shapes(scan: bool) -> None:
    """Every product with a weight is done once forward and twice backward, and so are the two of attention."""
    layers, batch, sequence, model, heads, head, hidden, words = 3, 32, 128, *WIDE.values()
    config = decoder_lm.Config(recipe="2d", scan=scan, layers=layers, batch=batch, sequence=sequence, **WIDE)
    weights = layers * (4 * model * heads * head + 2 * model * hidden) + model * words
    attention = layers * 2 * heads * head * sequence
    expected = 3 * 2 * batch * sequence * (weights + attention)
    found = gspmd.cost(lower(decoder_lm, config, "4x2"))
    assert found.work.by_kind()["dot"] * 8 == expected
    assert found.flops_ratio == pytest.approx(1, abs=0.02)


# ---- memory ----

PROGRAMS = {
    "mlp dp": (mlp, mlp.Config(recipe="dp")),
    "mlp fsdp": (mlp, mlp.Config(recipe="fsdp")),
    "decoder 2d": (decoder_lm, decoder_lm.Config()),
    "decoder 2d scan": (decoder_lm, decoder_lm.Config(scan=True, layers=4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_against_what_xla_allocates(name: str) -> None:
    """Arguments, results and aliases follow from the program.

    Temporaries depend on what XLA does on this platform: it combines the all-reduces of data parallelism, so that all
    gradients are held twice at once (a ratio of 0.53), and reuses a little more memory elsewhere (1.1 to 1.25).
    """
    example, config = PROGRAMS[name]
    partitioned = partition_as_written(example, config, "4x2")
    found = cost_of(partitioned.module).memory
    stats = gspmd.compile(partitioned).loaded.get_compiled_memory_stats()
    pointers = 8 * len(partitioned.signature.outputs)  # XLA counts its table of results among them
    assert found.arguments == stats.argument_size_in_bytes
    assert found.results + pointers == stats.output_size_in_bytes
    assert found.aliased == stats.alias_size_in_bytes
    assert 0.5 < found.temporaries / stats.temp_size_in_bytes < 1.3

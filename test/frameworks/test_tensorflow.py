"""HLO that TensorFlow makes of functions annotated with its XLA sharding operations; `make_tensorflow_hlo.py` made it.

With TensorFlow installed (`pip install tensorflow-cpu`) what it makes today is partitioned, too, and compared with what
it computes itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reference_layers import Array, convolved, pooled, relu, softmax

import gspmd

INPUTS = Path(__file__).parent / "Inputs"
SHAPES = {
    "perceptron": [(12, 16), (16, 36), (36, 10), (12,)],
    "image": [(2, 18, 10, 3), (3, 3, 3, 4)],
    "loop": [(8, 16), (16, 16)],
}


def perceptron(x: Array, w1: Array, w2: Array, labels: Array) -> list[Array]:
    hidden = relu(x @ w1)
    probability, truth = softmax(hidden @ w2), np.eye(10)[labels]
    loss = -np.mean(np.sum(truth * np.log(probability), -1))
    gradient = (probability - truth) / len(x)
    return [loss, x.T @ ((gradient @ w2.T) * (hidden > 0)), hidden.T @ gradient]


def image(x: Array, kernel: Array) -> list[Array]:
    found = convolved(x.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1), ((1, 1), (1, 1)))
    return [pooled(relu(found)).transpose(0, 2, 3, 1)]


def loop(x: Array, w: Array) -> list[Array]:
    for _ in range(3):
        x = np.tanh(x @ w)
    return [x]


REFERENCES = {"perceptron": perceptron, "image": image, "loop": loop}


def arguments(name: str) -> list[Array]:
    """Random float32 values, of a size that keeps sums near 1, and labels."""
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 10, shape).astype(np.int32)
        if len(shape) == 1
        else (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for shape in SHAPES[name]
    ]


def run(program: Any, name: str) -> tuple[gspmd.Partitioned, list[Array]]:
    """HLO does not say for how many devices it is, where TensorFlow has not been told."""
    partitioned = gspmd.partition(program, 8)
    return partitioned, [np.asarray(result) for result in gspmd.compile(partitioned)(*arguments(name))]


def close(found: list[Array], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_what_tensorflow_made_computes_what_numpy_does(name: str) -> None:
    _, found = run(INPUTS / f"tensorflow_{name}.hlo", name)
    close(found, REFERENCES[name](*arguments(name)))


def test_annotations_of_tensorflow_decide_the_communication() -> None:
    """Features are summed over the mesh's second axis, gradients and the loss over its first; the loop nothing."""
    # TensorFlow annotates by constraints alone, and a batch of twelve is computed whole wherever these do not bind.
    batch = (INPUTS / "tensorflow_perceptron.hlo").read_text(encoding="utf-8").replace("[12", "[64")
    perceptron = gspmd.partition(batch, num_partitions=8, options={"constraints": "bind"})
    assert [(c.kind, c.axes) for c in perceptron.collectives] == [
        ("all_reduce", '"axis_1"'),
        *[("all_reduce", '"axis_0"')] * 3,
    ]
    loop, _ = run(INPUTS / "tensorflow_loop.hlo", "loop")
    assert not loop.collectives
    small, _ = run(INPUTS / "tensorflow_image.hlo", "image")
    text = (INPUTS / "tensorflow_image.hlo").read_text(encoding="utf-8")
    text = text.replace("[2,", "[3,").replace(",4]", ",61]")
    large = gspmd.partition(text, num_partitions=8, options={"constraints": "bind"})
    # Images of which no dimension is divided evenly are on every device where they are a result of the program, of
    # which nothing more is said. Rows of four channels are computed again wherever they are needed; of 61, they are
    # sent, or channels are exchanged for rows where windows reach far.
    assert not small.collectives
    kinds = [c.kind for c in large.collectives]
    assert set(kinds) == {"collective_permute", "all_to_all", "all_gather"}
    assert kinds.count("all_gather") == 1


@pytest.mark.parametrize("stage", ["hlo", "hlo_serialized"])
@pytest.mark.parametrize("name", REFERENCES)
def test_what_tensorflow_makes_computes_what_it_computes(name: str, stage: str) -> None:
    tf = pytest.importorskip("tensorflow")
    from support.make_tensorflow_hlo import FUNCTIONS, hlo

    expected = tf.function(FUNCTIONS[name][0], autograph=False)(*map(tf.constant, arguments(name)))
    _, found = run(hlo(name, stage), name)
    close(found, [np.asarray(value) for value in tf.nest.flatten(expected)])

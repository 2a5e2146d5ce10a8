"""Writes what TensorFlow's XLA bridge makes of functions annotated with its sharding operations, to `Inputs/`.

Needs TensorFlow (`pip install tensorflow-cpu`; 2.21.0 made the files that are kept) and nothing else:

    python test/support/make_tensorflow_hlo.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.compiler.xla.experimental import xla_sharding

INPUTS = Path(__file__).parents[1] / "frameworks/Inputs"
MESH = np.arange(8).reshape(4, 2)


def perceptron(x: Any, w1: Any, w2: Any, labels: Any) -> Any:
    """Loss and gradients of two layers: batch of 12 over the mesh's first axis, 36 hidden features over its second."""
    x = xla_sharding.mesh_split(x, MESH, [0, -1], use_sharding_op=True)
    w1 = xla_sharding.mesh_split(w1, MESH, [-1, 1], use_sharding_op=True)
    w2 = xla_sharding.mesh_split(w2, MESH, [1, -1], use_sharding_op=True)
    with tf.GradientTape() as tape:
        tape.watch((w1, w2))
        hidden = xla_sharding.mesh_split(tf.nn.relu(x @ w1), MESH, [0, 1], use_sharding_op=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden @ w2))
    return loss, *tape.gradient(loss, (w1, w2))


def image(x: Any, kernel: Any) -> Any:
    """A convolution of images whose height of 18 is split over 8 devices, and pooling to every second row."""
    x = xla_sharding.split(x, 1, 8, use_sharding_op=True)
    y = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
    return xla_sharding.split(tf.nn.max_pool2d(y, 2, 2, "SAME"), 1, 8, use_sharding_op=True)


def loop(x: Any, w: Any) -> Any:
    """Three rounds of a layer in a loop, its features split, its batch left to propagation."""
    x = xla_sharding.split(x, 0, 8, use_sharding_op=True)

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        x = xla_sharding.mesh_split(
            tf.tanh(x @ w), MESH.reshape(8), [-1, -1], use_sharding_op=True, unspecified_dims=[0]
        )
        return i + 1, x

    return tf.while_loop(lambda i, x: i < 3, body, (tf.constant(0), x))[1]


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tf.TensorSpec]]] = {
    "perceptron": (
        perceptron,
        [tf.TensorSpec((12, 16)), tf.TensorSpec((16, 36)), tf.TensorSpec((36, 10)), tf.TensorSpec((12,), tf.int32)],
    ),
    "image": (image, [tf.TensorSpec((2, 18, 10, 3)), tf.TensorSpec((3, 3, 3, 4))]),
    "loop": (loop, [tf.TensorSpec((8, 16)), tf.TensorSpec((16, 16))]),
}


def hlo(name: str, stage: str = "hlo") -> Any:
    """The HLO of one of the functions: text, or the serialized proto for `stage="hlo_serialized"`."""
    function, arguments = FUNCTIONS[name]
    compiled = tf.function(function, jit_compile=True, autograph=False)
    return compiled.experimental_get_compiler_ir(*arguments)(stage=stage)


if __name__ == "__main__":
    for name in FUNCTIONS:
        # Where the function was on the machine that made the file is nobody's business.
        text = re.sub(r' source_file="[^"]*" source_line=\d+', "", hlo(name))
        (INPUTS / f"tensorflow_{name}.hlo").write_text(text)

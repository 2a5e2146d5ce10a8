"""StableHLO that torch_xla exports from PyTorch, annotated in the text; `make_pytorch_stablehlo.py` made it.

With torch_xla installed (`pip install torch==2.9.0 torch_xla==2.9.0`) what it exports today is partitioned, too, and
compared with what PyTorch computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reference_layers import Array, convolved, gelu, pooled, relu, softmax

import gspmd

INPUTS = Path(__file__).parent / "Inputs"


def parameters(text: str) -> dict[str, Array]:
    """Random float32 arguments by name, in the program's order, which its first line tells; variances are positive."""
    rng, found = np.random.default_rng(0), {}
    signature = gspmd.partition(text).signature
    names = text.split("\n", 1)[0].removeprefix("// Arguments: ").split(", ")
    for name, value in zip(names, signature.inputs, strict=True):
        drawn = rng.standard_normal(value.shape) * 0.5
        found[name] = (np.square(drawn) + 0.5 if name.endswith("_var") else drawn).astype(np.float32)
    return found


def encoder(p: Mapping[str, Array]) -> Array:
    def linear(name: str, x: Array) -> Array:
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    x = p[""]
    query, key, value = (linear(n, x).reshape(4, 12, 4, 4).swapaxes(1, 2) for n in ("query", "key", "value"))
    attended = softmax(query @ key.swapaxes(2, 3) / 2) @ value
    x = x + linear("out", attended.swapaxes(1, 2).reshape(x.shape))
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5)
    x = normed * p["norm.weight"] + p["norm.bias"]
    return np.asarray(x + linear("down", gelu(linear("up", x))))


def images(p: Mapping[str, Array]) -> Array:
    def channels(name: str) -> Array:
        return p[name][:, None, None]

    sides = ((1, 1), (1, 1))
    x = convolved(p[""], p["first.weight"], sides) + channels("first.bias")
    scale = channels("norm.weight") / np.sqrt(channels("norm.running_var") + 1e-5)
    x = pooled(relu((x - channels("norm.running_mean")) * scale + channels("norm.bias")))
    return convolved(x, p["second.weight"], sides, stride=2) + channels("second.bias")


REFERENCES = {"encoder": encoder, "images": images}


@pytest.mark.parametrize("name", REFERENCES)
def test_what_pytorch_exported_computes_what_numpy_does(name: str) -> None:
    text = (INPUTS / f"pytorch_{name}.mlir").read_text()
    given = parameters(text)
    (found,) = gspmd.compile(gspmd.partition(text))(*given.values())
    np.testing.assert_allclose(np.asarray(found), REFERENCES[name](given), rtol=1e-4, atol=1e-5)


def test_heads_and_hidden_features_are_summed_once_each() -> None:
    """As of Megatron: what torch_xla flattens and transposes between stays where it is."""
    collectives = gspmd.partition(INPUTS / "pytorch_encoder.mlir").collectives
    assert [(c.kind, c.axes) for c in collectives] == [("all_reduce", '"y"')] * 2


def test_images_exchange_halos() -> None:
    collectives = gspmd.partition(INPUTS / "pytorch_images.mlir").collectives
    assert {c.kind for c in collectives} == {"collective_permute"}


@pytest.mark.parametrize("name", REFERENCES)
def test_what_torch_xla_exports_computes_what_pytorch_does(name: str) -> None:
    pytest.importorskip("torch_xla")
    import torch
    from support.make_pytorch_stablehlo import MODULES, annotated, exported

    made, shape, shardings = MODULES[name]
    module, x = made().eval(), torch.randn(shape)
    text, names = exported(module, x)
    values: dict[str, Any] = {**module.state_dict(), "": x}
    given = [values[each].detach().numpy() for each in names]
    (found,) = gspmd.compile(gspmd.partition(annotated(text, names, shardings)))(*given)
    np.testing.assert_allclose(np.asarray(found), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)

"""Cases of the files beside a program: budgets, targets and arrays."""

from __future__ import annotations

import io
import json
import re
from random import Random
from typing import Any

import numpy as np

from hostile import seed_inputs
from hostile.archives import bomb
from hostile.case import Case
from hostile.mutations import NUMBERS, mutated_bytes, mutated_words
from hostile.wanted import Wanted

_PROGRAM = ("p.mlir", seed_inputs.GOOD.encode())

# ---- budgets and targets ----

_JSON_BUDGET = """{
  "program": "main",
  "mesh": {"x": 4, "y": 2},
  "collectives": 1,
  "sent_bytes": 1024,
  "bytes_by_kind": {"all_gather": 1024},
  "peak_memory_bytes": 100000,
  "tolerance": 0.05
}
"""
_TOML_BUDGET = """collectives = 1
sent_bytes = 1024
tolerance = 0.05

[bytes_by_kind]
all_gather = 1024
"""
_TARGET = """like = "tpu-v5p"

[flops]
bf16 = 4.59e14
f32 = 2.0e13

[memory]
bytes = 1.0e11
bytes_per_s = 2.765e12

[network]
bytes_per_s = 9.0e10
latency_s = 1e-6
topology = "torus"
dims = 3
wrap = 4

[outside]
bytes_per_s = 6.25e9

[axes.x]
bytes_per_s = 1e9
"""
_VALUES = (
    "[]",
    "{}",
    "null",
    "true",
    '"x"',
    "-1",
    "1e999",
    "NaN",
    "-Infinity",
    "inf",
    "nan",
    "[1]",
    "{a = 1}",
    "1979-05-27",
    *NUMBERS,
)


def _mutated(rng: Random, text: str) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.3:
            places = list(re.finditer(r"(?<=[=:] )[^\n,]+", text))
            if places:
                place = rng.choice(places)
                text = text[: place.start()] + rng.choice(_VALUES) + text[place.end() :]
        elif kind < 0.4:
            opened, closed = rng.choice((("[", "]"), ('{"a": ', "}"), ("a = [", "]"), ("[a.", "]"), ("a.", "= 1")))
            depth = rng.choice((10, 1000, 100_000))
            text = rng.choice((opened * depth + closed * depth, text + opened * depth, opened * depth))
        else:
            text = mutated_words(rng, text, text)
    return text


def budget(rng: Random, wanted: Wanted) -> Case:
    """A budget that is odd."""
    wanted.among(("cost",))
    name, text = rng.choice((("b.json", _JSON_BUDGET), ("b.toml", _TOML_BUDGET)))
    return Case("cost", ("p.mlir", "--budget", name), (_PROGRAM, (name, _encoded(_mutated(rng, text)))))


def target(rng: Random, wanted: Wanted) -> Case:
    """A description of hardware that is odd."""
    command = rng.choice(wanted.among(("cost", "cost", "partition", "explain", "api.cost")))
    file = ("t.toml", _encoded(_mutated(rng, _TARGET)))
    if command == "api.cost":
        return Case(command, ("path", json.dumps({"target": "t.toml"})), (_PROGRAM, file))
    return Case(command, ("p.mlir", "--target", "t.toml"), (_PROGRAM, file))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- arrays ----

_DTYPES = (
    "float32",
    "float32",
    "float64",
    "int32",
    "bool",
    "complex64",
    "U3",
    "S3",
    "float16",
    "M8[s]",
    "i4,f4",
    "V4",
    "uint8",
)
_SHAPES = ((8, 4), (4, 8), (), (0,), (8,), (4, 8, 1), (8, 4, 0), (1, 1), (1,) * 32)


def npz(rng: Random, wanted: Wanted) -> Case:
    """Arrays that do not fit, or files that are none."""
    command = rng.choice(wanted.among(("run", "run", "check")))
    buffer = io.BytesIO()
    names = rng.choice(
        (
            ("0", "1"),
            ("a", "w"),
            ("arg0", "arg1"),
            ("arr_0", "arr_1"),
            ("0",),
            ("0", "1", "2"),
            ("", "1"),
            ("../x", "1"),
        )
    )
    arrays = {name: _array(rng, index) for index, name in enumerate(names)}
    if rng.random() < 0.1:
        np.save(buffer, _array(rng, 0))
    else:
        rng.choice((np.savez, np.savez_compressed))(buffer, **arrays)
    data = buffer.getvalue()
    if rng.random() < 0.05:
        data = bomb({"0.npy": _header((2**31, 1))}, 2**33)
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        data = mutated_bytes(rng, data, data)
    return Case(command, ("p.mlir", "--inputs", "i.npz"), (_PROGRAM, ("i.npz", data)))


def _array(rng: Random, index: int) -> Any:
    if rng.random() < 0.6:
        return np.ones(_SHAPES[index % 2], np.float32)
    return np.zeros(rng.choice(_SHAPES), rng.choice(_DTYPES))


def _header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()

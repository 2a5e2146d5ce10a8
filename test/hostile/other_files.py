"""Cases of the files beside the program: budgets, targets, arrays, compiled programs; of calls, and of terminals."""

from __future__ import annotations

import functools
import io
import json
import math
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import consoles
import numpy as np
import seed_inputs
from case import Case
from command_lines import PASSES
from mutations import NUMBERS, mutated_bytes, mutated_words

if TYPE_CHECKING:
    from making import Wanted

_PROGRAM = ("p.mlir", seed_inputs.GOOD.encode())


def is_large(text: str) -> bool:
    """Whether a program says that it needs more than some 100 MB, which then nobody should wonder at."""
    shapes = re.findall(r"tensor<((?:\d+x)*)", text)
    return any(math.prod(int(n) for n in shape.split("x") if n) > 2**22 for shape in shapes) or "dense<" in text


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
_VALUES = ("[]", "{}", "null", "true", '"x"', "-1", "1e999", "NaN", "-Infinity", "inf", "nan", "[1]", "{a = 1}", "1979-05-27", *NUMBERS)


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

_DTYPES = ("float32", "float32", "float64", "int32", "bool", "complex64", "U3", "S3", "float16", "M8[s]", "i4,f4", "V4", "uint8")
_SHAPES = ((8, 4), (4, 8), (), (0,), (8,), (4, 8, 1), (8, 4, 0), (1, 1), (1,) * 32)


def npz(rng: Random, wanted: Wanted) -> Case:
    """Arrays that do not fit, or files that are none."""
    command = rng.choice(wanted.among(("run", "run", "check")))
    buffer = io.BytesIO()
    names = rng.choice((("0", "1"), ("a", "w"), ("arg0", "arg1"), ("arr_0", "arr_1"), ("0",), ("0", "1", "2"), ("", "1"), ("../x", "1")))
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


def bomb(members: dict[str, bytes], zeros: int) -> bytes:
    """A ZIP archive whose members go on with so many zero bytes, in a thousandth of the space."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = 2**20
    repeated = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = repeated.compress(bytes(piece)) + repeated.flush(zlib.Z_FULL_FLUSH)
    parts, directory, offset = [], [], 0
    for name, head in members.items():
        stream = deflate.copy()
        data = stream.compress(head) + stream.flush(zlib.Z_FULL_FLUSH) + chunk * (zeros // piece) + b"\x03\x00"
        size = min(len(head) + zeros // piece * piece, 2**32 - 2)
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(data), size, len(name), 0)
        parts.append(b"PK\x03\x04" + fields + name.encode() + data)
        directory.append(b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, offset) + name.encode())
        offset += len(parts[-1])
    listed = b"".join(directory)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(listed), offset, 0)
    return b"".join(parts) + listed + end


# ---- compiled programs ----

_ABOUT = ("{}", "[]", "null", "5", '"x"', "", "{", '{"target": 5}', '{"target": "cpu", "ids": [], "devices": 0}', "[" * 100_000,
          '{"target": "cpu", "ids": [0, 0], "devices": 2}', '{"target": "cpu", "ids": "01", "devices": 2}',
          '{"target": "tpu:v5p:1x1x1", "ids": [0], "devices": 1}', '{"target": "cpu", "ids": [99999999999], "devices": 1}')  # fmt: skip


@functools.cache
def good_compiled() -> bytes:
    """What gspmd compile writes on this machine for the good program: the one input that is not the same on all."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p.mlir").write_text(seed_inputs.GOOD)
        command = [sys.executable, "-P", "-m", "gspmd.tools.cli", "compile", "p.mlir", "--target", "cpu", "-o", "c"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "c").read_bytes()


def compiled(rng: Random, wanted: Wanted) -> Case:
    """A compiled program with changes. The code in it is the machine's."""
    command = rng.choice(wanted.among(("run", "run", "api.load")))
    good = good_compiled()
    kind = rng.random()
    if kind < 0.4:
        for _ in range(rng.choice((1, 1, 2, 3))):
            good = mutated_bytes(rng, good, good)
    else:
        good = _rezipped(rng, good, kind)
    return Case(command, ("c",), (("c", good),))


def _rezipped(rng: Random, good: bytes, kind: float) -> bytes:
    """Another archive, whose checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(good)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile:
        return mutated_bytes(rng, good, good)
    name = rng.choice(sorted(members))
    if kind < 0.5:
        return bomb(members, rng.choice((2**20, 2**33)))
    if kind < 0.75 and "about.json" in members:
        about = members["about.json"].decode()
        members["about.json"] = rng.choice((*_ABOUT, *[mutated_words(rng, about, about) for _ in range(10)])).encode()
    elif kind < 0.8:
        del members[name]
    else:
        members[name] = mutated_bytes(rng, members[name], members[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


# ---- texts on the command line ----

_RULES = ("([i, k])->([i, k])", "([i, k])->([i, k]) reduction={}", "([i, k])->([i, k]) need_replication={k}", "([ij, k])->([i, k]) {i=4, j=2}")
_PIPELINES = (
    "builtin.module(gspmd-partition)", "builtin.module(gspmd-ingest,gspmd-propagate{max-rounds=8},cse)",
    "builtin.module(func.func(canonicalize{max-iterations=3 top-down=true}),gspmd-ingest)",
    "builtin.module(gspmd-partition{num-partitions=8 combine-bytes=65536 update-axes=x,y target=tpu-v5p})",
    "gspmd-ingest,gspmd-propagate", "any(cse)", "builtin.module(sdy-basic-propagate)", "builtin.module(stablehlo-legalize-to-vhlo)",
)  # fmt: skip


def rule(rng: Random, wanted: Wanted) -> Case:
    """A rule of a custom call, changed."""
    command = rng.choice(wanted.among(("partition", "explain", "cost")))
    text = mutated_words(rng, f"mine={rng.choice(_RULES)}", rng.choice(_RULES))
    return Case(command, ("p.mlir", f"--custom-rule={text[:50_000]}"), (("p.mlir", seed_inputs.CALLING.encode()),))


def pipeline(rng: Random, wanted: Wanted) -> Case:
    """Passes as text, changed."""
    wanted.among(("opt",))
    text = rng.choice(_PIPELINES)
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = mutated_words(rng, text, rng.choice(_PIPELINES))
        if rng.random() < 0.2:
            text = text.replace("gspmd-partition", rng.choice(PASSES))
    program = rng.choice((seed_inputs.GOOD, rng.choice(seed_inputs.programs())))
    return Case("opt", ("p.mlir", f"--pass-pipeline={text[:50_000]}"), (("p.mlir", program.encode()),))


# ---- calls ----

_ODD: dict[str, tuple[Any, ...]] = {
    "num_partitions": (0, -1, "8", 1.5, True, [8], 2**31, 10**21, 7),
    "custom_rules": ({"": "x"}, {"mine": 3}, {"mine": ""}, [], "x", 5, {"mine": "([i])->"}, {"mine": None}),
    "options": ({"": 1}, {"combine_bytes": -1}, {"combine_bytes": "x"}, {"update_axes": "x"}, {"update_axes": [1]}, [], 5, {"strict": 1},
                {"nothing": 1}, {"gather_pieces": 10**21}, {"list_groups_up_to": None}, {"target": "tpu-v5p"}),
    "strict": (-1, "x", 1.5, 10**21, [], None),
    "target": (5, "nowhere", None, "é", "a\nb", [], "tpu:v5p:99999999999x4x4", "\0"),
    "replicate_unsupported": ("x", 5, []),
}  # fmt: skip
_MESH_SHAPES = ([4, 2], [], [0], [-1], [2**31], [2**32, 2**32], ["4"], [1.5], [4, 4], [True], [10**21], [2] * 64, [8], None, "42")
_MESH_NAMES = (["x", "y"], [], ["x"], [""], ["x", "x"], [5], ["a b"], [None], ["x{a"], ["\udcff"], "xy", None, ["x"] * 64)
_SOURCES = (None, 5, 1.5, [], {}, "", "\0", "\udcff", "nothing.mlir", ".", "/", " ", "{", "\n", "HloModule", "-" * 5000, True)


def call(rng: Random, wanted: Wanted) -> Case:
    """A function of the API with an odd argument."""
    name = rng.choice(wanted.among(("api.partition", "api.explain", "api.cost", "api.mesh", "api.program", "api.check", "api.passes")))
    if name == "api.mesh":
        return Case(name, (json.dumps([rng.choice(_MESH_SHAPES), rng.choice(_MESH_NAMES)]),))
    if name == "api.program":
        return Case(name, (rng.choice(("partition", "propagate", "explain", "cost", "check", "load", "load_compiled", "compile_for")),
                           json.dumps(rng.choice(_SOURCES))))  # fmt: skip
    if name == "api.passes":
        return Case(name, ("text", json.dumps({"passes": mutated_words(rng, rng.choice(_PIPELINES), "")[:50_000]})), (_PROGRAM,))
    keywords: dict[str, Any] = {}
    if name == "api.check":
        keywords = rng.choice(({"seed": -1}, {"rtol": -1}, {"atol": "x"}, {"num_devices": 0}, {"num_devices": 7}, {"inputs": [1]},
                               {"inputs": "nothing.npz"}, {"inputs": 5}, {"seed": "x"}, {"rtol": 1e999}, {"options": {"x": 1}}))  # fmt: skip
    else:
        fitting = [n for n in _ODD if n != "strict" or name != "api.explain"]
        chosen = rng.choice(fitting)
        keywords = {chosen: rng.choice(_ODD[chosen])}
    return Case(name, (rng.choice(("path", "text", "bytes")), json.dumps(keywords)), (_PROGRAM,))


# ---- models and terminals ----

_DEMO: dict[str, tuple[str, ...]] = {
    "--mesh": ("", "x", "x=0,y=1", "x=-1", "x=8", "x=4,x=2", "x=99999999999,y=2", "x=４", "=", ",", "x=4,y=2,z=1", "x=1e3"),
    "--steps": ("0", "-1", "", "abc", "1.5", "9" * 5000),
    "--set": ("", "=", "batch", "batch=0", "batch=-1", "batch=abc", "x=1", "batch=", "recipe=q", "batch=1.5", "batch=７" + "0" * 5000),
    "--recipe": ("", "q", "é", "x" * 5000),
    "--plot": ("a.xyz", "a", "missing/a.svg", ""),
}


def demo(rng: Random, wanted: Wanted) -> Case:
    """A model with an option that cannot be."""
    wanted.among(("demo",))
    flag = rng.choice(sorted(_DEMO))
    value = rng.choice(_DEMO[flag])
    model = rng.choice(("mlp", "mlp", "mlp", "", "nothing", "common", "../mlp", "é"))
    return Case("demo", (model, f"{flag}={value}"), refused=True)


_ENVIRONMENTS = (
    {"JAX_NUM_CPU_DEVICES": "abc"}, {"JAX_NUM_CPU_DEVICES": "-1"}, {"JAX_NUM_CPU_DEVICES": ""}, {"JAX_NUM_CPU_DEVICES": "0"},
    {"JAX_PLATFORMS": "nowhere"}, {"JAX_PLATFORMS": ""}, {"COLUMNS": "0"}, {"COLUMNS": "-5"}, {"COLUMNS": "abc"}, {"COLUMNS": "1"},
    {"COLUMNS": "99999999999999999999"}, {"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""},
    {"TERM": "nothing"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "nowhere"}, {"TMPDIR": "/nowhere"},
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}, {"HOME": "/nowhere"}, {"HOME": ""}, {"LINES": "0"}, {"PATH": ""},
    {"PYTHONWARNINGS": "error"}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONHASHSEED": "0"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
)  # fmt: skip


def terminal(rng: Random, wanted: Wanted) -> Case:
    """A program that is good or has an error, in an environment or a terminal that is odd."""
    command = rng.choice(wanted.among(("opt", "partition", "partition", "explain", "cost", "check", "run", "compile")))
    if not wanted.terminals:
        return Case(command, _plain_line(command), (_PROGRAM,))
    text = rng.choice((seed_inputs.GOOD, seed_inputs.GOOD, seed_inputs.GOOD.replace('"y"}', '"é"}'), seed_inputs.GOOD[:-40]))
    kind = rng.choice((*consoles.KINDS, "a process", "a process", "a terminal"))
    if kind == "an interrupt":
        kind += f" after {rng.choice((0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.5))} s"
    words = _plain_line(command) if rng.random() < 0.85 else rng.choice((("--help",), ("--version",), (), ("--no-such-option",)))
    environment = rng.choice(_ENVIRONMENTS) if rng.random() < 0.6 else {}
    wrong = environment.get("JAX_NUM_CPU_DEVICES") in ("abc", "-1") and command in ("run", "check") and words == _plain_line(command)
    return Case(command, words, (("p.mlir", text.encode()),), environment=tuple(environment.items()), terminal=kind, refused=wrong)


def _plain_line(command: str) -> tuple[str, ...]:
    options = {"opt": ("--gspmd-partition",), "compile": ("--target", "cpu")}
    return ("p.mlir", *options.get(command, ()))



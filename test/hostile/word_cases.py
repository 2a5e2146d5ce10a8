"""Cases of texts on the command line, of arguments of functions, of models, and of terminals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from hostile import consoles, seed_inputs
from hostile.case import Case
from hostile.command_lines import PASSES
from hostile.mutations import mutated_words
from hostile.places import HELD_FIFO
from hostile.wanted import Wanted

_PROGRAM = ("p.mlir", seed_inputs.GOOD.encode())

# ---- rules and pipelines ----

_RULES = (
    "([i, k])->([i, k])",
    "([i, k])->([i, k]) reduction={}",
    "([i, k])->([i, k]) need_replication={k}",
    "([ij, k])->([i, k]) {i=4, j=2}",
)
_PIPELINES = (
    "builtin.module(gspmd-partition)", "builtin.module(gspmd-ingest,gspmd-propagate{max-rounds=8},cse)",
    "builtin.module(func.func(canonicalize{max-iterations=3 top-down=true}),gspmd-ingest)",
    "builtin.module(gspmd-partition{num-partitions=8 combine-bytes=65536 update-axes=x,y target=tpu-v5p})",
    "gspmd-ingest,gspmd-propagate", "any(cse)", "builtin.module(sdy-basic-propagate)",
    "builtin.module(stablehlo-legalize-to-vhlo)",
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
    "options": ({"": 1}, {"combine_bytes": -1}, {"combine_bytes": "x"}, {"update_axes": "x"}, {"update_axes": [1]}, [],
                5, {"strict": 1},
                {"nothing": 1}, {"hoist_max_bytes": 10**21}, {"list_groups_up_to": None}, {"target": "tpu-v5p"}),
    "strict": (-1, "x", 1.5, 10**21, [], None),
    "target": (5, "nowhere", None, "é", "a\nb", [], "tpu:v5p:99999999999x4x4", "\0"),
    "replicate_unsupported": ("x", 5, []),
}  # fmt: skip
_MESH_SHAPES = (
    [4, 2],
    [],
    [0],
    [-1],
    [2**31],
    [2**32, 2**32],
    ["4"],
    [1.5],
    [4, 4],
    [True],
    [10**21],
    [2] * 64,
    [8],
    None,
    "42",
)
_MESH_NAMES = (
    ["x", "y"],
    [],
    ["x"],
    [""],
    ["x", "x"],
    [5],
    ["a b"],
    [None],
    ["x{a"],
    ["\udcff"],
    "xy",
    None,
    ["x"] * 64,
)
_SOURCES = (
    None,
    5,
    1.5,
    [],
    {},
    "",
    "\0",
    "\udcff",
    "nothing.mlir",
    ".",
    "/",
    " ",
    "{",
    "\n",
    "HloModule",
    "-" * 5000,
    True,
)


_CODES = (
    "",
    "G",
    "G9999",
    "g0300",
    "0300",
    "G0300 ",
    "G0300,G0301",
    "\u00e9",
    "../G0300",
    "all",
    "-1",
    "G" * 5000,
    "\n",
)
_SHELLS = ("", "sh", "BASH", "bash zsh", "\u00e9", "/bin/bash", "-1")


def page(rng: Random, wanted: Wanted) -> Case:
    """A command that prints a page, asked for one that there is not."""
    command = rng.choice(wanted.among(("explain-error", "explain-error", "completion")))
    if command == "completion":
        return Case(command, (f"--for={rng.choice(_SHELLS)}", rng.choice((*_SHELLS, "bash"))), expects="refusal")
    return Case(command, (rng.choice(_CODES),))


def call(rng: Random, wanted: Wanted) -> Case:
    """A function of the API with an odd argument."""
    name = rng.choice(
        wanted.among(("api.partition", "api.explain", "api.cost", "api.mesh", "api.program", "api.check", "api.passes"))
    )
    if name == "api.mesh":
        return Case(name, (json.dumps([rng.choice(_MESH_SHAPES), rng.choice(_MESH_NAMES)]),))
    if name == "api.program":
        return Case(name, (rng.choice(("partition", "propagate", "explain", "cost", "check", "load", "load_compiled",
                                       "compile_for")),
                           json.dumps(rng.choice(_SOURCES))))  # fmt: skip
    if name == "api.passes":
        return Case(
            name, ("text", json.dumps({"passes": mutated_words(rng, rng.choice(_PIPELINES), "")[:50_000]})), (_PROGRAM,)
        )
    keywords: dict[str, Any] = {}
    if name == "api.check":
        keywords = rng.choice(({"seed": -1}, {"rtol": -1}, {"atol": "x"}, {"num_devices": 0}, {"num_devices": 7},
                               {"inputs": [1]},
                               {"inputs": "nothing.npz"}, {"inputs": 5}, {"seed": "x"}, {"rtol": 1e999},
                               {"options": {"x": 1}}))  # fmt: skip
    else:
        fitting = [n for n in _ODD if n != "strict" or name != "api.explain"]
        chosen = rng.choice(fitting)
        keywords = {chosen: rng.choice(_ODD[chosen])}
    return Case(name, (rng.choice(("path", "text", "bytes")), json.dumps(keywords)), (_PROGRAM,))


# ---- models and terminals ----

_DEMO: dict[str, tuple[str, ...]] = {
    "--mesh": (
        "",
        "x",
        "x=0,y=1",
        "x=-1",
        "x=8",
        "x=4,x=2",
        "x=99999999999,y=2",
        "x=\uff14",
        "=",
        ",",
        "x=4,y=2,z=1",
        "x=1e3",
    ),
    "--steps": ("0", "-1", "", "abc", "1.5", "9" * 5000),
    "--set": (
        "",
        "=",
        "batch",
        "batch=0",
        "batch=-1",
        "batch=abc",
        "x=1",
        "batch=",
        "recipe=q",
        "batch=1.5",
        "batch=\uff17" + "0" * 5000,
    ),
    "--recipe": ("", "q", "é", "x" * 5000),
    "--plot": ("a.xyz", "a", "missing/a.svg", ""),
}


def demo(rng: Random, wanted: Wanted) -> Case:
    """A model with an option that cannot be."""
    wanted.among(("demo",))
    flag = rng.choice(sorted(_DEMO))
    value = rng.choice(_DEMO[flag])
    model = rng.choice(("mlp", "mlp", "mlp", "", "nothing", "common", "../mlp", "é"))
    return Case("demo", (model, f"{flag}={value}"), expects="refusal")


_ENVIRONMENTS = (
    {"JAX_NUM_CPU_DEVICES": "abc"}, {"JAX_NUM_CPU_DEVICES": "-1"}, {"JAX_NUM_CPU_DEVICES": ""},
    {"JAX_NUM_CPU_DEVICES": "0"},
    {"JAX_PLATFORMS": "nowhere"}, {"JAX_PLATFORMS": ""}, {"COLUMNS": "0"}, {"COLUMNS": "-5"}, {"COLUMNS": "abc"},
    {"COLUMNS": "1"},
    {"COLUMNS": "99999999999999999999"}, {"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"},
    {"TERM": ""},
    {"TERM": "nothing"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "nowhere"},
    {"TMPDIR": "/nowhere"},
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}, {"HOME": "/nowhere"}, {"HOME": ""}, {"LINES": "0"},
    {"PATH": ""},
    {"PYTHONWARNINGS": "error"}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONHASHSEED": "0"},
    {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
)  # fmt: skip


def terminal(rng: Random, wanted: Wanted) -> Case:
    """A program that is good or has an error, in an environment or a terminal that is odd."""
    command = rng.choice(wanted.among(("opt", "partition", "partition", "explain", "cost", "check", "run", "compile")))
    usual = _plain_line(command)
    if not wanted.terminals:
        return Case(command, usual, (_PROGRAM,))
    good = seed_inputs.GOOD
    text = rng.choice((good, good, good.replace('"y"}', '"\u00e9"}'), good[:-40]))
    kind = rng.choice((*consoles.KINDS, "a process", "a process", "a terminal"))
    inlet = ""
    if kind == "an interrupt":
        kind, inlet = f"{kind} after {rng.choice((0.0, 0.05, 0.2, 0.5, 1.0, 1.5, 2.5))} s", HELD_FIFO
    words = usual if rng.random() < 0.85 else rng.choice((("--help",), ("--version",), (), ("--no-such-option",)))
    environment = rng.choice(_ENVIRONMENTS) if rng.random() < 0.6 else {}
    wrong = environment.get("JAX_NUM_CPU_DEVICES") in ("abc", "-1") and command in ("run", "check")
    return Case(
        command, words, (("p.mlir", text.encode()),), inlet=inlet, terminal=kind,
        environment=tuple(environment.items()),
        expects=_expected(wrong, kind, words == usual and text == good, environment),
    )  # fmt: skip


def _expected(wrong: bool, kind: str, good: bool, environment: Mapping[str, str]) -> str:
    """What has to become of a program in a terminal."""
    if wrong and good and kind == "a process":
        return "refusal"
    harmless = not environment or not {*environment} & {"JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "XLA_FLAGS", "TMPDIR"}
    quiet = kind in ("a process", "a terminal", "broken pipe", "closed stdout", "closed stdin", "closed stderr")
    return "success" if good and harmless and quiet and environment.get("PYTHONWARNINGS") is None else ""


def _plain_line(command: str) -> tuple[str, ...]:
    options = {"opt": ("--gspmd-partition",), "compile": ("--target", "cpu")}
    return ("p.mlir", *options.get(command, ()))

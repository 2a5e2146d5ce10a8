"""Command lines for programs, and values of options that no program could have meant."""

from __future__ import annotations

import dataclasses
import json
from random import Random

from gspmd.tools import pass_table
from hostile.mutations import NAMES, NUMBERS

PASSES = (*(name for name, *_ in pass_table.PASSES), "canonicalize", "cse", "symbol-dce", "inline")
_PRINTING = ("--mlir-print-debuginfo", "--mlir-print-op-generic", "--mlir-print-local-scope", "--emit-bytecode",
             "--mlir-timing",
             "--mlir-print-ir-after-all", "--mlir-print-ir-before=gspmd-localize", "--mlir-print-ir-after-failure",
             "--split-input-file", "--verify-diagnostics", "--allow-unregistered-dialect", "--verify-each=false",
             "--mlir-elide-elementsattrs-if-larger=2", "--dump-pass-pipeline", "--debug")  # fmt: skip
_CHOICES = (("--replicate-unsupported",), ("--strict",), ("--strict=1KiB",), ("--target", "tpu-v5p"), ("--target",
                                                                                                       "gpu-h100"),
            ("--num-partitions", "8"), ("--option", "list-groups-up-to=1"), ("--option", "update-axes=x"),
            ("--target", "tpu:v5e:4x2"), ("--option", "overlap=true"), ("--option", "combine-bytes=0"),
            ("--custom-rule", "mine=([i, k])->([i, k])"))  # fmt: skip
_SAYING = ("-v", "-q", "--diagnostics=short", "--diagnostics=json", "--diagnostics=full", "--color=always", "--debug")
_OWN: dict[str, tuple[tuple[str, ...], ...]] = {
    "partition": (("--report",), ("--emit-bytecode",)),
    "explain": (("--all",), ("--conflicts",), ("--json",), ("--print-module",), ("--value", "%0"), ("--value", "a"),
                ("--all", "--json")),
    "cost": (("--json",), ("--top", "2"), ("--target", "tpu-v5p", "--json"), ("--trace", "-")),
    "report": (("--target", "tpu-v5p"),),
    "show": (("--value", "%0"), ("--value", "a"), ("--color=always", "--value", "%0")),
    "suggest": (("--json",), ("--save", "memory"), ("--save=bytes", "--limit", "1"), ("--time-limit", "0.5")),
    "search": (("--json",), ("--jax",), ("--mesh", "x=4,y=2"), ("--mesh", "auto"), ("--plan", "-")),
    "check": (("--json",), ("--seed", "3"), ("--rtol", "0.1"), ("--atol", "1e30"), ("--bisect",)),
    "compare": (("--json",), ("--max-increase", "5%"), ("--max-increase", "step=0"), ("--top", "1")),
    "verify": (("--json",), ("--strict",)),
    "run": (("--seed", "3"), ("--repeat", "2")),
    "compile": (("--json",), ("--top", "1"), ("--compiler-option", "xla_cpu_enable_fast_math=true")),
}  # fmt: skip
WITH_OUTPUT = {
    "opt": ("-o",),
    "partition": ("-o",),
    "run": ("-o",),
    "compile": ("-o", "--hlo"),
    "cost": ("--write-budget", "--trace"),
    "report": ("-o", "--data", "--trace"),
    "suggest": ("-o",),
    "search": ("-o", "--plan"),
}
READERS = (
    "opt",
    "partition",
    "explain",
    "cost",
    "compare",
    "verify",
    "report",
    "show",
    "suggest",
    "search",
    "api.partition",
    "api.propagate",
    "api.explain",
    "api.cost",
    "api.verify",
    "api.report",
    "api.suggest",
    "api.search",
    "api.passes",
)
RUNNERS = ("check", "compare", "run", "compile", "api.check", "api.compare", "api.run", "api.compile")


def command_line(rng: Random, command: str, name: str) -> tuple[str, ...]:
    """Words that give a command a program called `name`, with some options that are right."""
    if command == "opt":
        return _opt_line(rng, name)
    if "." in command:
        return (rng.choice(("path", "text", "bytes")), json.dumps(_keywords(rng, command)))
    words = [name]
    if command == "compare":  # as much as needs no process of its own; the rest is slow
        words += [name] if rng.random() < 0.9 else ["--no-run"]
    if command == "compile":
        words += ["--target", "cpu"]
    if command == "report":
        words += ["-o", "-"]
    if command == "suggest":
        words += ["--tries", "2"]
    if command == "search":
        words += ["--time-limit", "0.1"]
    for chosen in (_OWN[command], () if command in ("show", "suggest", "search") else _CHOICES):
        if chosen and rng.random() < 0.35:
            option = rng.choice(chosen)
            if not (command == "compile" and option[0] == "--target"):
                words += option
    if rng.random() < 0.15:
        words.append(rng.choice(_SAYING))
    return tuple(words)


def _opt_line(rng: Random, name: str) -> tuple[str, ...]:
    kind = rng.random()
    if kind < 0.2:
        passes: tuple[str, ...] = ()
    elif kind < 0.5:
        passes = ("--gspmd-partition",)
    elif kind < 0.8:
        passes = (f"--{rng.choice(PASSES)}",)
    else:
        passes = tuple(f"--{name}" for name in rng.choices(PASSES, k=rng.randint(2, 4)))
    printing = (rng.choice((*_PRINTING, *_SAYING)),) if rng.random() < 0.3 else ()
    return (name, *passes, *printing)


def _keywords(rng: Random, command: str) -> dict[str, object]:
    if rng.random() < 0.6 or command in ("api.passes", "api.run"):
        return {}
    values = {
        "num_partitions": (8, 1, 3),
        "replicate_unsupported": (True,),
        "custom_rules": ({"mine": "([i])->([i])"},),
    }
    if command != "api.propagate":
        values["target"] = ("tpu-v5p", "neutral")  # type: ignore[assignment]
    if command in ("api.check", "api.compile"):
        return {}
    name = rng.choice(sorted(values))
    return {name: rng.choice(values[name])}


# ---- hostile options ----


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """An option, the commands that have it, and values that each of them has to refuse."""

    flag: str
    commands: tuple[str, ...]
    wrong: tuple[str, ...]
    prefix: str = ""


_COUNTS = ("0", "-1", "", "nan", "1.5", "abc", "1e3", " ", "-0", "9" * 5000, "1;2", "0x8", "inf")
_BYTES = ("-1", "", "nan", "inf", "abc", "1XiB", "1KiB2", "-5MiB", "1e3", " ", "KiB")
_WHOLE = ("", "nan", "1.5", "abc", "1e3", "true", "-1", "-1000000000000000000000", "9" * 5000)
_CHOOSERS = ("partition", "explain", "cost", "verify", "report", "check", "compare", "run")
_PARTITIONING = (*_CHOOSERS, "compile", "suggest", "search")
_ALL = ("opt", *_PARTITIONING)
OPTIONS = (
    Option("--diagnostics", _ALL, ("", "x", "SHORT", "0", "short,json"), "="),
    Option("--color", _ALL, ("", "x", "ALWAYS", "1"), "="),
    Option("--timeout", ("run", "check", "compare", "demo"), ("", "-1", "nan", "abc", "0", "1e999", "-inf")),
    Option("--num-partitions", _PARTITIONING, _COUNTS),
    Option("--repeat", ("run",), _COUNTS),
    Option("--top", ("cost", "compare", "compile"), _COUNTS),
    Option("--limit", ("suggest",), _COUNTS),
    Option("--tries", ("suggest",), _COUNTS),
    Option("--apply", ("suggest",), _COUNTS, "="),
    Option("--save", ("suggest",), ("", "x", "TIME", "flops", "time,bytes")),
    Option("--mesh", ("search",), ("", "x", "x=0", "8", "x=4,x=2", "x=4;y=2", "x=-1", "x=" + "9" * 5000, "é=2")),
    Option("--memory", ("search",), ("", "0%", "101%", "-1", "nan", "abc", "1%%", "0", "1", "1e9")),
    Option("--start", ("search",), ("", "nothing.json", ".", "a\nb", "p.mlir")),
    Option("--time-limit", ("suggest", "search"), ("", "-1", "nan", "abc", "0", "1e999", "-inf")),
    Option("--max-increase", ("compare",), ("", "-1", "nan", "inf", "abc", "5%%", "=5%", "flops=1", "bytes=", "1e3",
                                            "9" * 50)),
    Option("--seed", ("run", "check", "compare"), ("-1", "", "nan", "1.5", "abc", "9" * 5000)),
    Option("--rtol", ("check", "compare"), ("-1", "", "nan", "inf", "abc", "-inf", "1e999")),
    Option("--atol", ("check", "compare"), ("-1", "", "nan", "inf", "abc")),
    Option("--tolerance", ("cost",), ("-1", "", "nan", "inf", "abc", "0.5")),
    Option("--strict", (*_CHOOSERS, "compile"), _BYTES, "="),
    Option("--target", (*_CHOOSERS, "suggest", "search"), ("tpu-v99", ":", "tpu:", "tpu::", "tpu:v5p:", "tpu:v5p:0x1x1",
                                                 "tpu:v5p:4x4", "é",
                                   "nothing.toml",
                                   "tpu:v5p:99999999999x4x4", "tpu:v5p:4x4x4x4", "tpu:v5p:-1x4x4", "/",
                                   "tpu:v5p:1x1x1000000007")),
    Option("--target", ("compile",), ("", "cpu:", "cpu:0", "cpu:-1", "cpu:abc", "cpu:8:8", "gpu:", "tpu:", "x", ":",
                                      "cpu:1.5",
                                      "tpu:v5p:99999999999x4x4", "cpu:99999999999999999999", "é", "CPU",
                                      "tpu:v5p:0x0x0")),
    Option("--custom-rule", _PARTITIONING, ("", "=", "x", "x=([i)->", "=([i])->([i])", "x=",
                                                      "x=([i])->([i]) reduction={q}",
                                                      "mine=([i, i])->([i])", "mine=([i])", "mine=([i, j, k])->([i])",
                                                      "x=[i]")),
    Option("--option", _PARTITIONING, ("", "=", "x", "x=1", "combine-bytes=-1", "combine-bytes=",
                                                 "combine-bytes=abc",
                                                 "hoist-max-bytes=-7", "hoist-max-bytes=1000000000000000000000",
                                                 "update-axes=nowhere",
                                                 "list-groups-up-to=-1", "max-temporary-bytes=-1",
                                                 "overlap=perhaps",
                                                 "strict=1", "=1", "combine-bytes=1.5", "overlap=2")),
    Option("--value", ("explain", "show"), ("", " ", "%nothing", "@f:%3", "\n", "x" * 5000)),
    Option("--platform", ("run", "check"), ("", "nowhere", "tpu", "é", "cpu,tpu", " ")),
    Option("--inputs", ("run", "check", "compare"), ("", "nothing.npz", ".", "a\nb")),
    Option("--budget", ("cost",), ("", "nothing.json", ".", "a\nb")),
    Option("--original", ("cost",), ("", "nothing.mlir", ".")),
    Option("--against", ("check",), ("", "nothing.mlir", ".", "p.mlir")),
    Option("--compiler-option", ("compile",), ("", "=", "x", "x=1", "xla_no_such_flag=1", "=1",
                                               "xla_cpu_enable_fast_math=7x")),
    Option("--mlir-elide-elementsattrs-if-larger", ("opt",), ("", "abc", "-1", "1.5", "9" * 5000), "="),
    Option("--mlir-print-ir-before", ("opt",), ("nowhere", "gspmd-localise", "\n"), "="),
    Option("--pass-pipeline", ("opt",), ("", "(", "builtin.module(", "builtin.module(nowhere)",
                                         "func.func(gspmd-ingest)", ")", "a,b",
                                         "builtin.module(gspmd-ingest{x=1})",
                                         "builtin.module(gspmd-propagate{max-rounds=-1})",
                                         "builtin.module(" * 2000, "builtin.module(cse{x})",
                                         "builtin.module(cse{max-rounds=})",
                                         "gspmd-ingest{num-partitions=-1}", "gspmd-combine-collectives{bytes=-1}", "{",
                                         "\0",
                                         "any(cse", "builtin.module(canonicalize{max-iterations=abc})"), "="),
)  # fmt: skip


_OBEYED = {"--repeat", "--timeout", "--tries", "--time-limit"}  # a large number is a long time, as was asked for


def hostile_value(rng: Random, option: Option) -> tuple[str, bool]:
    """A value of an option, and whether it has to be refused."""
    if rng.random() < 0.6 or option.flag in _OBEYED:
        return rng.choice(option.wrong), True
    return rng.choice((*NUMBERS, *NAMES, "10" * 10, "x=4,y=2", "\uff11\uff12", "\udcff")), False

"""Values of the wrong kind, whatever they are given for: one error of ours, or a result; nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gspmd
from gspmd.tools import cli, opt

PROGRAM = """sdy.mesh @mesh = <["x"=1]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
VALUES = (
    1.5,
    None,
    3,
    b"x\x00",
    [],
    "",
    {},
    True,
    object(),
    -1,
    10**400,
    10**5000,
    float("nan"),
    "a\x00b",
    "\ud800",
    "²",
)
LONG = "9" * 5000  # digits, of which Python reads 4300


@pytest.fixture(scope="module")
def partitioned() -> gspmd.Partitioned:
    return gspmd.partition(PROGRAM, num_partitions=1)


CALLS: dict[str, Callable[[gspmd.Partitioned, Any], object]] = {
    "a path of a compiled program": lambda _, value: gspmd.load_compiled(value),
    "a path to save a compiled program to": lambda p, value: gspmd.compile_for(p, "cpu").save(value),
    "a path of a partitioned program": lambda _, value: gspmd.load(value),
    "a path to save a partitioned program to": gspmd.save,
    "a program": lambda _, value: gspmd.partition(value),
    "a partitioned program": lambda _, value: gspmd.compile(value),
    "devices": gspmd.compile,
    "a target of costs": lambda p, value: gspmd.cost(p, target=value),
    "a target to compile for": gspmd.compile_for,
    "inputs": lambda _, value: gspmd.check(PROGRAM, num_devices=1, inputs=value),
    "a number of devices": lambda _, value: gspmd.check(PROGRAM, num_devices=value),
    "a number of partitions": lambda _, value: gspmd.partition(PROGRAM, value),
    "options": lambda _, value: gspmd.partition(PROGRAM, 1, options=value),
    "rules": lambda _, value: gspmd.partition(PROGRAM, 1, custom_rules=value),
    "a rule": lambda _, value: gspmd.partition(PROGRAM, 1, custom_rules={"f": value}),
    "sizes and names of a mesh": lambda _, value: gspmd.make_mesh(value, value),
    "devices of a mesh": lambda _, value: gspmd.make_mesh((4,), ("x",), devices=value),
    "a mesh": lambda _, value: gspmd.jit(abs, mesh=value)(np.ones(8)),
}


@pytest.mark.parametrize("what", CALLS)
def test_values_that_are_no_such(
    what: str, partitioned: gspmd.Partitioned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        with contextlib.suppress(gspmd.Error):
            CALLS[what](partitioned, value)


WORDS = (
    ["demo", "mlp", "--set", f"batch={LONG}"],
    ["demo", "mlp", "--set", "batch=²"],
    ["demo", "mlp", "--mesh", f"x={LONG}"],
    ["demo", "mlp", "--mesh", "x=²"],
    ["partition", "p.mlir", "--num-partitions", LONG],
    ["partition", "p.mlir", "--option", f"combine-bytes={LONG}"],
    ["partition", "p.mlir", "--custom-rule", f"f=([i_{LONG}])->([i_{LONG}])"],
    ["partition", "p.mlir", "--custom-rule", f"f=([i])->([i]) {{i={LONG}}}"],
    ["partition", "p.mlir", f"--strict={LONG}"],
    ["partition", "open.mlir"],
    ["partition", "priority.mlir"],
    ["partition", "p.hlo"],
    ["cost", "p.mlir", "--top", LONG],
    ["cost", "p.mlir", "--budget", "long.toml"],
    ["cost", "p.mlir", "--budget", "long.json"],
    ["cost", "p.mlir", "--budget", "date.toml"],
    ["cost", "p.mlir", "--target", "target.toml"],
    ["run", "p.mlir", "--timeout", LONG],
    ["run", "p.mlir", "--seed", LONG],
    ["compile", "p.mlir", "--target", f"cpu:{LONG}"],
    ["compile", "p.mlir", "--target", f"tpu:v5p:{LONG}x4"],
    ["opt", "p.mlir", f"--mlir-elide-elementsattrs-if-larger={LONG}"],
    ["opt", "expected.mlir", "--verify-diagnostics"],
)
FILES = {
    "p.mlir": PROGRAM,
    "open.mlir": PROGRAM.replace(
        "  return %a",
        f"""  %0 = stablehlo.custom_call @Sharding(%a) {{backend_config = "unspecified_dims=[{LONG}]",
    mhlo.sharding = "{{replicated}}"}} : (tensor<8xf32>) -> tensor<8xf32>
  return %a""",
    ),
    "priority.mlir": PROGRAM.replace("f32>)", f'f32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}p{LONG}]>}})'),
    "p.hlo": f"""HloModule m, num_partitions={LONG}
ENTRY %main (a: f32[8]) -> f32[8] {{
  ROOT %a = f32[8]{{0}} parameter(0)
}}
""",
    "long.toml": f"sent_bytes = {LONG}\n",
    "long.json": f'{{"sent_bytes": {LONG}}}\n',
    "date.toml": "program = 1979-05-27\n",
    "target.toml": f'like = "h100"\n[memory]\nbytes = {LONG}\n',
    "expected.mlir": f"// expected-error @+{LONG} {{{{nothing}}}}\n{PROGRAM}",
}


@pytest.mark.parametrize("words", WORDS, ids=[" ".join(word[:12] for word in words[::2]) for words in WORDS])
def test_numbers_that_are_too_long(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    status = opt.main(words[1:]) if words[0] == "opt" else cli.main(words)
    said = capfd.readouterr().err
    assert status in (1, 2) or "--seed" in words or words[1] == "expected.mlir", said
    assert "internal error" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", ["XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL", "COLUMNS", "JAX_NUM_CPU_DEVICES"])
@pytest.mark.parametrize("value", [LONG, "²"])
def test_numbers_in_the_environment(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, f"--xla_force_host_platform_device_count={value}" if name == "XLA_FLAGS" else value)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    assert cli.main(["partition", str(tmp_path / "p.mlir"), "--num-partitions", "1"]) in (0, 2)
    assert cli.main(["run", str(tmp_path / "p.mlir"), "--num-partitions", "1"]) in (0, 2)
    assert "internal error" not in capfd.readouterr().err

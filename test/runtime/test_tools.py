from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.handwritten import partitioned

from gspmd.tools import cli
from gspmd.virtual_devices import request_devices

ORIGINAL = """module { func.func public @main(%a: tensor<7x3xf32>, %b: tensor<7x3xf32>)
    -> (tensor<7x3xf32> {jax.result_info = "sum"}) {
  %r = stablehlo.add %a, %b : tensor<7x3xf32>
  return %r : tensor<7x3xf32> } }"""
ROWS = 'f32[7,3] [{"x"}, {}]'


def module(op: str = "add", mesh: str = '<["x"=4]>', donated: str = "") -> str:
    body = f"%r = stablehlo.{op} %0, %1 : tensor<2x3xf32>\nreturn %r : tensor<2x3xf32>"
    return partitioned(mesh, [f"left: {ROWS}{donated}", ROWS], [f"sum: {ROWS}"], body)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.chdir(tmp_path)
    Path("original.mlir").write_text(ORIGINAL)
    Path("right.mlir").write_text(module())
    Path("wrong.mlir").write_text(module("subtract"))
    return tmp_path


# ---- gspmd check ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_check_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "right.mlir", "--against", "original.mlir"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0] == 'mesh <["x"=4]>, 4 partitions, compared with one device'
    assert lines[2] == "random inputs of seed 0:"
    header = "abs error rel error tolerance type sharding result"
    assert " ".join(lines[3].split()) == header
    assert re.fullmatch(r'  pass +0 +0 +\S+e-05  float32\[7,3\]  \[\{"x"\}, \{\}\]  0 sum', lines[4])
    assert lines[-1] == "PASS: 1 results agree"


@pytest.mark.usefixtures("files")
def test_check_fails_where_results_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "wrong.mlir", "--against", "original.mlir"]) == 3
    output = capsys.readouterr().out
    assert re.search(r"^  FAIL .*  0 sum: error ", output, re.MULTILINE)
    assert output.endswith("FAIL: 1 of 1 results differ\n")


@pytest.mark.usefixtures("files")
def test_check_writes_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "wrong.mlir", "--against", "original.mlir", "--json", "--seed", "5"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    assert report["runs"][0]["inputs"] == "random inputs of seed 5"
    assert report["runs"][0]["results"][0]["name"] == "sum"


@pytest.mark.usefixtures("files")
def test_check_takes_inputs_and_tolerances(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("in.npz", left=np.full((7, 3), 100, np.float32), arg1=np.ones((7, 3), np.float32))
    np.savez("in0.npz", **{"0": np.full((7, 3), 100, np.float32), "1": np.ones((7, 3), np.float32)})
    arguments = ["check", "wrong.mlir", "--against", "original.mlir", "--inputs", "in0.npz"]
    assert cli.main([*arguments, "--rtol", "0.02"]) == 0
    assert cli.main([*arguments, "--rtol", "0.019"]) == 3
    assert cli.main([*arguments, "--atol", "2"]) == 0
    assert "in0.npz:" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["right.mlir"], 2, "'right.mlir' is already partitioned; name its original with --against"),
        (["original.mlir", "--against", "right.mlir"], 2, "'original.mlir' is not partitioned; leave --against out"),
        (["right.mlir", "--against", "original.mlir", "--num-partitions", "8"], 2, "partitioned for 4 devices, not 8"),
        (["right.mlir", "--against", "original.mlir", "--num-partitions", "0"], 2, "0 is not a positive number"),
        (["right.mlir", "--against", "original.mlir", "--rtol", "-1"], 2, "-1 is not a finite number of at least 0"),
        (["right.mlir", "--against", "original.mlir", "--seed", "-1"], 2, "--seed is -1, expected at least 0"),
        (["right.mlir", "--against", "other.mlir"], 2, "the partitioned module has the arguments"),
        (["none.mlir"], 1, "cannot read 'none.mlir': no such file or directory"),
        (["broken.mlir"], 1, "broken.mlir:1:10: error: "),
        (["right.mlir", "--against", "original.mlir", "--inputs", "none.npz"], 1, "cannot read 'none.npz'"),
        (["right.mlir", "--against", "original.mlir", "--inputs", "original.mlir"], 1, "is not an .npz archive"),
        (["right.mlir", "--against", "original.mlir", "--inputs", "shape.npz"], 1, "argument 0 has shape (3,)"),
        (["dynamic.mlir", "--against", "original.mlir"], 1, "expected a tensor of static shape"),
    ],
)
def test_check_says_what_is_wrong(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.mlir").write_text(ORIGINAL.replace("7x3", "7x4"))
    Path("broken.mlir").write_text("module { oops }")
    Path("dynamic.mlir").write_text(module().replace("= tensor<7x3xf32>", "= tensor<?x3xf32>"))
    np.savez("shape.npz", **{"0": np.zeros(3, np.float32), "1": np.zeros(3, np.float32)})
    assert cli.main(["check", *arguments]) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


# ---- gspmd run ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_run_prints_what_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "right.mlir"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[:3] == [
        'mesh <["x"=4]>: 4 partitions on cpu',
        "argument 0 'left': f32[7,3] [{\"x\"}, {}]",
        'argument 1: f32[7,3] [{"x"}, {}]',
    ]
    assert re.fullmatch(r"first run \d+\.\d{3} ms", lines[3])
    assert lines[4].startswith("result 0 'sum': f32[7,3] [{\"x\"}, {}] = min -")


@pytest.mark.usefixtures("files")
def test_what_squares_are_kept_in_is_not_negative(capsys: pytest.CaptureFixture[str]) -> None:
    """As the second moments of a training step, whose roots are taken."""
    Path("root.mlir").write_text("""sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.sqrt %a : tensor<8xf32>
  return %0, %a : tensor<8xf32>, tensor<8xf32>
}""")
    assert cli.main(["run", "root.mlir"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "note: NaN in results 0: run again with random arguments that are not negative"
    assert "not finite" not in lines[4]
    assert re.match(r"result 1: .* = min 0\.\d", lines[5])


@pytest.mark.usefixtures("files")
def test_arguments_of_a_file_are_taken_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Path("root.mlir").write_text("""sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.sqrt %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}""")
    np.savez("in.npz", np.array([-1, 1, 1, 1, 1, 1, 1, 4], np.float32))
    assert cli.main(["run", "root.mlir", "--inputs", "in.npz"]) == 0
    assert "min 1, max 2, mean 1.14286, 1 of 8 not finite" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("donated", ["", " donated"])
def test_run_repeats_and_writes_results(donated: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("program.mlir").write_text(module(donated=donated))
    left, right = np.arange(21, dtype=np.float32).reshape(7, 3), np.ones((7, 3), np.float32)
    np.savez("in.npz", left=left, arg1=right)
    arguments = ["run", "program.mlir", "--inputs", "in.npz", "--repeat", "4", "-o", "out.npz"]
    assert cli.main(arguments) == 0
    output = capsys.readouterr().out
    assert re.search(r"first run \S+ ms; 3 more: median \S+ ms, fastest \S+ ms, slowest \S+ ms", output)
    assert ("argument 0 'left': f32[7,3] [{\"x\"}, {}], donated" in output) == bool(donated)
    assert "min 1, max 21, mean 11" in output
    with np.load("out.npz") as results:
        assert results.files == ["0"]
        np.testing.assert_array_equal(results["0"], left + right)


@pytest.mark.usefixtures("files")
def test_run_leaves_old_results_alone_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.npz").write_bytes(b"old")
    np.savez("in.npz", **{"0": np.zeros(3, np.float32), "1": np.zeros(3, np.float32)})
    assert cli.main(["run", "right.mlir", "--inputs", "in.npz", "-o", "out.npz"]) == 1
    assert "argument 0 'left' has shape (3,), expected the global shape (7, 3)" in capsys.readouterr().err
    assert Path("out.npz").read_bytes() == b"old"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["none.mlir"], 1, "cannot read 'none.mlir'"),
        (["right.mlir", "--repeat", "0"], 2, "0 is not a positive number"),
        (["right.mlir", "--num-partitions", "2"], 2, "the module is partitioned for 4 devices, not 2"),
        (["right.mlir", "-o", "none/out.npz"], 1, "cannot write 'none/out.npz': no such file"),
        (["right.mlir", "--inputs", "few.npz"], 2, "has no array for argument 1: f32[7,3]; it has 0; call it '1'"),
    ],
)
def test_run_says_what_is_wrong(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("few.npz", **{"0": np.zeros((7, 3), np.float32)})
    assert cli.main(["run", *arguments]) == status
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_run_summarises_every_kind_of_result(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ["f32[8] [{}]", "i1[8] [{}]", "complex<f32>[8] [{}]", "i32[2] [{}]", "f32[0] [{}]"]
    types = "tensor<8xf32>, tensor<8xi1>, tensor<8xcomplex<f32>>, tensor<2xi32>, tensor<0xf32>"
    text = partitioned('<["x"=2]>', kinds, kinds, f"return %0, %1, %2, %3, %4 : {types}")
    Path("kinds.mlir").write_text(text)
    bad = np.arange(8, dtype=np.float32)
    bad[3:5] = np.nan, np.inf
    np.savez(
        "in.npz",
        arg0=bad,
        arg1=np.arange(8) < 3,
        arg2=np.full(8, 3 + 4j, np.complex64),
        arg3=np.array([5, 6], np.int32),
        arg4=np.zeros(0, np.float32),
    )
    assert cli.main(["run", "kinds.mlir", "--inputs", "in.npz"]) == 0
    summaries = [line.split(" = ")[1] for line in capsys.readouterr().out.splitlines() if line.startswith("result")]
    assert summaries == [
        "min 0, max 7, mean 3.5, 2 of 8 not finite",
        "3 of 8 true",
        "magnitude up to 5, mean 3+4j",
        "[5, 6]",
        "[]",
    ]


# ---- devices --------------------------------------------------------------------------------------


def command(*arguments: str, flags: str | None, source: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {
        k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_PLATFORMS", "TF_CPP_MIN_LOG_LEVEL")
    }
    if flags is not None:
        environment["XLA_FLAGS"] = flags
    line = [sys.executable, "-m", "gspmd.tools.cli", *arguments]
    return subprocess.run(line, env=environment, input=source, capture_output=True, check=False)


@pytest.mark.parametrize("flags", [None, "--xla_force_host_platform_device_count=2 --xla_cpu_enable_fast_math=false"])
def test_commands_make_their_own_devices_and_are_quiet(flags: str | None) -> None:
    finished = command("run", "-", flags=flags, source=module(mesh='<["x"=4, "y"=3]>').encode())
    assert finished.stderr.decode() == ""
    assert finished.returncode == 0
    assert b"12 partitions on cpu" in finished.stdout


def test_another_platform_must_be_there(files: Path) -> None:
    finished = command("run", str(files / "right.mlir"), "--platform", "tpu", flags=None)
    assert finished.returncode == 1
    assert b"error: no tpu devices: " in finished.stderr
    assert finished.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "4"),
        ("--a=1", "4"),
        ("--xla_force_host_platform_device_count=2 --a=1", "4"),
        ("--xla_force_host_platform_device_count=16", "16"),
    ],
)
def test_requesting_devices_keeps_larger_requests(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    request_devices("cpu", 4)
    assert os.environ["XLA_FLAGS"] == before
    assert os.environ["JAX_NUM_CPU_DEVICES"] == after


# ---- with the partitioner -------------------------------------------------------------------------

ANNOTATED = """module {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<5xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.sine %a : tensor<6x5xf32>
    %r = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<6x5xf32>, tensor<f32>) -> tensor<5xf32>
    return %r : tensor<5xf32>
  }
}"""


@pytest.mark.usefixtures("files")
def test_annotated_programs_are_partitioned_on_the_fly(capsys: pytest.CaptureFixture[str]) -> None:
    Path("annotated.mlir").write_text(ANNOTATED)
    assert cli.main(["check", "annotated.mlir"]) == 0
    assert "PASS: 1 results agree" in capsys.readouterr().out
    assert cli.main(["run", "annotated.mlir", "--num-partitions", "4"]) == 0
    assert '6,5] [{"x"}, {}]' in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_what_is_refused_has_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = ANNOTATED.replace("stablehlo.sine %a :", "stablehlo.custom_call @mystery(%a) :")
    Path("refused.mlir").write_text(text.replace(": tensor<6x5xf32>\n", ": (tensor<6x5xf32>) -> tensor<6x5xf32>\n", 1))
    assert cli.main(["check", "refused.mlir"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("refused.mlir:5:10: error: 'stablehlo.custom_call' op")
    assert error.count("\n") == 1

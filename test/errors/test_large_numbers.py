"""Time and memory grow with a program, not with the numbers in it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from support.large_numbers import PARTITIONED, PRIME, REFUSED, SLICED, negated

import gspmd
from gspmd.dialect.errors import Error
from gspmd.pass_manager import PassManager
from gspmd.tools import cli, opt
from gspmd.transforms.parsing.mlir import new_context, parse_module

MAX_S = 20.0  # of this process; all take a second or two

SMALL = negated({"x": 2}, '[{"x"}, {}]', '[{"x"}, {}]', "8x8xf32")
PRIMES = negated({"x": PRIME}, '[{"x"}, {}]', "[{}, {}]", f"{PRIME}x8xf32")


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    return str(path)


@pytest.fixture
def primes(tmp_path: Path) -> str:
    path = tmp_path / "primes.mlir"
    path.write_text(PRIMES)
    return str(path)


@pytest.mark.parametrize("name", PARTITIONED)
def test_a_program_that_says_large_numbers_is_partitioned(name: str) -> None:
    started = time.process_time()
    assert gspmd.partition(PARTITIONED[name]).module.operation.verify()
    assert time.process_time() - started < MAX_S


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_take_too_long_is_refused(name: str) -> None:
    text, message = REFUSED[name]
    started = time.process_time()
    with pytest.raises(Error, match=message):
        gspmd.partition(text)
    assert time.process_time() - started < MAX_S


def test_a_slice_that_is_run_split_over_a_prime_is_refused() -> None:
    module = parse_module(SLICED, new_context())
    started = time.process_time()
    with pytest.raises(Error, match="parts of a dimension that is split 1000000007 times, expected at most 262144"):
        PassManager(["gspmd-localize"]).run(module)
    assert time.process_time() - started < MAX_S


@pytest.mark.parametrize("stage", ["propagate", "reshard", "localize", "optimize", "order"])
@pytest.mark.parametrize("name", ["a partial value", "a dimension over a large prime is gathered"])
def test_single_passes_end(stage: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PARTITIONED[name])
    started = time.process_time()
    opt.main([str(path), f"--gspmd-{stage}", "-o", str(tmp_path / "out.mlir")])
    assert time.process_time() - started < MAX_S


@pytest.mark.parametrize("words", [["explain"], ["explain", "--all"], ["cost"]])
def test_json_lists_no_devices(words: list[str], primes: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([words[0], primes, *words[1:], "--json"]) == 0
    text = capfd.readouterr().out
    assert json.loads(text)["mesh"] == {"x": PRIME}
    assert len(text) < 100_000


# ---- options, targets, budgets ----

WRONG = {
    "a rule that is no rule": (
        ["partition", "--custom-rule", "x=([i)->"],
        r"custom rule of 'x': sharding rule '\(\[i\)->' is wrong: it is not of the form",
    ),
    "a rule of an unknown kind": (
        ["partition", "--custom-rule", "x=([i])->([i]) sum={i}"],
        "custom rule of 'x': .* is not a kind of factors",
    ),
    "negative bytes": (
        ["partition", "--option", "combine-bytes=-1"],
        "option 'combine-bytes' of pass 'gspmd-partition' is -1, expected at least 0",
    ),
    "negative partitions": (
        ["partition", "--option", "list-groups-up-to=-7"],
        "'list-groups-up-to' .* is -7, expected at least 0",
    ),
    "10^21 bytes": (["partition", "--option", f"combine-bytes={10**21}"], "'combine-bytes' .* expected at least 0"),
    "no moves": (["partition", "--option", "max-reshard-moves=0"], "'max-reshard-moves' .* is 0, expected at least 1"),
    "an axis without a name": (["partition", "--option", "update-axes=x,,y"], "'update-axes' .* has an empty entry"),
    "more partitions than there are numbers": (
        ["partition", "--num-partitions", "99999999999"],
        "'num-partitions' .* is 99999999999, expected 0 to 2147483647",
    ),
    "a value without a name": (["explain", "--value", ""], "no value is named; name one as %12"),
    "no number of devices": (["compile", "--target", "cpu:"], "cannot compile for target 'cpu:'; known are"),
    "a number of devices that is none": (["compile", "--target", "cpu:\u00b2"], "cannot compile for target"),
    "a topology of 10^12 chips": (["cost", "--target", "tpu:v5p:99999999999x4x4"], "has no topology; write it as"),
    "a topology of 10^10 chips": (
        ["compile", "--target", "tpu:v5p:99999x99999x4"],
        "a topology of 99999x99999x4 has 39999200004 chips, expected at most 1048576",
    ),
    "a tolerance beyond all numbers": (["cost", "--tolerance", "1e300"], "argument --tolerance: .*from 0 to 1000"),
    "bytes beyond all numbers": (
        ["partition", "--strict", "9" * 400],
        "argument --strict: .* more memory than any machine",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_options_are_checked(name: str, small: str, capfd: pytest.CaptureFixture[str]) -> None:
    (command, *words), message = WRONG[name]
    words = [f"{words[0]}={words[1]}"] if words[0] == "--strict" else words
    assert cli.main([command, small, *words]) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("deep.toml", "a = " + "[" * 10_000, "nested too deeply"),
        ("wide.toml", "a = " + "[" * 100_000, "not TOML: longer than 32768 characters"),
        ("long.toml", 'like = "tpu-v5p"\nmemory.bytes = ' + "9" * 5000, "a number is too long"),
        (
            "large.toml",
            'like = "tpu-v5p"\nmemory.bytes = ' + "9" * 400,
            "'memory.bytes' is 9+\\.{3}; expected a number",
        ),
        ("dims.toml", f'like = "tpu-v5p"\nnetwork.devices = {10**30}', "'network.devices' is 1.*; expected a whole"),
    ],
)
def test_descriptions_of_targets_are_bounded(
    name: str, text: str, message: str, small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert cli.main(["cost", small, "--target", str(tmp_path / name)]) == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"collectives": 1%s}' % ("0" * 400), "expected a number of at least 0"),
        ('{"collectives": 1%s}' % ("0" * 5000), "Exceeds the limit|exceeds the limit"),
        ('{"collectives": 1, "tolerance": 1e300}', "expected a fraction such as"),
    ],
)
def test_budgets_are_bounded(
    text: str, message: str, small: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "budget.json").write_text(text)
    assert cli.main(["cost", small, "--budget", str(tmp_path / "budget.json")]) == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("given", "message"),
    [("abc", "JAX_NUM_CPU_DEVICES is 'abc', expected a number"), ("99999", "99999 virtual devices, expected at most")],
)
def test_numbers_of_virtual_devices_are_checked(
    given: str, message: str, small: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", given)
    assert cli.main(["run", small]) == 2
    assert message in capfd.readouterr().err


def test_a_program_of_more_devices_than_a_process_has_is_not_run(
    primes: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    assert cli.main(["run", primes]) == 2
    assert f"{PRIME} virtual devices, expected at most 4096; use a smaller mesh" in capfd.readouterr().err

"""Nothing that a program says ends the process that reads it, or reaches a user as a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gspmd
from gspmd.reading import parse_program
from gspmd.tools import cli, opt
from gspmd.transforms.parsing import trial
from gspmd.transforms.parsing.mlir import new_context, parse_module, parse_written
from hostile.hostile_programs import HOSTILE, main, nested_loops


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused(name: str) -> None:
    text, message = HOSTILE[name]
    with pytest.raises(gspmd.Error) as raised:
        gspmd.PassManager(["gspmd-partition{num-partitions=8}"]).run(parse_program(text, new_context(), "f"))
    said = str(raised.value).replace("-:", "f:", 1) if str(raised.value).startswith("-:") else str(raised.value)
    assert message in said
    assert raised.value.kind is not gspmd.ErrorKind.INTERNAL


def test_as_many_loops_as_are_read_are_partitioned() -> None:
    module = parse_program(nested_loops(60), new_context())
    gspmd.PassManager(["gspmd-partition{num-partitions=8}"]).run(module)
    assert str(module).count("stablehlo.while") == 60


def test_too_deep_for_python_is_said_so() -> None:
    limit = sys.getrecursionlimit()
    module = parse_program(nested_loops(60), new_context())
    sys.setrecursionlimit(len(_stack()) + 150)
    try:
        with pytest.raises(gspmd.Unsupported, match="regions nest too deeply for 'gspmd-"):
            gspmd.PassManager(["gspmd-partition{num-partitions=8}"]).run(module)
    finally:
        sys.setrecursionlimit(limit)


def _stack() -> list[object]:
    found: list[object] = []
    frame = sys._getframe()
    while frame is not None:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


# ---- strings ------------------------------------------------------------------------------------------


def test_bytes_in_values_survive() -> None:
    call = r'stablehlo.custom_call @f(%a) {backend_config = "\FF\00\C3"} : (tensor<8xf32>) -> tensor<8xf32>'
    text = main('jax.result_info = "\\FE", mhlo.sharding = "{devices=[2]<=[2]}"', f"%0 = {call}")
    text = text.replace("return %a", "return %0").replace(") -> tensor<8xf32> {", ' loc("\\FD")) -> tensor<8xf32> {', 1)
    product = gspmd.partition(text, custom_rules={"f": "([i])->([i])"})
    assert r'backend_config = "\FF\00\C3"' in product.module_text
    assert product.signature.inputs[0].name == r"\xfd"


def test_a_message_that_quotes_bytes() -> None:
    # The name of an attribute could not be asked for; the verifier quotes the callee.
    context = new_context()
    with pytest.raises(gspmd.ParseError, match="is not UTF-8"):
        parse_module('func.func @main() { func.call @"\\FF"() : () -> () return }', context)
    with pytest.raises(gspmd.ParseError, match="in a message that is not UTF-8"):
        parse_written('func.func @main() { func.call @"\\FF"() : () -> () return }', context)


# ---- files --------------------------------------------------------------------------------------------


def test_file_names_are_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p{1}.mlir").write_text(main('mhlo.sharding = "{devices=[2]<=[2]}"'))
    for words in (["partition", "p{1}.mlir"], ["explain", "p{1}.mlir"], ["cost", "p{1}.mlir"]):
        assert cli.main(words) == 0
    assert cli.main(["partition", "q{1}.mlir"]) == 1
    assert "cannot read 'q{1}.mlir'" in capfd.readouterr().err


def _bytecode(text: str) -> bytes:
    buffer = io.BytesIO()
    parse_program(text, new_context()).operation.write_bytecode(buffer)
    return buffer.getvalue()


def test_bytecode_is_read_as_it_was_written() -> None:
    text = main(
        'mhlo.sharding = "{devices=[2]<=[2]}"',
        r'%c = "stablehlo.constant"() {value = dense<(1.0,2.0)> : tensor<complex<f32>>} : () -> tensor<complex<f32>>',
    )
    assert str(parse_program(_bytecode(text), new_context())) == str(parse_program(text, new_context()))


def test_damaged_bytecode_is_refused() -> None:
    whole = _bytecode(main('mhlo.sharding = "{devices=[2]<=[2]}"'))
    for place in (8, len(whole) // 2, len(whole) - 30):
        damaged = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        with contextlib.suppress(gspmd.ParseError):
            assert str(parse_program(damaged, new_context(), "damaged"))


def test_bytecode_of_names_that_are_no_utf8_is_refused() -> None:
    data = _bytecode(main(attributes="foo.abc = 1")).replace(b"foo.abc", b"foo.\xff\xff\xff")
    with pytest.raises(gspmd.ParseError, match=r'name "foo\.\\FF\\FF\\FF" is not UTF-8'):
        parse_program(data, new_context())


def test_what_takes_the_parser_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.01)
    with pytest.raises(gspmd.ParseError, match="'slow' is not read in 0 seconds"):
        parse_program(_bytecode(main()), new_context(), "slow")


def test_without_a_process_to_try_in_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(gspmd.InputError, match="cannot start '/no/such/python' to read 'f' in"):
        parse_program(_bytecode(main()), new_context(), "f")


def test_modules_are_found_where_they_were(tmp_path: Path) -> None:
    """Not in the current directory, which may be anybody's."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the wrong place')")
    (tmp_path / "program.mlirbc").write_bytes(_bytecode(main()))
    command = [sys.executable, "-P", "-m", "gspmd.tools.opt", "program.mlirbc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ})
    assert (done.returncode, done.stderr) == (0, "")


def test_gspmd_opt_reads_unregistered_operations_from_bytecode(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = new_context(allow_unregistered=True)
    buffer = io.BytesIO()
    parse_module('module { "a.b"() : () -> () }', context).operation.write_bytecode(buffer)
    path = tmp_path / "a.mlirbc"
    path.write_bytes(buffer.getvalue())
    assert opt.main([str(path), "--allow-unregistered-dialect"]) == 0
    assert '"a.b"()' in capfd.readouterr().out
    assert opt.main([str(path)]) == 1

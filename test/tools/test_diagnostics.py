"""How errors look: in full, in one line, as JSON; with colors on a terminal; every mistake once."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gspmd.dialect.errors import SourceLocation
from gspmd.tools import cli, opt
from gspmd.tools.source_lines import excerpt, printable

UNKNOWN_AXIS = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"q"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
TWO_TYPES = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %a : tensor<7xf32>
  return %0 : tensor<8xf32>
}
"""
UNKNOWN_CALL = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mine(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
WRONG_RESULT = """func.func @main(%a: tensor<8xf32>) -> tensor<9xf32> {
  %0 = stablehlo.slice %a [0:8] : (tensor<8xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GSPMD_DIAGNOSTICS")
    Path("axis.mlir").write_text(UNKNOWN_AXIS)
    Path("types.mlir").write_text(TWO_TYPES)
    Path("call.mlir").write_text(UNKNOWN_CALL)


def told(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    (cli.main if words[0] != "gspmd-opt" else opt.main)([*words[words[0] == "gspmd-opt" :]])
    return capfd.readouterr().err.splitlines()


@pytest.mark.parametrize("command", ["partition", "check", "run", "cost", "explain"])
def test_the_source_line_stands_below_the_error(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert told(capfd, command, "axis.mlir") == [
        "axis.mlir:2:1: error: 'func.func' op arg 0 - unknown axis name: \"q\" [G0401]",
        f" 2 | {UNKNOWN_AXIS.splitlines()[1]}",
        "   | ^",
    ]


def test_what_to_do_has_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    lines = told(capfd, "partition", "call.mlir")
    assert lines[0] == (
        "call.mlir:3:8: error: 'stablehlo.custom_call' op calls 'mine', which has no sharding rule [G0502]"
    )
    assert lines[2] == "   |        ^"
    assert lines[3].startswith("  hint: give it one with --custom-rule")
    assert len(lines) == 4


@pytest.mark.parametrize("command", [["partition"], ["gspmd-opt"], ["gspmd-opt", "--split-input-file"]])
def test_a_note_names_the_other_place(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    lines = told(capfd, *command, "types.mlir")
    assert [line for line in lines if ": note: " in line] == ["types.mlir:1:17: note: prior use here"]
    assert lines[-2:] == [f" 1 | {TWO_TYPES.splitlines()[0]}", "   |                 ^"]


def test_one_line_is_enough_where_it_is_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ["axis.mlir:2:1: error: 'func.func' op arg 0 - unknown axis name: \"q\""]
    assert told(capfd, "partition", "axis.mlir", "--diagnostics=short") == expected
    assert told(capfd, "partition", "axis.mlir", "--diagnostics", "short") == expected
    assert told(capfd, "gspmd-opt", "-diagnostics=short", "axis.mlir") == expected
    monkeypatch.setenv("GSPMD_DIAGNOSTICS", "short")
    assert told(capfd, "partition", "axis.mlir") == expected
    assert len(told(capfd, "partition", "axis.mlir", "--diagnostics=full")) == 3


@pytest.mark.parametrize("words", [["cost", "--diagnostics=json"], ["partition", "--json"], ["gspmd-opt", "--json"]])
def test_errors_as_json(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = told(capfd, *words, "types.mlir")
    assert json.loads(line) == {
        "severity": "error",
        "code": "G0300",
        "message": "use of value '%a' expects different type than prior uses: 'tensor<7xf32>' vs 'tensor<8xf32>'",
        "hint": None,
        "location": {"file": "types.mlir", "line": 2, "column": 22},
        "notes": [
            {"message": "prior use here", "location": {"file": "types.mlir", "line": 1, "column": 17}},
        ],
    }


def test_json_of_a_command_is_not_that_of_errors(capfd: pytest.CaptureFixture[str]) -> None:
    assert told(capfd, "cost", "--json", "axis.mlir")[0].startswith("axis.mlir:2:1: error: ")


@pytest.mark.parametrize("form", ["full", "short", "json"])
def test_a_very_long_message_loses_its_middle_in_every_form(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    """XLA's reader of HLO quotes an unknown attribute whole."""
    long = "branch_computations" * 3000
    Path("long.hlo").write_text(
        f"HloModule m\n\nENTRY e {{\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a), {long}=b\n}}\n"
    )
    lines = told(capfd, "cost", f"--diagnostics={form}", "long.hlo")
    assert "unexpected attribute" in lines[0]
    assert max(map(len, lines)) < 1000


def test_wrong_usage_is_told_in_the_form_that_was_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = told(capfd, "partition", "--json", "--nonsense", "axis.mlir")
    found = json.loads(line)
    assert (found["code"], found["hint"]) == ("G0101", "see gspmd partition --help")


@pytest.mark.parametrize(
    ("words", "variables", "colored"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--color=never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_colors_on_a_terminal(words: list[str], variables: dict[str, str], colored: bool) -> None:
    owner, terminal = pty.openpty()
    rest = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "GSPMD_DIAGNOSTICS")}
    command = [sys.executable, "-P", "-m", "gspmd.tools.cli", "partition", "none.mlir", "--verbose", *words]
    subprocess.run(command, stderr=terminal, env={**rest, "TERM": "xterm", **variables}, check=False)
    os.close(terminal)
    said = os.read(owner, 10_000).decode()
    os.close(owner)
    assert ("\x1b[1;31merror:\x1b[0m cannot read 'none.mlir'" in said) is colored
    assert ("\x1b" in said) is colored


def test_no_colors_in_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in "".join(told(capfd, "partition", "axis.mlir"))
    assert "\x1b[1;31m" in "".join(told(capfd, "partition", "axis.mlir", "--color=always"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sdy.mesh @mesh = <["x"=q]>\n', "expected integer value"),
        (WRONG_RESULT, "inferred type(s) 'tensor<8xf32>' are incompatible"),
    ],
)
@pytest.mark.parametrize("command", ["partition", "gspmd-opt"])
def test_one_mistake_is_one_error(command: str, text: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("once.mlir").write_text(text)
    errors = [line for line in told(capfd, command, "once.mlir") if ": error: " in line]
    assert len(errors) == 1
    assert message in errors[0]


def test_two_mistakes_are_two_errors(capfd: pytest.CaptureFixture[str]) -> None:
    wrong = "func.func @{}(%a: tensor<8xf32>) -> tensor<9xf32> {{\n  return %a : tensor<8xf32>\n}}\n"
    Path("twice.mlir").write_text(wrong.format("one") + "// -----\n" + wrong.format("two"))
    errors = [line for line in told(capfd, "gspmd-opt", "--split-input-file", "twice.mlir") if ": error: " in line]
    assert [line.partition(": ")[0] for line in errors] == ["twice.mlir:2:3", "twice.mlir:6:3"]


def test_quiet_leaves_remarks_out(capfd: pytest.CaptureFixture[str]) -> None:
    Path("one.mlir").write_text(
        'func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{maximal device=0}"},\n'
        '    %b: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) -> tensor<8xf32> {\n'
        "  return %b : tensor<8xf32>\n}\n"
    )
    assert "remark: " in told(capfd, "partition", "one.mlir", "-o", "out.mlir")[0]
    assert told(capfd, "partition", "one.mlir", "-o", "out.mlir", "-q") == []


def test_verbose_tells_the_time_of_every_pass(capfd: pytest.CaptureFixture[str]) -> None:
    Path("good.mlir").write_text(UNKNOWN_AXIS.replace('"q"', '"x"'))
    lines = told(capfd, "partition", "good.mlir", "-o", "out.mlir", "-v")
    assert lines[0].startswith("gspmd:   gspmd-ingest (1 of 8): ")
    assert lines[-1].startswith("gspmd: partitioning: ")
    assert len(lines) == 9
    assert told(capfd, "partition", "good.mlir", "-o", "out.mlir") == []


# ---- source lines ----


def test_stdin_has_lines_as_well() -> None:
    command = [sys.executable, "-P", "-m", "gspmd.tools.cli", "partition", "-", "-q"]
    finished = subprocess.run(command, input=UNKNOWN_AXIS, capture_output=True, text=True, check=False)
    assert finished.stderr.splitlines()[1] == f" 2 | {UNKNOWN_AXIS.splitlines()[1]}"


def shown(text: str, column: int, width: int = 80) -> tuple[str, str, str] | None:
    Path("line").write_text(text)
    return excerpt(SourceLocation("line", 1, column), width)


def test_the_caret_is_below_the_place() -> None:
    assert shown("abc def", 5) == ("1", "abc def", "    ^")
    assert shown("\tabc", 2) == ("1", "    abc", "    ^")
    assert shown("größe = 1", 11) == ("1", "größe = 1", "        ^")  # columns are bytes
    assert shown("日本 = 1", 8) == ("1", "日本 = 1", "     ^")  # two columns each on a terminal
    assert shown("abc", 0) == ("1", "abc", "")
    assert shown("abc", 9) == ("1", "abc", "   ^")


@pytest.mark.parametrize("column", [1, 30, 250, 499, 500])
def test_a_long_line_is_cut_around_the_place(column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(500))
    found = shown(line, column, 80)
    assert found is not None
    _, text, caret = found
    assert len(text) <= 80
    assert text[len(caret) - 1] == line[column - 1]


def test_a_line_cannot_command_the_terminal() -> None:
    assert shown("a\x1b[2Jb", 1) == ("1", "a\\x1b[2Jb", "^")
    assert printable("a\u202eb") == "a\\x202eb"


def test_nothing_is_shown_of_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo("fifo")
    for name in ("missing", "fifo", str(tmp_path), "/dev/zero", "bad\0name"):
        assert excerpt(SourceLocation(name, 1, 1), 80) is None
    assert shown("one line", 1) is not None
    assert excerpt(SourceLocation("line", 7, 1), 80) is None


def test_a_message_is_never_endless(capfd: pytest.CaptureFixture[str]) -> None:
    Path("long.mlir").write_text(f"func.func @main() {{\n  {'a' * 5000}.b\n}}\n")
    assert max(map(len, told(capfd, "partition", "long.mlir"))) < 700

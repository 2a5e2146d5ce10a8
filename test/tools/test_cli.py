"""The gspmd command finds its subcommands, and imports only the one that runs."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from gspmd.dialect.errors import UsageError
from gspmd.tools import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in cli._command_modules():
        assert f"\n  {name.replace('_', '-')} " in text


def test_every_command_is_complete() -> None:
    for name in cli._command_modules():
        command = cli._load(name.replace("_", "-"))
        assert name.replace("_", "-") == command.NAME
        assert command.SUMMARY
        assert callable(command.run)
        assert callable(command.add_arguments)


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: gspmd <command>" in capsys.readouterr().err


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["no-such-command"]) == 2
    assert capsys.readouterr().err == "gspmd: error: unknown command 'no-such-command'; see gspmd --help\n"


def test_modules_that_are_no_commands_cannot_be_run() -> None:
    for name in ("cli", "opt", "command", "opt-arguments", "diagnostics", "presentation", "__init__"):
        with pytest.raises(UsageError):
            cli._load(name)


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (None, 7, ""),
        (UsageError("is wrong", hint="do better"), 2, "gspmd: error: is wrong; do better\n"),
        (KeyError("x"), 70, "gspmd: internal error: KeyError: 'x'; run again with --debug for the traceback\n"),
        (KeyboardInterrupt(), 130, ""),
        (FileNotFoundError(2, "No such file", "x.npz"), 1, "gspmd: error: cannot access 'x.npz': no such file\n"),
    ],
)
def test_a_command_is_run_with_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException | None,
    status: int,
    text: str,
) -> None:
    seen = []

    def run(args: object) -> int:
        seen.append(args.path)  # type: ignore[attr-defined]
        if raised:
            raised.__traceback__ = None
            raise raised
        return 7

    command = types.SimpleNamespace(
        NAME="try", SUMMARY="tries", add_arguments=lambda parser: parser.add_argument("path"), run=run
    )
    monkeypatch.setattr(cli, "_load", lambda name: command)
    assert cli.main(["try", "a.mlir"]) == status
    assert seen == ["a.mlir"]
    assert capsys.readouterr().err == text
    assert cli.main(["try", "--no-such-option", "a.mlir"]) == 2


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["cost", "--help"], ["completion", "--help"]])
def test_help_fits_the_terminal_and_has_the_exit_codes(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        with contextlib.suppress(SystemExit):
            assert cli.main(words) == 0
        text = capsys.readouterr().out
        assert "\n    3  negative verdict: " in text
        if words != ["completion", "--help"] or width > 80:  # which has commands to copy
            assert max(map(len, text.splitlines())) <= width
    assert "--version" in text or len(words) > 1


def test_every_help_fits_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in cli.commands():
        with contextlib.suppress(SystemExit):
            cli.main([command.NAME, "--help"])
        text = capsys.readouterr().out
        assert text
        assert max(map(len, text.splitlines())) <= 80, command.NAME


# ---- completion ----


_ASK = """
eval "$('{python}' -P -m gspmd.tools.cli completion bash --for {program})"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
"$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')" {program} "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gspmd ex", {"explain", "explain-error"}),
        ("gspmd cost --bud", {"--budget"}),
        ("gspmd check --color ''", {"auto", "always", "never"}),
        ("gspmd partition pro", {"program.mlir"}),
        ("gspmd explain-error G02", {"G0201", "G0202", "G0203"}),
        ("gspmd-opt --gspmd-pro", {"--gspmd-propagate"}),
        ("gspmd-opt --split", {"--split-input-file"}),
        ("gspmd-opt pro", {"program.mlir"}),
    ],
)
def test_bash_completes(words: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "program.mlir").touch()
    script = _ASK.format(python=sys.executable, program=words.partition(" ")[0], words=words)
    finished = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert set(finished.stdout.split()) == expected, finished.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("program", ["gspmd", "gspmd-opt"])
def test_other_shells_have_a_script_with_everything(
    shell: str, program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["completion", shell, "--for", program]) == 0
    text = capsys.readouterr().out
    for word in ("explain-error", "diagnostics", "budget") if program == "gspmd" else ("gspmd-propagate", "cse"):
        assert word in text
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_the_exit_code_is_the_same_where_stderr_takes_nothing(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    with (tmp_path / "stderr").open("wb") as stderr:
        command = [sys.executable, "-m", "gspmd.tools.cli", "compile"]
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (10, 10))
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=stderr, check=False, preexec_fn=limit)
    assert done.returncode == subprocess.run(command, capture_output=True, check=False).returncode
    assert (tmp_path / "stderr").stat().st_size == 10

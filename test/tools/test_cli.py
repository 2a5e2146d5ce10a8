"""The gspmd command finds its subcommands, and imports only the one that runs."""

from __future__ import annotations

import types

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
    for name in ("cli", "opt", "command", "opt-arguments", "__init__"):
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

"""Every code of errors has a page, and the example there causes it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from generate_errors import PAGE, errors

import gspmd
from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages import FAMILIES, PAGES, PROGRAM
from gspmd.dialect.errors import Error
from gspmd.tools import cli, opt
from gspmd.tools.exit_codes import EXIT_FAILURE, EXIT_TIMEOUT, EXIT_USAGE


def test_every_code_has_a_page_in_its_place() -> None:
    assert list(PAGES) == list(Code)
    assert [page.code for _, pages in FAMILIES for page in pages] == sorted(Code)


def subclasses(of: type[Error]) -> list[type[Error]]:
    return [of, *(below for direct in of.__subclasses__() for below in subclasses(direct))]


def test_every_class_of_errors_has_a_code_of_its_own_kind() -> None:
    for each in subclasses(Error):
        assert each.usual_code in Code
        assert (each.usual_code is Code.INTERNAL) == (each.kind is gspmd.ErrorKind.INTERNAL), each


@pytest.mark.parametrize("code", Code)
def test_the_example_of_a_page_has_its_code(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    example = PAGES[code].example
    monkeypatch.chdir(tmp_path)
    if example.python:
        with pytest.raises(Error) as caught:
            exec(compile(example.python, "example.py", "exec"), {"__name__": "__main__"})
        assert caught.value.code is code
        return
    Path("program.mlir").write_text(PROGRAM)
    if example.text:
        Path(example.file).write_text(example.text)
    monkeypatch.setenv("GSPMD_DIAGNOSTICS", "json")
    program, *words = shlex.split(example.command)
    status = (cli.main if program == "gspmd" else opt.main)(words)
    told = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    errors = [each for each in told if each["severity"] == "error"]
    assert errors
    assert {each["code"] for each in errors} == {code}
    assert status == (EXIT_TIMEOUT if code == Code.TIMEOUT else EXIT_USAGE if code < "G02" else EXIT_FAILURE)


def test_pages_are_sentences() -> None:
    for page in PAGES.values():
        assert not page.title.endswith(".")
        for text in (page.meaning, page.remedy):
            assert text.endswith("."), page.code
            assert text[0].isupper() or text.startswith(("gspmd", "docs/")), page.code


def test_the_document_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == errors(), "run python docs/generate.py errors"


@pytest.mark.parametrize("code", ["G0401", "g0401", "[G0401]", "0401", "401"])
def test_a_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain-error", code]) == 0
    text = capsys.readouterr().out
    assert text.startswith("G0401: An unknown mesh axis\n\nA sharding, or")
    assert '[{"q"}]' in text
    assert "\n    $ gspmd partition program.mlir\n\nWhat to do:\n\nUse an axis of the mesh" in text


def test_all_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain-error"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {code}  " in text for code in Code)


def test_a_code_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain-error", "G0499"]) == 2
    assert capsys.readouterr().err.startswith("gspmd: error: there is no error 'G0499'; did you mean G04")

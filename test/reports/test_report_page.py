"""The page of a report holds all it needs, and of a program only text; commands write it as they write all files."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from support import report_programs

import gspmd
from gspmd.dialect.errors import InputError, UsageError
from gspmd.reports.page import SCRIPTS, STYLES, asset
from gspmd.tools import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(report_programs.PLAIN)
    return tmp_path


class _Elements(HTMLParser):
    """The scripts of a page, and everything that names a place somewhere else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.outside: list[str] = []
        self.is_in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.outside += [value for name in ("src", "href") if (value := given.get(name)) and value[0] != "#"]
        self.is_in_script = tag == "script"
        if self.is_in_script:
            self.scripts.append((given, ""))

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False


@pytest.mark.parametrize("program", [report_programs.PLAIN, report_programs.hostile()], ids=["plain", "hostile"])
def test_a_page_has_its_own_two_scripts_and_no_other(program: str) -> None:
    report = gspmd.report(program)
    text = report.html()
    elements = _Elements(text)
    (about, data), (_, code) = elements.scripts
    assert about == {"type": "application/json", "id": "data"}
    assert json.loads(data)["program"] == report.data["program"]
    assert elements.outside == ["data:,"]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;;" in text


def test_hostile_names_are_in_the_data_as_they_are() -> None:
    report = gspmd.report(report_programs.hostile())
    said = json.dumps(report.data)
    for name in report_programs.HOSTILE_NAMES[1:3]:
        assert json.dumps(name)[1:-1] in said
    assert report.data["program"] == report_programs.HOSTILE_NAMES[0]


def test_no_script_reads_html() -> None:
    for name in SCRIPTS:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", asset(name)
        ), name


def test_assets_are_all_used_and_the_library_is_the_one_that_is_named() -> None:
    folder = resources.files("gspmd.reports").joinpath("assets")
    about = folder.joinpath("README.md").read_text(encoding="utf-8")
    library = ("uPlot.iife.min.js", "uPlot.min.css")
    known = {*SCRIPTS, *STYLES, *library, "page.html", "README.md", "uPlot.LICENSE"}
    assert {each.name for each in folder.iterdir()} == known
    for name in library:
        digest = hashlib.sha256(folder.joinpath(name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()
        assert f"| SHA-256 of `{name}` | `{digest}` |" in about


def test_a_notebook_gets_the_page_in_a_frame() -> None:
    report = gspmd.report(report_programs.hostile())
    framed = report._repr_html_()
    elements = _Elements(framed)
    assert framed.startswith('<iframe sandbox="allow-scripts"')
    assert elements.scripts == []


def test_a_report_is_saved_whole(folder: Path) -> None:
    report = gspmd.report("p.mlir")
    report.save("page.html")
    assert Path("page.html").read_text(encoding="utf-8") == report.html()
    with pytest.raises(InputError, match=r"cannot write 'nowhere/page\.html'"):
        report.save("nowhere/page.html")
    assert repr(report).startswith("<Report of")


def test_a_partitioned_program_has_no_reasons(folder: Path) -> None:
    partitioned = gspmd.partition("p.mlir")
    with pytest.raises(UsageError, match="already partitioned; give the annotated one"):
        gspmd.report(partitioned.module)


def test_a_program_that_can_be_read_only_once_is(folder: Path) -> None:
    os.mkfifo("pipe")

    def feed() -> None:
        Path("pipe").write_text(report_programs.PLAIN)

    for words in (["report", "pipe", "-o", "page.html", "--strict=1GiB"], ["explain", "pipe", "--strict=1GiB"]):
        writer = threading.Thread(target=feed)
        writer.start()
        assert cli.main(words) == 0
        writer.join()
    writer = threading.Thread(target=feed)
    writer.start()
    assert gspmd.report("pipe").data["program"] == "plain"
    writer.join()


def test_only_what_a_compiler_made_of_the_program_says_when_what_runs(folder: Path) -> None:
    with pytest.raises(UsageError, match="compiled is 'soon'"):
        gspmd.report("p.mlir", compiled="soon")  # type: ignore[arg-type]
    compiled = gspmd.compile_for(report_programs.LOOP, "cpu")
    with pytest.raises(UsageError, match="compiled for the mesh"):
        gspmd.report("p.mlir", compiled=compiled)
    assert gspmd.report(report_programs.LOOP, compiled=compiled).timeline.source == "estimate"


def test_the_command_writes_page_data_and_trace(folder: Path) -> None:
    words = [
        "report",
        "p.mlir",
        "-o",
        "page.html",
        "--data",
        "data.json",
        "--trace",
        "trace.json",
        "--target",
        "tpu-v5p",
    ]
    assert cli.main(words) == 0
    data = json.loads(Path("data.json").read_text())
    assert data["target"] == "tpu-v5p"
    assert Path("page.html").read_text(encoding="utf-8") == gspmd.report("p.mlir", target="tpu-v5p").html()
    assert {path.name for path in folder.iterdir()} == {"p.mlir", "page.html", "data.json", "trace.json"}


def test_a_trace_is_what_perfetto_reads(folder: Path) -> None:
    assert cli.main(["cost", "p.mlir", "--trace", "trace.json", "--target", "tpu-v5p"]) == 0
    cost = gspmd.cost("p.mlir", target="tpu-v5p")
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(cost.timeline.events)
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    sent = [event for event in spans if threads[event["tid"]] != "compute"]
    assert [event["args"]["bytes"] for event in sent] == [c.collective.bytes for c in cost.collectives]
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(cost.timeline.total_s * 1e6)


@pytest.mark.usefixtures("folder")
def test_stdout_is_the_page_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["report", "p.mlir", "-o", "-"]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(b"<!DOCTYPE html>")
    assert out.endswith(b"</html>\n")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["p.mlir"], 2, "nothing to write; give -o report.html"),
        (["p.mlir", "-o", "x", "--data", "x"], 2, "is an output twice"),
        (["p.mlir", "-o", "no/x.html"], 1, "cannot write 'no/x.html'"),
        (["missing.mlir", "-o", "x.html"], 1, "cannot read 'missing.mlir'"),
        (["p.mlir", "-o", "x.html", "--target", "tpu-v99"], 2, "tpu-v99"),
        (["p.mlir", "-o", "x.html", "--compile"], 2, "--compile with target ''; name a topology"),
        (["p.mlir", "-o", "x.html", "--strict"], 1, ""),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    assert cli.main(["report", *words]) == status
    assert said in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["p.mlir"]

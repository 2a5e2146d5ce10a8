"""The page of a report in a browser: it draws itself without complaint, links lead where they say, names are text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import browser, report_programs

import gspmd
from gspmd.reports.page import page as page_of

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="there is no chromium")
SECTIONS = (
    *("overview", "mesh", "arguments", "results", "lines", "collectives", "conflicts", "timeline", "memory"),
    *("annotations", "values"),
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> gspmd.Report:
    path = tmp_path_factory.mktemp("plain") / "plain.mlir"
    path.write_text(report_programs.PLAIN)
    return gspmd.report(path, target="tpu-v5p")


def elements(shown: browser.Shown) -> int:
    """How many elements a page consists of, scripts and styles aside."""
    return len(re.findall(r"<[a-z]", re.sub(r"<(script|style)\b.*?</\1>", "", shown.dom, flags=re.DOTALL)))


def saved(report: gspmd.Report, folder: Path) -> Path:
    report.save(folder / "page.html")
    return folder / "page.html"


def test_the_page_shows_what_is_proved(tmp_path: Path) -> None:
    shown = browser.shown(saved(gspmd.report(report_programs.PLAIN, verify=True), tmp_path))
    assert shown.console == ()
    (section,) = re.findall(r'<section[^>]*id="proof".*?</section>', shown.dom, re.DOTALL)
    assert "PROVED: 1 results are the same for all inputs" in section
    assert "parts of it, proved" in shown.dom


@pytest.mark.parametrize("size", ["1280,900", "600,900"])
@pytest.mark.parametrize("name", ["PLAIN", "LOOP"])
def test_a_page_draws_all_its_sections_without_a_complaint(name: str, size: str, tmp_path: Path) -> None:
    shown = browser.shown(saved(gspmd.report(getattr(report_programs, name)), tmp_path), size=size)
    assert shown.console == ()
    assert shown.ready_ms > 0
    for section in SECTIONS:
        assert f'<section id="{section}"><h2>' in shown.dom
    assert shown.dom.count("<canvas") == 2


def test_names_that_are_code_are_text(tmp_path: Path) -> None:
    page = saved(gspmd.report(report_programs.hostile()), tmp_path)
    for place in ("", "#line=0", "#value=0", "#conflict=0", "#annotation=0", "#value=<img src=x>", "#%3Cscript%3E=1"):
        shown = browser.shown(page, place)
        assert shown.console == ()
        assert f"data-{report_programs.MARK}" not in shown.root
        assert shown.ready_ms > 0
    assert "&lt;/script&gt;&lt;script&gt;" in shown.dom


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("line", "plain.mlir:6"),
        ("value", "%a"),
        ("collective", "over x"),
        ("conflict", "dot_general %0"),
        ("annotation", "argument %a"),
    ],
)
def test_addresses_open_what_they_name(plain: gspmd.Report, tmp_path: Path, kind: str, said: str) -> None:
    conflicts = [conflict["value"] for conflict in plain.data["conflicts"]]
    numbers = {"line": plain.data["lines"]["line"].index(6), "conflict": conflicts.index("%0")}
    shown = browser.shown(saved(plain, tmp_path), f"#{kind}={numbers.get(kind, 0)}")
    panel = shown.dom.partition('<aside id="panel"')[2].partition("</aside>")[0]
    assert 'hidden=""' not in panel.partition(">")[0]
    assert said in panel.partition("<h2>")[2].partition("</h2>")[0]


def test_every_link_leads_to_something(plain: gspmd.Report, tmp_path: Path) -> None:
    """From the lines on, every link that is on the page, and all those behind them, open what they name."""
    script = """
    const seen = new Set();
    const open = ["#line=0"];
    const anchors = () => [...document.querySelectorAll('a[href^="#"]:not(.skip)')];
    const links = () => anchors().map((anchor) => anchor.getAttribute("href"));
    open.push(...links());
    const empty = [];
    while (open.length && seen.size < 300) {
      const place = open.pop();
      if (seen.has(place)) continue;
      seen.add(place);
      location.hash = place;
      await wait(5);
      const panel = document.getElementById("panel");
      const isThere = place.includes("=") ? !panel.hidden && panel.querySelector("h2") : document.querySelector(place);
      if (!isThere) empty.push(place);
      open.push(...links());
    }
    return { seen: seen.size, empty };
    """
    found = browser.driven(plain.html(), script, tmp_path)
    assert found["empty"] == []
    assert found["seen"] > 25


def test_from_a_line_to_an_annotation(plain: gspmd.Report, tmp_path: Path) -> None:
    line = plain.data["lines"]["line"].index(6)
    script = f"""
    location.hash = "line={line}";
    await wait(20);
    const panel = document.getElementById("panel");
    const titles = [...panel.querySelectorAll("h3")].map((title) => title.textContent);
    const value = [...panel.querySelectorAll('a[href^="#value="]')].find((link) => link.textContent === "%0");
    value.click();
    await wait(20);
    const origin = panel.querySelector('.origin a[href^="#annotation="]');
    const said = origin.textContent;
    origin.click();
    await wait(20);
    return {{ titles, said, there: panel.querySelector("h2").textContent }};
    """
    found = browser.driven(plain.html(), script, tmp_path)
    assert {"Conflicts", "Collectives", "Annotations behind its shardings"} <= {*found["titles"]}
    assert found["said"] == found["there"]


def test_search_keys_and_theme(plain: gspmd.Report, tmp_path: Path) -> None:
    script = """
    const pressed = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    const press = (key, on) => (on || document.body).dispatchEvent(pressed(key));
    const title = () => document.querySelector("#panel h2").textContent;
    press("/");
    const field = document.getElementById("search");
    const isFocused = document.activeElement === field;
    field.value = "tanh";
    field.dispatchEvent(new Event("input"));
    const hits = [...document.querySelectorAll("#hits li")].map((hit) => hit.textContent);
    press("Enter", field);
    await wait(30);
    const opened = title();
    press("Escape");
    const isClosed = document.getElementById("panel").hidden;
    press("t");
    const theme = document.documentElement.getAttribute("data-theme");
    const grid = document.querySelector("#values [role=grid]");
    grid.focus();
    press("ArrowDown", grid);
    press("Enter", grid);
    await wait(30);
    return { isFocused, hits: hits.length, opened, isClosed, theme, value: title() };
    """
    found = browser.driven(plain.html(), script, tmp_path)
    assert found["isFocused"]
    assert found["isClosed"]
    assert found["hits"] >= 1
    assert found["opened"].startswith("plain.mlir:8")
    assert found["theme"] == "light"
    assert found["value"] == "%w"


def test_on_paper_tables_have_their_first_rows(plain: gspmd.Report, tmp_path: Path) -> None:
    script = """
    dispatchEvent(new Event("beforeprint"));
    const rows = document.querySelectorAll("#values .printed .rows .row").length;
    dispatchEvent(new Event("afterprint"));
    return { rows, after: document.querySelectorAll(".printed").length };
    """
    found = browser.driven(plain.html(), script, tmp_path)
    assert found == {"rows": len(plain.data["values"]["name"]), "after": 0}


def test_a_page_of_30000_values_has_few_elements(plain: gspmd.Report, tmp_path: Path) -> None:
    """The tables of a small program, repeated until they are those of a large one: what is not seen is not made.

    How long such a page takes to open is in benchmarks/README.md.
    """
    data = plain.data
    times = 30_000 // len(data["values"]["name"]) + 1
    large = {
        **data,
        "values": {name: column * times for name, column in data["values"].items()},
        "collectives": {name: column * 2000 for name, column in data["collectives"].items()},
        "moments": {name: column * 2000 for name, column in data["moments"].items()},
        "conflicts": data["conflicts"] * 2000,
        "timeline": {
            **data["timeline"],
            "events": {name: column * 5000 for name, column in data["timeline"]["events"].items()},
        },
    }
    page = tmp_path / "large.html"
    page.write_text(page_of(large), encoding="utf-8")
    shown = browser.shown(page)
    assert shown.console == ()
    assert shown.ready_ms > 0
    assert shown.dom.count('role="row"') < 1000
    assert elements(shown) < 3 * elements(browser.shown(saved(plain, tmp_path)))


def test_names_of_the_program_are_in_the_title(tmp_path: Path) -> None:
    report = gspmd.report(report_programs.hostile())
    shown = browser.shown(saved(report, tmp_path))
    assert "<title>&lt;/script&gt;" in shown.dom

"""The documentation builds as a site without a warning, with all its links, pages, pictures, reports and names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest
from generate_api import GROUPS
from site_reports import PICTURES

ROOT = Path(__file__).parent.parent
REPORTS = {"demo", "experts", "pipeline", "trillion"}


class _Page(HTMLParser):
    """The places that a page has, those that it leads to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "link", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "WARNING" not in printed
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in site.rglob("*.html") if path.parent.name != "reports"}


def test_every_link_leads_to_a_place_that_exists(site: Path, pages: dict[Path, _Page]) -> None:
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = urllib.parse.unquote(parts.fragment)
            has_place = not place or target not in pages or place in pages[target].places
            if not target.exists() or not has_place:
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert not wrong


def test_a_page_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    outside = [
        f"{path.relative_to(site)}: {place}" for path, page in pages.items() for place in page.loaded if ":" in place
    ]
    assert [place for place in outside if ": data:" not in place] == []


def test_every_page_is_in_the_menu_and_can_be_searched_for(site: Path, pages: dict[Path, _Page]) -> None:
    menu = {(site / urllib.parse.urlsplit(link).path).resolve() for link in pages[site / "index.html"].links}
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    searched = {entry["location"].partition("#")[0] for entry in found["docs"]}
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "README.md":
            name = page.relative_to(ROOT / "docs").with_suffix(".html")
            assert (site / name).resolve() in menu
            assert name.as_posix() in searched


def test_every_public_name_has_its_docstring(site: Path, pages: dict[Path, _Page]) -> None:
    names = {name for group in GROUPS.values() for name in group}
    assert {f"gspmd.{name}" for name in names} <= pages[site / "api.html"].places


def test_pictures_lead_to_reports(site: Path, pages: dict[Path, _Page]) -> None:
    linked = {link for name in ("report.html", "gallery.html") for link in pages[site / name].links}
    assert {f"reports/{name}.html" for name in REPORTS | {*PICTURES.values()}} <= linked
    for name in PICTURES.values():
        assert "<!DOCTYPE html>" in (site / "reports" / f"{name}.html").read_text(encoding="utf-8")


def test_pictures_are_there_for_light_and_dark_pages(site: Path) -> None:
    for page in ("report.html", "gallery.html", "index.html"):
        text = (site / page).read_text(encoding="utf-8")
        light, dark = (re.findall(rf'src="(pictures/\w+\.png)#only-{scheme}"', text) for scheme in ("light", "dark"))
        assert light
        assert [place.replace(".png", "_dark.png") for place in light] == dark


def test_pictures_are_small() -> None:
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size < 80_000, path.name

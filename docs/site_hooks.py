"""What `mkdocs build` does besides: the menu, links into the repository, reports, pictures and the API reference.

The pages are written to be read in the repository, too. So the menu is what docs/README.md links, section by section;
links to files outside of docs/ lead to copies of these; and a picture that links to itself leads to the report that it
was taken of.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import site_reports
from generate_api import documented
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from site_links import DOCS, HOME, ROOT, copies, in_site, rewritten

_SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n)*)", re.MULTILINE)
_PAGE = re.compile(r"\]\((?!\w+:)([^)#\s]+\.md)\)")
_PICTURE = re.compile(r"!\[([^]]*)\]\((\S*pictures/(\w+)\.png)\)")
_SELF_LINK = re.compile(r"(\[!\[[^]]*\]\(\S+?\)\])\((\S*)pictures/(\w+)\.png\)")
_API_ROW = re.compile(r"^\| \[`(\w+)`\]\(\S+\) \|", re.MULTILINE)


@event_priority(100)  # before mkdocstrings looks for the sources
def on_config(config: Any) -> Any:
    """The menu, and where the sources are that the API reference is made from."""
    config.nav = menu((DOCS / "README.md").read_text(encoding="utf-8"))
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(ROOT / "python")]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what the pages link to: files of the repository, and reports."""
    copies.cache_clear()
    for path, text in copies().items():
        level = InclusionLevel.INCLUDED if path.suffix == ".md" else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, in_site(path), content=text, inclusion=level))
    for name, path in site_reports.written().items():
        files.append(File.generated(config, f"reports/{name}.html", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    place = page.file.src_uri
    reports = set(site_reports.PICTURES)
    if place == HOME:
        page.meta["hide"] = ["navigation"]  # this page lists all of it
    if place.startswith("measured/"):
        page.meta["hide"] = ["toc"]  # their tables are wide

    def with_report(match: re.Match[str]) -> str:
        if match[3] not in reports:
            return match[0]
        link = f"({match[2]}reports/{site_reports.PICTURES[match[3]]}.html)"
        return f"{match[1]}{link}\n\n[Open this report]{link}"

    def in_both_schemes(match: re.Match[str]) -> str:
        dark = f"{match[3]}_dark"
        if files.get_file_from_path(f"pictures/{dark}.png") is None:
            return match[0]
        path = match[2].removesuffix(f"{match[3]}.png")
        return f"![{match[1]}]({match[2]}#only-light)![{match[1]}]({path}{dark}.png#only-dark)"

    if place == "api.md":
        return reference(markdown)
    return _PICTURE.sub(in_both_schemes, _SELF_LINK.sub(with_report, rewritten(markdown, place)))


def menu(index: str) -> list[Any]:
    """The sections of the index, each with the pages that it links, in its order."""
    sections = [{title: [in_site(place) for place in _linked(text)]} for title, text in _SECTION.findall(index)]
    return [HOME, *(each for each in sections if any(each.values()))]


def _linked(text: str) -> list[Path]:
    found = [(DOCS / target).resolve().relative_to(ROOT) for target in _PAGE.findall(text)]
    return list(dict.fromkeys(found))


def reference(markdown: str) -> str:
    """The page of the API with what the docstrings say below the table of each group."""
    blocks = re.split(r"(?=^## )", markdown, flags=re.MULTILINE)
    known = documented()
    return "".join(
        _API_ROW.sub(r"| [`\1`](#gspmd.\1) |", block)
        + "".join(f"\n::: gspmd.{name}\n" for name in _API_ROW.findall(block) if name in known)
        for block in blocks
    )

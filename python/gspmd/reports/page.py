"""The page of a report: one file with the data as JSON, the style, and the scripts that draw it.

Text from a program is never written as HTML. It stands in the JSON, where every `<` is escaped, and the scripts insert
it as text nodes. A content security policy keeps the page from running other scripts and from using the network.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
import re
from collections.abc import Mapping
from typing import Any

CHARTS = "uPlot.iife.min.js"
SCRIPTS = ("data.js", "elements.js", "tables.js", "pictures.js", "charts.js", "details.js", "sections.js", "main.js")
STYLES = ("uPlot.min.css", "page.css")
_PLACE = re.compile(r"\{\{(\w+)\}\}")  # the placeholder of a part of the page
_FRAME_HEIGHT = 720  # pixels
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_OFTEN = 2  # average repetitions above which a column stores each text once


def page(data: Mapping[str, Any]) -> str:
    """The page of a report's data."""
    own = "\n".join(asset(name) for name in SCRIPTS)
    script = f'{asset(CHARTS)}\n(() => {{\n"use strict";\n{own}\n}})();'
    parts = {
        "title": html.escape(f"{data['program'] or 'program'} on {data['target']}"),
        "policy": html.escape(_policy(script)),
        "style": "\n".join(asset(name) for name in STYLES),
        "script": script,
        "data": _embedded(data),
    }
    return _PLACE.sub(lambda found: parts[found[1]], asset("page.html"))


def framed(text: str) -> str:
    """The page in a sandboxed frame."""
    style = f"width: 100%; height: {_FRAME_HEIGHT}px; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(text)}"></iframe>'


def asset(name: str) -> str:
    """The text of an asset."""
    return importlib.resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """The policy that allows only this script, identified by the hash of its text."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    return f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"


def _embedded(data: Mapping[str, Any]) -> str:
    """The data as JSON, with all characters escaped that have a meaning in HTML."""
    compact = {name: _compact(value) if _is_table(value) else value for name, value in data.items()}
    text = json.dumps(compact, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode(errors="backslashreplace").decode()


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(column, list) for column in value.values())


def _compact(table: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The table, with repeated texts of a column stored once."""
    found: dict[str, Any] = {}
    for name, column in table.items():
        numbers: dict[str, int] = {}
        if column and all(isinstance(value, str) for value in column):
            for value in column:
                numbers.setdefault(value, len(numbers))
        is_often = 0 < len(numbers) * _OFTEN <= len(column)
        found[name] = {"words": [*numbers], "at": [numbers[value] for value in column]} if is_often else column
    return found

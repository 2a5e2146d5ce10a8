"""Links from pages of the documentation to files of the repository, and the pages that these become in the site."""

from __future__ import annotations

import ast
import functools
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
HOME = "README.md"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[)#])")
_NAMED = re.compile(r"(?<!!)\[[\w./]+\.md\]\(([^)#\s]+\.md)(?=\))")  # a link that is called as the file is
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".mlir": "mlir", ".toml": "toml", ".json": "json"}
_HIDDEN = "---\nsearch:\n  exclude: true\nhide:\n  - navigation\n---\n\n"


def in_site(path: Path) -> str:
    """The page that a file or folder of the repository is in the site, which has those of docs/ as they are."""
    if _is_page(path):
        return Path(*path.parts[1:]).as_posix()
    if path == Path("README.md"):
        return HOME
    if path.name == "README.md":
        return f"{path.parent.as_posix()}.md"
    if path.suffix == ".md":
        return path.as_posix()
    return f"source/{path.as_posix()}{'/index' if (ROOT / path).is_dir() else ''}.md"


def rewritten(markdown: str, place: str) -> str:
    """A page's text with its links as they are in the site, where the page is at `place`."""
    source = _origin(place)

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[1]))
        return posixpath.relpath(in_site(target), posixpath.dirname(place) or ".")

    def titled(match: re.Match[str]) -> str:
        target = ROOT / os.path.normpath(source.parent / match[1])
        return f"[{_title(target)}]({match[1]}"

    return "".join(text if code else _LINK.sub(moved, _NAMED.sub(titled, text)) for text, code in _parts(markdown))


def _title(page: Path) -> str:
    """The title of a page."""
    return next(line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


@functools.cache
def copies() -> dict[Path, str]:
    """The files and folders outside of docs/ that pages link to, with what they are in the site.

    They are read once for each build, which begins with `copies.cache_clear()`.
    """
    found: dict[Path, str] = {}
    waiting = [path.relative_to(ROOT) for path in DOCS.rglob("*.md")]
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            if in_site(target) == HOME or _is_page(target) or target in found:
                continue
            found[target] = _copy(target)
            if target.suffix == ".md":
                waiting.append(target)
    return found


def _is_page(path: Path) -> bool:
    return path.parts[:1] == ("docs",) and path.suffix in (".md", ".png")


def _origin(place: str) -> Path:
    """The file of the repository that a page of the site was made from."""
    if (DOCS / place).exists():
        return Path("docs", place)
    return next(path for path in copies() if in_site(path) == place)


def _targets(page: Path) -> Iterator[Path]:
    for text, code in _parts((ROOT / page).read_text(encoding="utf-8")):
        if not code:
            yield from (Path(os.path.normpath(page.parent / target)) for target in _LINK.findall(text))


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is a block of code."""
    at = 0
    for block in _FENCE.finditer(markdown):
        yield markdown[at : block.start()], False
        yield block[0], True
        at = block.end()
    yield markdown[at:], False


def _copy(path: Path) -> str:
    place = ROOT / path
    if path.suffix == ".md":
        return place.read_text(encoding="utf-8")
    if place.is_dir():
        return f"{_HIDDEN}# {path.as_posix()}\n\n" + "\n".join(_listed(place)) + "\n"
    text = place.read_text(encoding="utf-8").rstrip()
    return f"{_HIDDEN}# {path.as_posix()}\n\n````{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def _listed(folder: Path) -> Iterator[str]:
    """A table of what a folder has, with the first line of each module's docstring."""
    yield "| file | what it is |"
    yield "|---|---|"
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("__", ".")):
            continue
        yield f"| `{path.name}{'/' * path.is_dir()}` | {_summary(path).replace('|', chr(92) + '|')} |"


def _summary(path: Path) -> str:
    module = path / "__init__.py" if path.is_dir() else path
    if module.suffix != ".py" or not module.exists():
        return ""
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]

"""The reports that the site shows: written by `benchmarks/example_reports.py`, once for each state of the sources."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_SCRIPT = _ROOT / "benchmarks" / "example_reports.py"
_KEPT = _ROOT / "build" / "reports"
_SOURCES = ("benchmarks", "dialect", "examples", "python", "transforms")
PICTURES = {
    "report_overview": "demo",
    "report_mesh": "demo",
    "report_conflict": "demo",
    "report_timeline": "demo",
    "report_demo": "demo",
    "report_experts": "experts",
    "report_hybrid": "hybrid",
    "report_pipeline": "pipeline",
    "report_spatial": "spatial",
    "report_trillion": "trillion",
    "report_dense": "trillion",
}
"""The report that each picture was taken of."""


def written() -> dict[str, Path]:
    """The file of every report that there is a picture of, by name."""
    names = sorted({*PICTURES.values()})
    folder = _KEPT / _digest()
    missing = [name for name in names if not (folder / f"{name}.html").exists()]
    if missing:
        done = subprocess.run([sys.executable, str(_SCRIPT), str(folder), *missing], check=False)
        if done.returncode:
            raise RuntimeError(f"{_SCRIPT.name} failed with {done.returncode}")
    return {name: folder / f"{name}.html" for name in names}


def _digest() -> str:
    found = hashlib.sha256()
    for path in _files():
        found.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for folder in _SOURCES:
        yield from sorted(
            path for path in (_ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".css", ".html")
        )

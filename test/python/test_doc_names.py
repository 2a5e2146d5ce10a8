"""Names in pages that look like code exist: passes, files, and identifiers of Python with a dot or an underscore."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from gspmd.tools.pass_table import PASSES, PIPELINE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_SOURCES = ("dialect", "transforms", "python", "tools", "examples", "benchmarks", "test", "docs", "pyproject.toml")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_OF_OTHERS = frozenset(
    [
        "DTensor.from_local",
        "_StridedShard",
        "distribute_tensor",
        "full_tensor",
        "fully_shard",
        "to_local",
        "init_device_mesh",
        "parallelize_module",
        "mark_pipeline_boundary",
        "num_micro_batches",
        "coordinator_address",
        "local_device_ids",
        "v.read_value",
        "visualize_array_sharding",
        "get_concrete_function",
        "auto_spmd_partitioning_mesh_shape",
        "pandas.DataFrame",
    ]
)
"""Names of other packages that no source of ours mentions."""
_PACKAGES = ("jax", "jnp", "np", "nn", "torch", "alpa", "sdy", "xla", "mhlo", "stablehlo", "chlo")


def spans(page: Path) -> set[str]:
    """The inline code of a page, without blocks of code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = (line for line in text.splitlines() if not line.startswith("    "))
    return {span for line in lines for span in _SPAN.findall(line)}


@functools.cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """All words in the sources, and all tracked or new files."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_SOURCES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    words: set[str] = set()
    for name in found:
        path = ROOT / name
        if path.suffix in (".py", ".toml", ".mlir") and path.is_file() and path != Path(__file__):
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
    return frozenset(words), frozenset(found)


def missing(span: str) -> str | None:
    """What the span names that does not exist."""
    words, files = known()
    if not words:
        pytest.skip("not a git repository")
    if re.fullmatch(r"gspmd-[a-z-]+", span):
        names = {PIPELINE, "gspmd-opt", *(name for name, *_ in PASSES)}
        return None if span in names else span
    if re.fullmatch(r"[\w/]+\.(?:py|mlir|toml|md)", span) and ("/" in span or (ROOT / span).is_file()):
        return None if (ROOT / span).is_file() or any(name.endswith(span) for name in files) else span
    name = span.split("(", maxsplit=1)[0]
    parts = name.split(".")
    if (
        not _NAME.fullmatch(name)
        or name in _OF_OTHERS
        or re.split("[._]", name)[0] in _PACKAGES
        or not ("." in name or "_" in name)
    ):
        return None
    return next((part for part in parts if part not in words), None)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_names_in_pages_exist(page: Path) -> None:
    assert {span: gone for span in sorted(spans(page)) if (gone := missing(span)) is not None} == {}

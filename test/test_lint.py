"""The source keeps to its own rules: style, types, and imports that run one way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import lint
import pytest
from grimp import ImportGraph


@pytest.mark.parametrize("check", lint.CHECKS)
def test_source_passes(check: str) -> None:
    code, printed = lint.run(check)
    assert code == 0, printed


@pytest.fixture(scope="module")
def graph() -> Iterator[ImportGraph]:
    """Which module of the package imports which."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(lint.ROOT / "python")
        patch.delitem(sys.modules, "gspmd", raising=False)  # grimp takes what is imported from where it is
        yield grimp.build_graph("gspmd", cache_dir=None)


def test_every_file_is_looked_at(graph: ImportGraph) -> None:
    files = [path.relative_to(lint.ROOT / "python") for path in (lint.ROOT / "python").rglob("*.py")]
    for folder in lint.FOLDERS:
        files += [Path("gspmd") / path.relative_to(lint.ROOT) for path in (lint.ROOT / folder).rglob("*.py")]
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    assert len(names) > 200
    assert names == graph.modules


def test_what_users_import_stands_on_the_compiler_and_not_the_other_way_round(graph: ImportGraph) -> None:
    """The modules of python/gspmd lie between the tools and the transforms; a contract would have to list them all."""
    below = ("gspmd.dialect", "gspmd.transforms")
    upward = [
        f"{importer} imports {imported}"
        for importer in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if (importer.startswith(below) and not imported.startswith(below))
        or (imported.startswith("gspmd.tools") and not importer.startswith("gspmd.tools"))
    ]
    assert upward == []


def test_no_modules_import_each_other(graph: ImportGraph) -> None:
    """Imports for types alone count, and those within functions, too: then files can be read one after the other."""
    left = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    while ground := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in ground}
    circles = {module: sorted(imported & left.keys()) for module, imported in left.items()}
    assert circles == {}


def test_a_developer_runs_the_checks_by_name() -> None:
    def run(*names: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(lint.ROOT / "test/lint.py"), *names]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("imports")
    assert (done.returncode, done.stdout) == (0, "imports: passed\n"), done.stdout
    done = run("grammar")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lint: error: no check 'grammar'; there are style, format, types, imports\n"

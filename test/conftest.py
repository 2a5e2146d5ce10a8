"""Makes every lit test an item of pytest, gives jax eight CPU devices, and keeps what takes long for `--slow`."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.simple_code import SIMPLE_CODE

# Before anything imports jax, which reads them once.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.pop("COLUMNS", None)  # processes of xdist have it, and tables would be cut to it
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {SIMPLE_CODE}"
os.environ["GSPMD_DIAGNOSTICS"] = "short"  # what most tests look at; test/tools/test_diagnostics.py has the other forms

# Processes of tests live long and hold many objects: garbage collection as usual takes 8 % of their time.
gc.set_threshold(50_000, 20, 20)

_TEST_ROOT = Path(__file__).parent
_SLOW = frozenset(
    (
        *(
            "benchmarks",
            "bisect",
            "comparisons",
            "ecosystem",
            "examples",
            "explain",
            "frameworks",
            "machines",
            "models",
        ),
        *("ops", "optimize", "pipeline", "proof", "python", "reshard", "runtime", "search"),
        *("test_package.py", "test_site.py"),
        *(
            "cost/test_least.py",
            "cost/test_least_ranks.py",
            "decide/test_prices.py",
            "hostile/test_hostile.py",
            "errors/test_bad_calls.py",
            "errors/test_large_numbers.py",
            "ingest/test_families.py",
            "localize/test_uneven_tiles.py",
            "paths/test_budget.py",
            "paths/test_planner.py",
            "paths/test_routes.py",
            "reports/test_report_browser.py",
            "reports/test_report_data.py",
            "reports/test_report_page.py",
            "reroll/test_layers.py",
            "suggest/test_suggest.py",
            "tools/test_demo.py",
            "tools/test_line_endings.py",
            "tools/test_supervision.py",
            "verify/test_meaning.py",
            "verify/test_planted_faults.py",
            "verify/test_verified_programs.py",
        ),
    )
)
"""Folders and files whose tests run whole programs, or all operations in all ways, and take most of the time."""
_QUICK = frozenset(
    (
        *("comparisons/test_hlo_work.py", "comparisons/test_versions.py", "ops/test_op_table.py"),
        *("python/test_output.py", "runtime/test_signature.py"),
    )
)
"""What of these does not."""
_results: pytest.StashKey[dict[Path, tuple[str, str]]] = pytest.StashKey()


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Give the processes that later tests start what those before did: tools run here ask for devices there."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _explanations_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What explains goes on where a part fails; tests are to see that it failed."""
    from gspmd.explanations.unexplained import Unexplained

    if request.path.name != "test_unexplained.py":
        monkeypatch.setattr(Unexplained, "attempt", lambda self, what, explain, otherwise: explain())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run what a plain pytest leaves out, as it takes long")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without files or folders on the command line, leave out what is slow, or with `--slow` what is quick."""
    slow = bool(config.getoption("slow"))
    if collection_path.suffix not in (".py", ".mlir"):
        return None
    if config.args_source is pytest.Config.ArgsSource.ARGS and not slow:
        return None
    return True if _is_slow(collection_path) != slow else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Build the site first: it takes one process minutes, while others can run the rest."""
    items.sort(key=lambda item: item.path.name != "test_site.py")


def _is_slow(path: Path) -> bool:
    """lit tests are quick, wherever they are."""
    path = path.relative_to(_TEST_ROOT)
    places = {path.as_posix(), *(parent.as_posix() for parent in path.parents)}
    return path.suffix == ".py" and not places & _QUICK and bool(places & _SLOW)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".mlir" and "Inputs" not in file_path.parts:
        return LitFile.from_parent(parent, path=file_path)
    return None


class LitFile(pytest.File):
    """A file with RUN lines."""

    def collect(self) -> Iterator[LitTest]:
        yield LitTest.from_parent(self, name="lit")


class LitTest(pytest.Item):
    """One lit test; the first one to run starts lit once for all that were selected."""

    def runtest(self) -> None:
        results = self.session.stash.get(_results, None)
        if results is None or self.path not in results:
            shared = not hasattr(self.config, "workerinput")  # a worker of xdist does not know its own items
            items = self.session.items if shared else [self]
            paths = [item.path for item in items if isinstance(item, LitTest)]
            results = self.session.stash[_results] = _run_lit(paths)
        code, output = results.get(self.path, ("not found by lit", ""))
        if code in ("UNSUPPORTED", "SKIPPED"):
            pytest.skip(code.lower())
        if code not in ("PASS", "XFAIL", "FLAKYPASS"):
            raise LitFailure(f"{code}\n{output}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, LitFailure):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"lit {self.path.relative_to(_TEST_ROOT)}"


class LitFailure(Exception):
    """A lit test that failed, with what it printed."""


def _run_lit(paths: list[Path]) -> dict[Path, tuple[str, str]]:
    """The result code and the output of each lit test. Processes of pytest-xdist share no folder that lit writes to."""
    start = "from lit.main import main; main()"  # the package has no __main__
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        options = ["--quiet", "--output", str(report), "--param", f"exec_root={directory}"]
        finished = subprocess.run(
            [sys.executable, "-c", start, *options, *map(str, paths)], capture_output=True, text=True, check=False
        )
        if not report.exists():
            raise LitFailure(f"lit did not run:\n{finished.stdout}{finished.stderr}")
        tests = json.loads(report.read_text())["tests"]
    return {_TEST_ROOT / test["name"].partition(" :: ")[2]: (test["code"], test["output"]) for test in tests}

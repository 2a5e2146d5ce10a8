"""A wheel has everything: installed alone, it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the source tree, built without touching it."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    ignored = {".git", "build", "dist", ".venv", "__pycache__", "test"}

    def copy(folder: Path, to: Path) -> None:
        to.mkdir()
        for entry in folder.iterdir():
            if entry.is_symlink():
                (to / entry.name).symlink_to(os.readlink(entry))
            elif entry.is_dir() and entry.name not in ignored and not entry.name.endswith((".egg-info", "_cache")):
                copy(entry, to / entry.name)
            elif entry.is_file():
                (to / entry.name).write_bytes(entry.read_bytes())

    copy(ROOT, source)
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(directory), str(source)]
    subprocess.run([sys.executable, *command], check=True)
    (built,) = directory.glob("gspmd-*.whl")
    return built


def test_wheel_has_every_module(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("dialect", "examples", "tools", "transforms"):
        modules = [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py")]
        assert modules
        assert {f"gspmd/{path}" for path in modules} <= names
    assert {f"gspmd/{path.name}" for path in (ROOT / "python/gspmd").glob("*.py")} <= names
    assert "gspmd/py.typed" in names
    assert not [name for name in names if name.startswith(("dialect/", "tools/", "test/"))]


def test_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    # A path to the source tree would hide the wheel, from pip as well.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *command], env=environment, check=True)
    # What gspmd depends on comes from here; a path alone does not run the .pth files of an editable install.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(*args: str, stdin: str = "") -> str:
        finished = subprocess.run(
            args, cwd=tmp_path, env=environment, input=stdin, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    where = run(str(python), "-P", "-c", "import gspmd.dialect.mesh as m; print(m.__file__)")
    assert where.startswith(str(site))
    assert "--gspmd-propagate" in run(str(tmp_path / "venv/bin/gspmd-opt"), "--help")
    text = run(str(tmp_path / "venv/bin/gspmd-opt"), "--cse", stdin="func.func @main() {\n  return\n}\n")
    assert "func.func @main" in text
    assert "usage: gspmd" in run(str(tmp_path / "venv/bin/gspmd"), "--help")

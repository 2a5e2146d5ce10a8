"""gspmd installs from whatever holds its source, whole, and runs; a source tree runs as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import lint
import pytest

ROOT = lint.ROOT
LEFT_OUT = (".git", ".venv", "build", "dist", "__pycache__", ".hypothesis", "*.egg-info", "*_cache")
# What gspmd depends on comes from here; a path alone does not run the .pth files of an editable install.
DEPENDENCIES = sysconfig.get_path("purelib")
PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<64x128xf32> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
"""
FIND = """
import importlib.util, json, sys
print(json.dumps({name: importlib.util.find_spec(name).origin for name in json.load(sys.stdin)}))
"""


def _copy(to: Path) -> Path:
    return shutil.copytree(ROOT, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))


def _files(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*") if path.is_file())


def _links(tree: Path) -> list[Path]:
    return [path for path in tree.rglob("*") if path.is_symlink()]


def _modules() -> dict[str, Path]:
    """The modules of the source by the names that they are imported by."""
    found = {path.relative_to(ROOT / "python"): path for path in (ROOT / "python/gspmd").rglob("*.py")}
    for folder in lint.FOLDERS:
        found |= {"gspmd" / path.relative_to(ROOT): path for path in (ROOT / folder).rglob("*.py")}
    return {".".join(at.with_suffix("").parts).removesuffix(".__init__"): path for at, path in found.items()}


def _environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Without a path to the source tree, which would hide what is installed, from pip as well."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(extra or {})


def _run(*command: str | Path, cwd: Path, stdin: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=_environment(environment),
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with gspmd, and the folder that its modules lie in."""

    python: Path
    modules: Path
    directory: Path  # where commands run: it has an empty folder `gspmd`, as where a clone lies
    scripts: Path | None = None
    variables: Mapping[str, str] | None = None

    def tool(self, name: str, *args: str | Path, stdin: str = "") -> str:
        module = {"gspmd": "gspmd.tools.cli", "gspmd-opt": "gspmd.tools.opt"}[name]
        command = [self.python, "-m", module] if self.scripts is None else [self.scripts / name]
        return _run(*command, *args, cwd=self.directory, stdin=stdin, environment=self.variables)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name has a space and letters that are not ASCII; all that is built and installed lies in it."""
    return tmp_path_factory.mktemp("größe 大小")


@pytest.fixture(scope="module")
def wheel(base: Path) -> Path:
    tree = _copy(base / "wheel/source")
    command = ["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", base / "wheel", tree]
    _run(sys.executable, "-m", "pip", *command, cwd=base)
    (built,) = (base / "wheel").glob("gspmd-*.whl")
    return built


@pytest.fixture(scope="module")
def sdist(base: Path) -> Path:
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(base / 'sdist')!r})"
    _run(sys.executable, "-c", build, cwd=_copy(base / "sdist/source"))
    (built,) = (base / "sdist").glob("gspmd-*.tar.gz")
    return built


def _tar(base: Path) -> Path:
    tree = _copy(base / "source")
    with tarfile.open(base / "gspmd.tar", "w") as archive:
        archive.add(tree, "gspmd-main")
    with tarfile.open(base / "gspmd.tar") as archive:
        archive.extractall(base / "unpacked", filter="data")
    return base / "unpacked/gspmd-main"


def _without_links(base: Path) -> Path:
    """With the text files that a zip archive and a checkout on Windows have for links."""
    tree = _copy(base / "source")
    for link in _links(tree):
        target = os.readlink(link)
        link.unlink()
        link.write_text(target)
    return tree


def _zip(base: Path) -> Path:
    """Of bytes alone: what the archive knows of links and modes is lost."""
    tree = _without_links(base)
    with zipfile.ZipFile(base / "gspmd.zip", "w") as archive:
        for path in _files(tree):
            archive.writestr(f"gspmd-main/{path.relative_to(tree).as_posix()}", path.read_bytes())
    with zipfile.ZipFile(base / "gspmd.zip") as archive:
        archive.extractall(base / "unpacked")
    return base / "unpacked/gspmd-main"


def _crlf(base: Path) -> Path:
    tree = _without_links(base)
    for path in _files(tree):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return tree


TREES: dict[str, Callable[[Path], Path]] = {
    "tar": _tar,
    "zip": _zip,
    "crlf": _crlf,
    "editable": lambda base: _copy(base / "clone/gspmd"),
    "source tree": lambda base: _copy(base / "source"),
    "editable without links": _without_links,
    "source tree without links": _without_links,
}


@pytest.fixture(scope="module", params=["wheel", "sdist", *TREES])
def installed(request: pytest.FixtureRequest, base: Path) -> Installed:
    """gspmd from each form of its source; a source tree is not installed, but named in PYTHONPATH."""
    form = request.param
    directory = base / f"as {form}"
    (directory / "work/gspmd").mkdir(parents=True)
    source = TREES[form](directory) if form in TREES else request.getfixturevalue(form)
    if form.startswith("source tree"):  # beside the gspmd that runs the tests, of which nothing must come in
        variables = {"PYTHONPATH": str(source / "python")}
        return Installed(Path(sys.executable), source, directory / "work", variables=variables)
    paths = {"base": str(directory / "venv")}
    purelib, scripts = (Path(sysconfig.get_path(name, vars=paths)) for name in ("purelib", "scripts"))
    venv.create(directory / "venv", with_pip=False, symlinks=True)
    (purelib / "dependencies.pth").write_text(f"{DEPENDENCIES}\n", encoding="utf-8")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", "--no-compile"]
    editable = form.startswith("editable")
    requirement = ["-e", source] if editable else [source]
    _run(sys.executable, "-m", "pip", "--python", scripts / "python", "install", *options, *requirement, cwd=base)
    return Installed(scripts / "python", source if editable else purelib, directory / "work", scripts)


def test_every_module_is_there_and_no_other(installed: Installed) -> None:
    modules = _modules()
    assert len(modules) > 200
    printed = _run(
        installed.python,
        *("-c", FIND),
        cwd=installed.directory,
        stdin=json.dumps([*modules]),
        environment=installed.variables,
    )
    for name, origin in json.loads(printed).items():
        assert Path(origin).is_relative_to(installed.modules), name
        assert Path(origin).read_bytes().replace(b"\r\n", b"\n") == modules[name].read_bytes(), name


def test_the_files_that_a_report_is_made_of_are_there(installed: Installed) -> None:
    (installed.directory / "program.mlir").write_text(PROGRAM)
    installed.tool("gspmd", "report", "program.mlir", "-o", "report.html")
    text = (installed.directory / "report.html").read_text(encoding="utf-8")
    for name in ("page.css", "main.js", "uPlot.iife.min.js"):
        source = (ROOT / "python/gspmd/reports/assets" / name).read_text(encoding="utf-8")
        assert source.strip() in text


def test_tools_run(installed: Installed) -> None:
    assert installed.tool("gspmd", "--help").startswith("usage: gspmd")
    assert "func.func @main" in installed.tool("gspmd-opt", "--cse", stdin="func.func @main() {\n  return\n}\n")
    (installed.directory / "program.mlir").write_text(PROGRAM)
    text = installed.tool("gspmd", "partition", "program.mlir")
    assert "mhlo.num_partitions = 8" in text
    assert "(tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>" in text


@pytest.mark.parametrize("folder", [".", "python", "tools"])
def test_from_within_the_source_tree_the_same_modules_are_imported(folder: str) -> None:
    code = "import gspmd.tools.cli, gspmd.dialect.mesh as m; print(gspmd.__file__, m.__file__, sep='\\n')"
    variables = {"PYTHONPATH": str(ROOT / "python")}
    places = _run(sys.executable, "-c", code, cwd=ROOT / folder, environment=variables).splitlines()
    assert [Path(place).resolve() for place in places] == [ROOT / "python/gspmd/__init__.py", ROOT / "dialect/mesh.py"]


def test_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert len([name for name in names if name.endswith(".py")]) == len(_modules())
    others = [name for name in names if not name.endswith(".py") and ".dist-info/" not in name]
    assets = [f"gspmd/reports/assets/{path.name}" for path in (ROOT / "python/gspmd/reports/assets").iterdir()]
    assert sorted(others) == sorted(["gspmd/py.typed", *assets])
    assert len({name.partition("/")[0] for name in names}) == 2


def test_sdist_has_the_whole_repository(sdist: Path, tmp_path: Path) -> None:
    copy = _copy(tmp_path / "copy")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert not [member.name for member in archive if not (member.isfile() or member.isdir())]
    assert {path.relative_to(copy).as_posix() for path in _files(copy)} <= names


@pytest.mark.parametrize("part", ["dialect", "tools", "transforms"])
@pytest.mark.parametrize("lost", ["missing", "link that became a file"])
def test_package_that_is_not_whole_says_so(part: str, lost: str, tmp_path: Path) -> None:
    where = shutil.copytree(ROOT / "python/gspmd", tmp_path / "gspmd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(where / part)
    if lost != "missing":
        (where / part).write_text(f"../../{part}")
    command = [sys.executable, "-c", "import gspmd"]
    environment = _environment({"PYTHONPATH": str(tmp_path)})
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: gspmd is not whole: '{where}' has no '{part}'; install it again"
    )


def test_links_lead_to_the_top_level_folders_and_there_are_no_others(tmp_path: Path) -> None:
    tree = _copy(tmp_path / "copy")
    links = {link.relative_to(tree).as_posix(): os.readlink(link) for link in _links(tree)}
    assert links == {f"python/gspmd/{folder}": f"../../{folder}" for folder in lint.FOLDERS}

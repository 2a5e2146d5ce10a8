"""Writes a lock: the versions of everything that tests and releases need, as .ci/run and the workflows install them.

    python3.11 .ci/lock.py    # .ci/locks/python3.11.txt, and .ci/locks/oldest.txt
    python3.13 .ci/lock.py    # .ci/locks/python3.13.txt

pip resolves them for the Python that runs this. `oldest.txt` has the lower bounds of what gspmd needs (pyproject.toml),
and the rest as the lock of Python 3.11 has it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / ".ci/locks"
EXTRAS = "checkpoint,docs,plot,release,test,test-ecosystem,tpu"
OLDEST_PYTHON = "3.11"
OF_JAX = ("libtpu", "ml-dtypes", "scipy")  # which versions of these fit depends on that of JAX


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    """The least version that each requirement allows, as pip writes it."""
    found = (re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", each) for each in requirements)
    return {match[1].lower(): match[2] for match in found if match}


def resolved() -> dict[str, str]:
    """What pip would install into an empty environment of this Python."""
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        command = [f"{folder}/bin/pip", "install", "--quiet", "--dry-run", "--report", f"{folder}/report.json"]
        subprocess.run([*command, f"{ROOT}[{EXTRAS}]"], check=True)
        installed = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))["install"]
    versions = {each["metadata"]["name"].lower().replace("_", "-"): each["metadata"]["version"] for each in installed}
    del versions["gspmd"]
    return versions


def write(path: Path, versions: dict[str, str], about: str) -> None:
    lines = [f"# Written by .ci/lock.py: {about}", *(f"{name}=={versions[name]}" for name in sorted(versions))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def oldest(versions: dict[str, str]) -> dict[str, str]:
    """These versions with the lower bounds of what gspmd needs; what these need in turn is left to pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = lower_bounds(project["dependencies"])
    return {name: version for name, version in versions.items() if name not in OF_JAX} | bounds


def main() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = resolved()
    write(LOCKS / f"python{version}.txt", versions, f"what is tested with Python {version}")
    if version == OLDEST_PYTHON:
        write(LOCKS / "oldest.txt", oldest(versions), "the oldest versions that pyproject.toml allows to users")


if __name__ == "__main__":
    main()

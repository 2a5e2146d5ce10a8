"""Releases say what they are, are made of what was tested, and are refused where something is not ready."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from lint import ROOT
from packaging.requirements import Requirement

LOCKS = sorted((ROOT / ".ci/locks").glob("*.txt"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))  # type: ignore[misc]


# ---- versions that are tested ----


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_every_dependency_within_its_bounds(lock: Path) -> None:
    versions = pins(lock)
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    for required in map(Requirement, [*PROJECT["dependencies"], *extras]):
        if required.name != "gspmd":
            assert required.specifier.contains(versions[required.name]), required


def test_both_ends_of_what_users_may_have_are_locked() -> None:
    oldest, newest = pins(ROOT / ".ci/locks/oldest.txt"), pins(ROOT / ".ci/locks/python3.13.txt")
    for required in map(Requirement, PROJECT["dependencies"]):
        bounds = {each.operator: each.version for each in required.specifier}
        assert bounds[">="] == oldest[required.name], required
        if "<" in bounds:  # the newest minor version below
            last = ".".join(newest[required.name].split(".")[:2])
            next_one = f"{last.split('.')[0]}.{int(last.split('.')[1]) + 1}"
            assert bounds["<"] == next_one, required


# ---- workflows ----


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".pre-commit-config.yaml"], ids=lambda path: path.name)
def test_commands_of_workflows_name_files_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert isinstance(yaml.safe_load(text), dict)
    named = re.findall(r"(?<![\w/.-])((?:\.ci|test|docs)/[\w./-]*\w)", text)
    named = [name for name in named if not name.endswith(("locks/", ".ci/locks"))]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_lock_is_tested_by_a_workflow() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]
    tested = {each["lock"] for job in jobs.values() for each in job["strategy"]["matrix"]["include"]}
    assert tested == {path.stem for path in LOCKS}


# ---- the release script ----


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with what a release looks at."""
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    versions = ("0.2.0 (unreleased)", "A pass."), ("0.1.0 (2025-01-02)", "All.")
    changes = "\n\n".join(f"## {version}\n\n### Added\n\n- {change}" for version, change in versions)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{changes}\n")
    (tmp_path / "dialect").mkdir()
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.email", "someone@example.org")
    git(tmp_path, "config", "user.name", "Someone")
    commit(tmp_path)
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def git(source: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=source, check=True, capture_output=True)


def commit(source: Path) -> None:
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--allow-empty", "--message", "A change")


def release(source: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / ".ci/release.py"), "--root", str(source), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_prepared_version_is_ready(source: Path) -> None:
    assert release(source, "prepare", "0.2.0") == (0, "")
    commit(source)
    assert release(source, "check") == (0, "0.2.0 is ready\n")
    assert 'version = "0.2.0"' in (source / "pyproject.toml").read_text()
    assert re.search(r"^version: 0\.2\.0$", (source / "CITATION.cff").read_text(), re.MULTILINE)
    assert re.search(r"^date-released: \d{4}-\d\d-\d\d$", (source / "CITATION.cff").read_text(), re.MULTILINE)


def test_a_version_is_tagged_with_its_notes_once_its_tests_pass(source: Path) -> None:
    release(source, "prepare", "0.2.0")
    (source / ".ci").mkdir()
    (source / ".ci/run").write_text("exit 0\n")
    commit(source)
    code, printed = release(source, "tag")
    assert (code, printed.splitlines()[-1]) == (0, "tagged v0.2.0; publish it with: git push origin v0.2.0")
    message = subprocess.run(["git", "tag", "-n9", "v0.2.0"], cwd=source, capture_output=True, text=True, check=True)
    assert "- A pass." in message.stdout


def test_a_version_whose_tests_fail_is_not_tagged(source: Path) -> None:
    release(source, "prepare", "0.2.0")
    (source / ".ci").mkdir()
    (source / ".ci/run").write_text("exit 1\n")
    commit(source)
    assert release(source, "tag")[0] != 0
    tags = subprocess.run(["git", "tag"], cwd=source, capture_output=True, text=True, check=True).stdout
    assert tags == "v0.1.0\n"


def test_notes_are_what_the_changelog_says(source: Path) -> None:
    assert release(source, "notes", "0.1.0") == (0, "### Added\n\n- All.\n")
    assert release(source, "notes", "0.3.0") == (1, "release: CHANGELOG.md says nothing of 0.3.0\n")


@pytest.mark.parametrize(
    ("edits", "fault"),
    [
        ({"CHANGELOG.md": (r"\(2\d+-\d\d-\d\d\)", "(unreleased)")}, "dates 0.2.0 'unreleased'"),
        ({"CHANGELOG.md": ("### Added", "### News")}, "a section 'News', expected Breaking, Added, Changed, Fixed"),
        ({"CHANGELOG.md": ("- A pass.", "")}, "says nothing of 0.2.0"),
        ({"CITATION.cff": ("0.2.0", "0.1.9")}, "CITATION.cff is of version 0.1.9, pyproject.toml of 0.2.0"),
        ({"pyproject.toml": ('"0.2.0"', '"0.2"')}, "'0.2' is no semantic version, as 0.1.0"),
        (
            {"pyproject.toml": ('"0.2.0"', '"0.1.0"'), "CHANGELOG.md": ("0.2.0", "0.1.0")},
            "0.1.0 does not come after v0.1.0, which is tagged",
        ),
        (
            {"pyproject.toml": ('"0.2.0"', '"0.1.1"'), "CHANGELOG.md": ("0.2.0", "0.1.1")},
            "0.1.1 is a patch, and CHANGELOG.md has sections Breaking or Added",
        ),
    ],
)
def test_what_is_not_ready_is_said(source: Path, edits: dict[str, tuple[str, str]], fault: str) -> None:
    release(source, "prepare", "0.2.0")
    for name, (old, new) in edits.items():
        text = (source / name).read_text()
        written = re.sub(old, new, text, count=1)
        assert written != text
        (source / name).write_text(written)
    commit(source)
    code, printed = release(source, "check")
    assert code == 1
    assert fault in printed


def test_a_release_is_a_clean_commit_of_the_main_branch(source: Path) -> None:
    release(source, "prepare", "0.2.0")
    git(source, "checkout", "--quiet", "-b", "wish")
    code, printed = release(source, "check")
    assert (code, printed) == (
        1,
        "release: the branch is 'wish', expected 'main'\nrelease: not everything is committed\n",
    )


def test_a_release_no_longer_has_the_old_names_that_it_does_not_take(source: Path) -> None:
    release(source, "prepare", "0.2.0")
    (source / "dialect/names.py").write_text('A = Renamed("a", until="0.2.0")\nB = Renamed("b", until="0.3.0")\n')
    commit(source)
    assert release(source, "check") == (
        1,
        "release: dialect/names.py:1: an old name is taken until 0.2.0, which this is; take it out\n",
    )


def test_this_version_is_in_the_changelog_with_sections_that_a_release_takes() -> None:
    script = runpy.run_path(str(ROOT / ".ci/release.py"))
    date, text = script["changelog"](ROOT)[PROJECT["version"]]
    assert date == "unreleased" or re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= set(script["SECTIONS"])

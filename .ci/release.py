"""Releases gspmd: checks that everything is ready, and tags it.

    python .ci/release.py prepare 0.1.0    # writes the version and the date where they belong; commit that
    python .ci/release.py check            # says what is not ready; changes nothing
    python .ci/release.py tag              # the same, then .ci/run, then the tag; push it, and the workflow publishes
    python .ci/release.py notes 0.1.0      # prints what the changelog says of a version

A release is a commit of the branch `main` whose version is in pyproject.toml and CITATION.cff, and has a dated section
in CHANGELOG.md. Exit codes: 0, 1 where something is not ready.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("Breaking", "Added", "Changed", "Fixed")
UNRELEASED = "unreleased"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_HEADING = re.compile(r"^## (\S+) \((.+)\)$", re.MULTILINE)
_RENAMED = ("dialect", "python", "tools", "transforms")

Version = tuple[int, int, int]


class NotReadyError(Exception):
    """What keeps a version from being released."""


def parse(text: str) -> Version:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise NotReadyError(f"'{text}' is no semantic version, as 0.1.0")
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout


def read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def version_of(root: Path) -> str:
    return str(tomllib.loads(read(root, "pyproject.toml"))["project"]["version"])


def changelog(root: Path) -> dict[str, tuple[str, str]]:
    """The date and the text of each version, the newest first."""
    parts = _HEADING.split(read(root, "CHANGELOG.md"))[1:]
    return {name: (date, text.strip()) for name, date, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def notes(root: Path, version: str) -> str:
    """What the changelog says of a version. Raises NotReadyError."""
    found = changelog(root).get(version)
    if found is None:
        raise NotReadyError(f"CHANGELOG.md says nothing of {version}")
    return found[1] + "\n"


def faults(root: Path) -> Iterator[str]:
    """What keeps the source in `root` from being released."""
    version = version_of(root)
    try:
        number = parse(version)
    except NotReadyError as error:
        yield f"pyproject.toml: {error}"
        return
    yield from _faults_of_changelog(root, version)
    cited = re.search(r"^version: (.+)$", read(root, "CITATION.cff"), re.MULTILINE)
    if cited is None or cited[1] != version:
        yield f"CITATION.cff is of version {cited[1] if cited else 'none'}, pyproject.toml of {version}"
    yield from _faults_of_history(root, version, number)
    for place, until in renamed(root):
        if parse(until) <= number:
            yield f"{place}: an old name is taken until {until}, which this is; take it out"


def _faults_of_changelog(root: Path, version: str) -> Iterator[str]:
    versions = changelog(root)
    if next(iter(versions), None) != version:
        yield f"CHANGELOG.md begins with {next(iter(versions), 'no version')}, expected {version}"
        return
    date, text = versions[version]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        yield f"CHANGELOG.md dates {version} '{date}': run .ci/release.py prepare {version}"
    sections = re.findall(r"^### (.+)$", text, re.MULTILINE)
    for section in sections:
        if section not in SECTIONS:
            yield f"CHANGELOG.md has a section '{section}', expected {', '.join(SECTIONS)}"
    if not re.search(r"^- ", text, re.MULTILINE):
        yield f"CHANGELOG.md says nothing of {version}"
    if parse(version)[2] and {"Breaking", "Added"} & set(sections):
        yield f"{version} is a patch, and CHANGELOG.md has sections Breaking or Added"


def _faults_of_history(root: Path, version: str, number: Version) -> Iterator[str]:
    tagged = [tag.removeprefix("v") for tag in git(root, "tag", "--list", "v*").split()]
    newest = max((parse(tag) for tag in tagged if _VERSION.fullmatch(tag)), default=None)
    if newest is not None and number <= newest:
        yield f"{version} does not come after v{'.'.join(map(str, newest))}, which is tagged"
    branch = git(root, "rev-parse", "--abbrev-ref", "HEAD").strip()
    if branch != "main":
        yield f"the branch is '{branch}', expected 'main'"
    if git(root, "status", "--porcelain").strip():
        yield "not everything is committed"


def renamed(root: Path) -> Iterator[tuple[str, str]]:
    """The places of old names in the source, and the versions that no longer take them (gspmd.dialect.renaming)."""
    for path in sorted(path for folder in _RENAMED for path in (root / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Renamed(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Renamed":
                until = {each.arg: each.value for each in node.keywords}["until"]
                yield f"{path.relative_to(root)}:{node.lineno}", str(ast.literal_eval(until))


def prepare(root: Path, version: str, today: dt.date) -> None:
    """Write the version and its date into pyproject.toml, CITATION.cff and CHANGELOG.md. Raises NotReadyError."""
    parse(version)
    heading, (date, _) = next(iter(changelog(root).items()))
    if date != UNRELEASED:
        raise NotReadyError(f"CHANGELOG.md begins with {heading} of {date}, expected a section that is {UNRELEASED}")
    for name, pattern, text in (
        ("pyproject.toml", r'^version = ".*"$', f'version = "{version}"'),
        ("CITATION.cff", r"^version: .*$", f"version: {version}"),
        ("CITATION.cff", r"^date-released: .*\n", ""),
        ("CITATION.cff", r"\Z", f"date-released: {today}\n"),
        ("CHANGELOG.md", rf"^## {re.escape(heading)} \(.*\)$", f"## {version} ({today})"),
    ):
        written = re.sub(pattern, text, read(root, name), count=1, flags=re.MULTILINE)
        (root / name).write_text(written, encoding="utf-8")


def tag(root: Path) -> None:
    version = version_of(root)
    subprocess.run(["sh", ".ci/run"], cwd=root, check=True)
    if git(root, "status", "--porcelain").strip():
        raise NotReadyError("the tests left files behind")
    message = f"gspmd {version}\n\n{notes(root, version)}"
    git(root, "tag", "--annotate", "--cleanup=verbatim", f"v{version}", "--message", message)
    print(f"tagged v{version}; publish it with: git push origin v{version}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the source (default: that of this file)")
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("prepare", "notes"):
        actions.add_parser(name).add_argument("version")
    for name in ("check", "tag"):
        actions.add_parser(name)
    args = parser.parse_args()
    try:
        if args.action == "prepare":
            prepare(args.root, args.version, dt.datetime.now(dt.UTC).date())
        elif args.action == "notes":
            print(notes(args.root, args.version), end="")
        else:
            found = list(faults(args.root))
            if found:
                raise NotReadyError("\n".join(found))
            print(f"{version_of(args.root)} is ready")
            if args.action == "tag":
                tag(args.root)
    except NotReadyError as error:
        print("\n".join(f"release: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

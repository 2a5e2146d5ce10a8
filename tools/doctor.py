"""gspmd doctor: what of this environment gspmd can use, and what each part is for."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT

if TYPE_CHECKING:
    from gspmd.surroundings import Finding

NAME = "doctor"
SUMMARY = "say which extras, devices, compilers and solvers there are, and what each is for"
PRINTS_JSON = True
_EPILOG = """\
Devices and compilers are tried in processes of their own, which takes some seconds. At the end a small program is
partitioned, run and compared.

JSON: "passed" and "findings", each of "group", "name", "is_there", "found", "purpose", "advice" and "is_fault".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or 3 if something that gspmd cannot do without is missing or fails."""
    from gspmd.surroundings import findings

    with stage("looking around"):
        found = list(findings())
    passed = not any(finding.is_fault for finding in found)
    if args.json:
        print(json.dumps({"passed": passed, "findings": [finding.to_dict() for finding in found]}, indent=2))
    else:
        _print(found, passed)
    return EXIT_DONE if passed else EXIT_VERDICT


def _print(found: list[Finding], passed: bool) -> None:
    from gspmd.tables import bad, fitted, good, table

    lines: list[str] = []
    for group in dict.fromkeys(finding.group for finding in found):
        rows = []
        for finding in (finding for finding in found if finding.group == group):
            state = good("yes") if finding.is_there else bad("NO") if finding.is_fault else "no"
            told = "; ".join(filter(None, (finding.purpose, finding.advice)))
            rows.append((state, finding.name, finding.found or "-", told))
        lines += [group, *table(rows), ""]
    end = good("PASS: gspmd works here") if passed else bad("FAIL: see the rows with NO")
    print("\n".join(fitted([*lines, end])))

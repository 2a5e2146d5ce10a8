"""What weighs one sharding against another is on one page: other numbers limit how long and how much is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gspmd.transforms import decide

ROOT = Path(decide.__file__).resolve().parents[1]
WEIGHTS = {"REPEATED", "REPEATED_FOR_A_BYTE", "SURPRISE_S"}
WITHOUT_TARGET = {"BESIDE_BYTES"}
# What is looked at, for how long, in how large pieces, or how much of it is told.
LIMITS = {
    "decide/alternatives.py": {"MAX_ALTERNATIVES"},
    "decide/prices.py": {"MAX_WAYS", "_NEVER_BYTES"},
    "decide/solver.py": {"GAP", "FIRST_READ", "MAX_AVERAGE_STATES", "MAX_STATES"},
    "decide/tables.py": {"_MAX_SUMS"},
    "decide/strategies.py": {"MAX_STRATEGIES"},
    "propagate/derivation.py": {"_ANNOTATED", "_NEVER"},
}
# The planner finds a path between two shardings that are given, and says what a device may hold on the way.
PATHS = {
    "paths/path.py": {"PADDING", "SMALL_BYTES"},
    "paths/placements.py": {"MAX_PARTS", "MAX_PLACEMENTS", "MAX_ROWS"},
    "paths/planner.py": {"MAX_LATENCY_DEVICES", "MAX_PARTS", "WORTH_MEMORY"},
    "paths/prices.py": {"MAX_PLANNED_DEVICES", "MAX_TILES"},
    "paths/routes.py": {"MAX_ROUTED", "_PROBE"},
    "paths/search.py": {"_DIRECT"},
    "paths/steps.py": {"NO_KIND"},
}


def numbers(path: Path) -> Iterator[str]:
    """The names of numbers that a module defines at its top."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and _is_number(statement.value):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def test_numbers_that_weigh_shardings_are_in_the_objective() -> None:
    found = {
        str(path.relative_to(ROOT)): set(numbers(path))
        for folder in ("propagate", "decide", "paths", "reshard")
        for path in sorted((ROOT / folder).glob("*.py"))
    }
    assert found.pop("decide/objective.py") == WEIGHTS
    assert set(numbers(ROOT / "machine" / "cost.py")) == WITHOUT_TARGET | {"ANYWHERE"}
    assert {name: names for name, names in found.items() if names} == LIMITS | PATHS


def test_the_page_says_what_the_weights_are() -> None:
    page = (ROOT.parent / "docs" / "objective.md").read_text(encoding="utf-8")
    assert f"{decide.objective.REPEATED:.0f} times the seconds" in page
    assert f"{decide.objective.REPEATED_FOR_A_BYTE:.0f} operations for a byte" in page
    assert "10 ps" in page
    assert "count 3 %" in page

"""What tests share is in packages, so that it is found by the same name from every folder and by editors."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGES = {"hostile", "proof", "support"}
SCRIPTS = {"lint"}  # at the top of `test`, and run by people


def imported(path: Path) -> set[str]:
    """The top-level modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_a_test_imports_no_module_of_the_tests_by_its_bare_name() -> None:
    modules = {path.stem for path in TESTS.rglob("*.py")} - PACKAGES - SCRIPTS - {"bisect"}
    tests = sorted(TESTS.rglob("test_*.py"))
    assert len(tests) > 200
    assert {str(path): found for path in tests if (found := imported(path) & modules)} == {}


def test_the_packages_of_the_tests_have_names_that_nothing_else_has() -> None:
    for name in PACKAGES:
        found = __import__(name)
        assert found.__file__ == str(TESTS / name / "__init__.py")

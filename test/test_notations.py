"""Notations are in dialect: no other file of the source writes or reads texts of `sdy`, or names of our attributes."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import lint
import pytest

import gspmd
from gspmd.dialect import own_attributes

FOLDERS = ("python", "transforms", "tools")
"""All folders with source that may import dialect; programs in examples are written as users write them."""
OWN = re.compile(r"gspmd\\?\.(\w*)")
TEXTS = re.compile(
    r"#sdy|axis_ref|mesh_axis<|replica_group_mesh_axes|sub_axis_info|all_to_all_param|manual_axes\\?\{|sdy\.mesh @"
)
EXCEPTIONS = {
    ("python/gspmd/__init__.py", ""): "names of modules are put together where they are imported",
    ("tools/completion.py", "fish"): "a file that a shell reads",
}
"""Files, and what stands behind `gspmd.` in them, with the reason. Modules and functions of the package need none."""
PUBLIC = {*gspmd.__all__, *(module.name for module in pkgutil.iter_modules(gspmd.__path__))}


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the content of every string, pieces of f-strings included, that is no text about the code."""
    about = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in about:
            value = node.value
            yield node.lineno, value if isinstance(value, str) else value.decode(errors="replace")


def own_names(text: str) -> list[str]:
    """What stands behind each `gspmd.` that does not begin the name of a module or function."""
    return [name for name in OWN.findall(text) if name not in PUBLIC]


def faults(source: str, file: str = "-") -> list[str]:
    """What of a source belongs into dialect, with its line."""
    tree = ast.parse(source)
    found = []
    for line, text in literals(tree):
        if TEXTS.search(text) or any((file, name) not in EXCEPTIONS for name in own_names(text)):
            found.append(f"{file}:{line}: {text!r}")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if any(_is_mesh(argument) for argument in call.args[:1])]
    return [*found, *(f"{file}:{call.lineno}: makes a mesh" for call in made)]


def _is_mesh(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "sdy.mesh"


def test_notations_are_in_dialect() -> None:
    files = [path for folder in FOLDERS for path in sorted((lint.ROOT / folder).rglob("*.py"))]
    assert len(files) > 200
    found = [fault for path in files for fault in faults(path.read_text(), path.relative_to(lint.ROOT).as_posix())]
    assert found == []


@pytest.mark.parametrize(("file", "name"), EXCEPTIONS)
def test_exceptions_are_needed(file: str, name: str) -> None:
    assert any(name in own_names(text) for _, text in literals(ast.parse((lint.ROOT / file).read_text())))


@pytest.mark.parametrize(
    "source",
    [
        'op.attributes["gspmd.axes"]',
        "PLACE = re.compile(r'fused<\"gspmd\\.place\\.(\\d+)\">')",
        'set_mark(op, f"gspmd.place.{index}")',
        'ir.Attribute.parse(f"#sdy.mesh{print_mesh(mesh)}")',
        'text = f"#stablehlo.axis_ref<name = {name}>"',
        'text.removeprefix("#sdy<axis_ref_list")',
        'f"sdy.mesh @{name} = {mesh}"',
        'ir.Operation.create("sdy.mesh", attributes=attributes)',
        'name.startswith("gspmd.")',
    ],
)
def test_notations_elsewhere_are_found(source: str) -> None:
    assert len(faults(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Reads `gspmd.axes` of `#sdy.mesh`."""',
        'UsageError(f"gspmd.partition has no argument {name}")',
        'importlib.import_module(f"gspmd.examples.{name}")',
        'kept = {"sdy.mesh", "sdy.return"}',
    ],
)
def test_what_is_no_notation_may_be_anywhere(source: str) -> None:
    assert faults(source) == []


def test_every_name_of_ours_says_what_it_is() -> None:
    """A string behind each constant says what the attribute holds and how long it lives."""
    body = ast.parse(Path(own_attributes.__file__).read_text()).body
    constants = [node for node in body if isinstance(node, ast.Assign)]
    said = {body[body.index(node) - 1] for node in body[1:] if isinstance(node, ast.Expr)}
    assert said.issuperset(constants)
    names = [value for name, value in vars(own_attributes).items() if name.isupper()]
    assert len(names) == len(set(names)) == len(constants) > 20
    assert all(name.startswith(own_attributes.PREFIX) for name in names)

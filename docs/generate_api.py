"""Writes docs/api.md: the public names of `gspmd` in groups, each with the first sentence of its docstring.

Run `python docs/generate.py api` after a change to these. The site shows the docstrings whole.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = _ROOT / "python" / "gspmd"
PAGE = Path(__file__).with_name("api.md")
GROUPS = {
    "Functions of JAX": (
        *("jit", "annotate", "mesh_split", "UNSPECIFIED", "make_mesh", "DeviceMesh"),
        *("Lowered", "Compiled", "ShardedArray", "wait"),
    ),
    "Pipelines": ("pipeline", "bubble_ratio"),
    "Partitioning programs": ("partition", "propagate", "Partitioned", "Sharding", "Collective", "PassManager"),
    "Running programs": ("compile", "load", "save", "Executable"),
    "Compiling for other machines": ("compile_for", "load_compiled", "CompiledProgram"),
    "Explaining and pricing": (*("explain", "Explanation", "cost", "CostReport", "report", "Report", "visualize"),),
    "Finding annotations": ("suggest", "Suggestions", "search", "ShardingPlan"),
    "Checking and comparing": (
        *("verify", "Verification", "ResultVerdict", "Verdict", "check", "CheckReport"),
        *("compare", "SecondOpinion", "compare_versions", "VersionComparison"),
    ),
    "Errors": (
        *("Error", "ErrorKind", "SourceLocation", "AnnotationError", "ExecutionError", "InputError", "InternalError"),
        *("NotProved", "ParseError", "ReshardError", "Unsupported", "UsageError"),
    ),
}
_INTRODUCTION = """# API

The public names of `gspmd`, written by `docs/generate_api.py` from their docstrings. Names that are not listed here may
change without notice. What needs JAX imports it on first use.
"""
_IMPORT = re.compile(r"^ *from gspmd\.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def api() -> str:
    """The page."""
    lines = [_INTRODUCTION]
    for title, names in GROUPS.items():
        lines += [f"## {title}\n", "| name | what it is |", "|---|---|"]
        lines += [_row(name) for name in names]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def documented() -> frozenset[str]:
    """The names that the site has docstrings of."""
    return frozenset(name for names in GROUPS.values() for name in names)


def _row(name: str) -> str:
    path, text = _home(name)
    place = path.relative_to(_ROOT).as_posix()
    return f"| [`{name}`](../{place}) | {_first_sentence(text).replace('|', chr(92) + '|')} |"


def _home(name: str) -> tuple[Path, str]:
    """The file that defines a public name, and its docstring; names that are imported there are followed."""
    module = _modules((_PACKAGE / "__init__.py").read_text(encoding="utf-8"))[name]
    while True:
        path = _path(module)
        source = path.read_text(encoding="utf-8")
        text = _docstring(ast.parse(source), name)
        if text is not None:
            return path, text
        module = _modules(source)[name]


def _modules(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for module, several, one in _IMPORT.findall(source):
        names: Iterator[str] = (part.split("#")[0].strip() for part in re.split(r"[,\n]", several or one))
        found |= dict.fromkeys(filter(None, names), module)
    return found


def _path(module: str) -> Path:
    part = module.replace(".", "/")
    places = (_PACKAGE / f"{part}.py", _PACKAGE / part / "__init__.py")
    return next(path.resolve() for path in places if path.exists())


def _docstring(module: ast.Module, name: str) -> str | None:
    """What is said of a class, a function or a constant; None where the module does not define it."""
    for node, after in zip(module.body, [*module.body[1:], None], strict=True):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name and not _is_overload(node):
            return ast.get_docstring(node) or ""
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return str(after.value.value) if is_text else ""  # type: ignore[union-attr] - as just asked
    return None


def _is_overload(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s(?=[A-Z`])", paragraph)[0]

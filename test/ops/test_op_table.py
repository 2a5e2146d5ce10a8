"""What is known of operations stands in one table, with one row for each."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from gspmd.dialect.errors import InternalError
from gspmd.transforms.ops import OPS, traits_of
from gspmd.transforms.ops.op_definition import OpDef, joined, op_table
from gspmd.transforms.ops.rules import whole
from gspmd.transforms.ops.structure import STRUCTURE, STRUCTURE_TRAITS
from gspmd.transforms.ops.traits import UNKNOWN

# ---- the table ----------------------------------------------------------------------------------------


def test_no_operation_is_defined_twice_in_a_family() -> None:
    add = OPS["stablehlo.add"]
    with pytest.raises(InternalError, match=r"'stablehlo\.add' is .* twice.*elementwise_rule' and '.*rules\.whole'"):
        op_table([add, OpDef("stablehlo.add", whole)])


def test_no_operation_is_defined_in_two_families() -> None:
    with pytest.raises(InternalError, match=r"'mine' is defined twice"):
        joined([op_table([OpDef("mine", whole)]), op_table([dataclasses.replace(OPS["stablehlo.add"], name="mine")])])


def test_traits_are_known_of_every_operation() -> None:
    assert STRUCTURE.keys() <= STRUCTURE_TRAITS.keys()
    assert not OPS.keys() & STRUCTURE_TRAITS.keys()


def test_nothing_is_taken_for_granted_of_what_is_not_in_the_table() -> None:
    assert traits_of("stablehlo.of_the_future") is UNKNOWN
    assert UNKNOWN.diverges
    assert not UNKNOWN.pure
    assert not UNKNOWN.is_plain


def test_what_differs_by_device_is_never_computed_whole_on_each() -> None:
    for name, row in OPS.items():
        traits = row.traits
        if name != "stablehlo.custom_call":  # of these the user says it with --replicate-unsupported
            assert not (row.replicable and (traits.diverges or traits.communicates or traits.effects)), name
        assert traits.pure is False or not traits.effects, name


# ---- names of operations elsewhere --------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
# Whoever reads programs, repairs them for XLA or builds them deals with operations one by one.
_OWNERS = tuple(f"transforms/{stage}/" for stage in ("ops", "emit", "ingest", "repairs"))
# The verifier says itself what operations mean, so that it judges what the table says of them.
_OWNERS += ("python/gspmd/verification/",)
# What builds an operation has to name it.
_BUILDERS = {"op", "ops", "op_with_body", "op_with_regions", "create"}
_NAME = re.compile(r"(stablehlo|chlo)\.(\w+)")

_FORM = "the form in which the compiler writes this, found again to be improved"
_BELOW = "below the table, in what the table itself is made of"
EXCEPTIONS: dict[str, tuple[str, str]] = {
    "transforms/analysis/least/images.py": (
        """abs add broadcast_in_dim cbrt compare constant convert cosine divide dot_general erf exponential
        exponential_minus_one log log_plus_one logistic maximum minimum multiply negate optimization_barrier reduce
        reshape reverse rsqrt select sine slice sqrt square subtract tanh transpose""",
        "derivatives, which nothing else asks for",
    ),
    "transforms/ir/op_info.py": (
        "add and broadcast_in_dim constant custom_call maximum minimum multiply or xor",
        f"reducers, calls and constants; {_BELOW}",
    ),
    "transforms/ir/program.py": (
        "case composite if iota optimization_barrier return while",
        f"control flow, and what is a value of its own at every use; {_BELOW}",
    ),
    "transforms/ir/collective_groups.py": (
        """all_gather all_reduce all_to_all collective_broadcast collective_permute partition_id recv reduce_scatter
        replica_id send""",
        f"what names devices, or differs by them; {_BELOW}",
    ),
    "transforms/optimize/collective_matmul.py": ("pad slice", _FORM),
    "transforms/optimize/combine.py": (
        "broadcast_in_dim constant convert reshape slice transpose",
        "what gathers may be moved before: a choice of this pass, not what holds of operations",
    ),
    "transforms/optimize/merge.py": ("reshape", _FORM),
    "transforms/optimize/products.py": ("dot_general", "products, which passes take apart"),
    "transforms/optimize/program.py": ("transpose", "what passes look for"),
    "transforms/optimize/swap.py": ("reduce_scatter", _FORM),
}
"""The operations that files name, without their dialect, and why they do not ask the table."""


def _names(path: Path) -> set[str]:
    """The operations that a file names other than to build them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    built = {call.args[0] for call in calls if getattr(call.func, "attr", getattr(call.func, "id", None)) in _BUILDERS}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in built]
    names = [_NAME.fullmatch(node.value) for node in found if isinstance(node.value, str)]
    return {name[2] for name in names if name}


def _files() -> list[str]:
    folders = ("dialect", "python", "tools", "transforms")
    paths = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in paths if not path.startswith(_OWNERS))


def test_what_is_known_of_operations_is_asked_of_the_table() -> None:
    named = {path: _names(ROOT / path) for path in _files()}
    excepted = {path: set(names.split()) for path, (names, _) in EXCEPTIONS.items()}
    assert {path: names for path, names in named.items() if names} == excepted
    assert len(excepted) <= 10
    dialects, known = ("stablehlo", "chlo"), OPS.keys() | STRUCTURE.keys()
    assert all({f"{dialect}.{name}" for dialect in dialects} & known for names in excepted.values() for name in names)


def test_no_list_of_names_is_put_together_elsewhere() -> None:
    """As in `f"stablehlo.{name}" for name in ("add", "subtract")`; collectives are told by their kind."""
    for path in _files():
        text = (ROOT / path).read_text(encoding="utf-8")
        found = re.findall(r"f\"(?:stablehlo|chlo)\.\{([^}]*)\}", text)
        assert set(found) <= {"kind", "collective.kind"}, path

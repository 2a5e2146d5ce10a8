"""Every operation of StableHLO and CHLO is known: it has a rule, is refused, or is dealt with elsewhere."""

from __future__ import annotations

import re

import jaxlib
import pytest
from generate_coverage import PAGE, coverage
from jaxlib.mlir.dialects import chlo, stablehlo
from op_examples import EXAMPLES, function, operation_of
from support.examples_of_operations import COMPUTED, is_refused
from support.single_op import MESHES, assignments, partition, read

import gspmd
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.rule import NEED_REPLICATION
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.structure import STRUCTURE

# The bindings have no dialect for the types of these, so that no program has them.
UNREADABLE = {"stablehlo.uniform_dequantize", "stablehlo.uniform_quantize"}


def operations() -> set[str]:
    """Names of all operations of both dialects, as the bindings have them."""
    return {
        kind.OPERATION_NAME
        for dialect in (chlo, stablehlo)
        for kind in vars(dialect).values()
        if isinstance(kind, type) and hasattr(kind, "OPERATION_NAME")
    }


# Operations that the oldest jaxlib we run on does not have yet, and the examples therefore cannot show.
NEWER = {"stablehlo.collective_reduce"}


def test_every_operation_is_in_one_table() -> None:
    assert operations() | NEWER == OPS.keys() | STRUCTURE.keys()
    assert not OPS.keys() & STRUCTURE.keys()


def test_every_operation_has_an_example() -> None:
    shown = {operation_of(name) for name in EXAMPLES}
    assert (operations() | NEWER) - shown == UNREADABLE | NEWER | {"stablehlo.return"}


@pytest.mark.parametrize("name", COMPUTED)
def test_the_operation_is_valid_however_its_factors_are_split(name: str) -> None:
    """Each alone, and several at once; the result is verified against the types that the rule promises."""
    text = function(name)
    (op,) = read(text).body.ops
    rule = OPS[op.info.name].rule(op.info)
    for mesh in (MESHES["4x2"], MESHES["3"]):
        if any(kind is not NEED_REPLICATION for kind in rule.kinds):
            for axes in assignments(rule, mesh, 2, 0):
                partition(text, mesh, axes)


def _split(type_: str) -> str:
    """An annotation that splits the first dimension of a tensor, or tells nothing of anything else."""
    found = re.match(r"tensor<((?:\d+x)*)", type_)
    rank = found[1].count("x") if found else 0
    dims = ", ".join(["{}"] * (rank - 1))
    return f' {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}{", " + dims if dims else ""}]>}}' if rank else ""


def annotated(name: str) -> str:
    return f'sdy.mesh @mesh = <["x"=2]>\n{function(name, _split)}'


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not is_refused(name)])
def test_the_operation_goes_through_all_stages(name: str) -> None:
    module = gspmd.partition(annotated(name)).module_text
    assert "sdy." not in module


@pytest.mark.parametrize("name", [name for name in EXAMPLES if is_refused(name)])
def test_the_operation_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(Unsupported, match="; "):
        gspmd.partition(annotated(name))


@pytest.mark.skipif(not jaxlib.__version__.startswith("0.10."), reason="the page is written with jaxlib 0.10")
def test_the_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == coverage(), "run python docs/generate.py coverage"

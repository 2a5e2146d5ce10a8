"""`gspmd.compare_versions`: what changed between two versions of a program."""

from __future__ import annotations

import pytest
from support.compared_programs import PRODUCT

import gspmd
from gspmd.comparisons.increases import over_old
from gspmd.comparisons.versions import version_lines

GATHERED = 3 * 16 * 32 * 4


def test_a_line_that_only_moved_has_not_changed() -> None:
    found = gspmd.compare_versions(PRODUCT, "\n\n" + PRODUCT)
    assert found.is_same
    assert found.old.sent_bytes == found.new.sent_bytes == GATHERED
    assert "the traffic of every line is the same" in version_lines(found)


def test_lines_and_shardings_that_changed() -> None:
    new = PRODUCT.replace('[{"x"}, {"y"}]', "[{}, {}]", 1)  # of %b
    found = gspmd.compare_versions(PRODUCT, new)
    assert not found.is_same
    (changed,) = found.lines
    assert [(each.kind, each.axes, each.bytes) for each in changed.old] == [("all_gather", "x", GATHERED)]
    assert changed.new == ()
    (argument,) = found.arguments
    assert (argument.name, argument.old, argument.new) == (
        "argument 1",
        'tensor<64x64xf32> [{"x"}, {"y"}]',
        "tensor<64x64xf32> [{}, {}]",
    )
    assert found.results == ()
    text = "\n".join(version_lines(found))
    assert "-100.0%" in text
    assert "operand 1 of 'dot_general' is" in text


def test_what_comes_and_goes() -> None:
    named = PRODUCT.replace("{sdy.sharding", '{jax.result_info = "r", sdy.sharding')
    fewer = """func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"""
    found = gspmd.compare_versions(named, f'sdy.mesh @mesh = <["x"=4]>\n{fewer}')
    assert [mesh.size for mesh in found.meshes] == [8, 4]
    assert found.arguments[1].new == ""
    lines = version_lines(found)
    assert lines[0] == "old on x=4, y=2 (8 devices)"
    assert lines[1] == "new on x=4 (4 devices), target neutral"


def test_both_may_be_partitioned_already() -> None:
    product = gspmd.partition(PRODUCT)
    assert gspmd.compare_versions(product, product.module_text).new.sent_bytes == GATHERED
    assert gspmd.compare_versions(PRODUCT, product).old.by_axes == {("all_gather", "x"): (GATHERED, 1)}


def test_increases() -> None:
    less = PRODUCT.replace('[{"x"}, {"y"}]', '[{}, {"y"}]', 1)
    found = gspmd.compare_versions(less, PRODUCT)
    names = [increase.figure for increase in over_old(found, {"": 0.0})]
    assert names[:2] == ["bytes", "collectives"]
    assert str(over_old(found, {"bytes": 0.5})[0]) == (
        "bytes sent: 6.0 KiB (6144 bytes), against 0 B (0 bytes); allowed is 50.0%"
    )
    assert over_old(gspmd.compare_versions(PRODUCT, PRODUCT), {"": 0.0}) == ()


def test_a_version_that_is_refused_is_an_error() -> None:
    with pytest.raises(gspmd.ParseError):
        gspmd.compare_versions(PRODUCT, "func.func @main() {")

"""One training step of every example, in every parallelism: partitioned and run, it gives the same numbers.

Every perceptron is run on every mesh. Compiling a decoder takes seconds, so of its 48 combinations those are run that
cover every recipe on every mesh, and every recipe unrolled and scanned, with both annotation families. The families are
compared for every recipe on every mesh, unrolled and scanned in turn.
"""

from __future__ import annotations

import pytest
from support.traced import MESHES, inputs_of, lower, partition

import gspmd
from gspmd.examples import decoder_lm, mlp

BY_AXES = {"options": {"list_groups_up_to": 1}}
SMALL = {"model": 16, "heads": 4, "head_size": 4, "hidden": 32, "vocabulary": 32, "sequence": 8, "batch": 8}


@pytest.mark.parametrize("shardy", [True, False], ids=["sdy", "mhlo"])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("recipe", mlp.RECIPES)
def test_a_perceptron_learns_the_same(recipe: str, mesh: str, shardy: bool) -> None:
    config = mlp.Config(recipe=recipe)
    assert gspmd.check(lower(mlp, config, mesh, shardy), inputs=inputs_of(mlp, config))


@pytest.mark.parametrize("recipe", mlp.RECIPES)
def test_a_perceptron_learns_the_same_with_groups_by_axes(recipe: str) -> None:
    config = mlp.Config(recipe=recipe)
    text = lower(mlp, config, "2x2x2")
    assert gspmd.check(text, inputs=inputs_of(mlp, config), options=BY_AXES)


DECODERS = [
    ("2d", "8", False, False),
    ("2d", "4x2", True, True),
    ("2d", "2x2x2", False, True),
    ("dp", "8", True, True),
    ("dp", "4x2", False, False),
    ("dp", "2x2x2", False, True),
    ("fsdp", "8", False, True),
    ("fsdp", "4x2", True, False),
    ("fsdp", "2x2x2", False, True),
    ("tp", "8", False, True),
    ("tp", "4x2", False, False),
    ("tp", "2x2x2", True, True),
]


@pytest.mark.parametrize(("recipe", "mesh", "scan", "shardy"), DECODERS)
def test_a_decoder_learns_the_same(recipe: str, mesh: str, scan: bool, shardy: bool) -> None:
    config = decoder_lm.Config(recipe=recipe, scan=scan, layers=2 if scan else 1, **SMALL)
    assert gspmd.check(lower(decoder_lm, config, mesh, shardy), inputs=inputs_of(decoder_lm, config))


def test_a_decoder_learns_the_same_with_groups_by_axes() -> None:
    config = decoder_lm.Config(recipe="2d", layers=1, **SMALL)
    text = lower(decoder_lm, config, "4x2")
    assert gspmd.check(text, inputs=inputs_of(decoder_lm, config), options=BY_AXES)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("recipe", decoder_lm.RECIPES)
def test_both_annotation_families_give_the_same_communication(recipe: str, mesh: str) -> None:
    scan = (list(MESHES).index(mesh) + list(decoder_lm.RECIPES).index(recipe)) % 2 == 1
    config = decoder_lm.Config(recipe=recipe, scan=scan, layers=2, **SMALL)
    effort = "default" if mesh == "8" else "fast"  # what is read is the same if what follows from it is
    sdy, mhlo = (partition(decoder_lm, config, mesh, shardy, effort) for shardy in (True, False))
    assert [str(s.mhlo) for s in sdy.in_shardings] == [str(s.mhlo) for s in mhlo.in_shardings]
    assert [str(s.mhlo) for s in sdy.out_shardings] == [str(s.mhlo) for s in mhlo.out_shardings]
    what = [[(c.kind, c.bytes, c.count, c.location) for c in p.collectives] for p in (sdy, mhlo)]
    assert what[0] == what[1]

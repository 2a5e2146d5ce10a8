"""A search for a reshard that is given up takes the best it has found, which always leads to the target."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.random_shardings import random_sharding

import gspmd
from gspmd.checks.checking import check
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.paths.planner import Planner

MESH = Mesh((("a", 2), ("b", 2), ("c", 2)))


def cases(seed: int, count: int) -> Iterator[tuple[tuple[int, ...], TensorSharding, TensorSharding]]:
    rng = random.Random(seed)
    for _ in range(count):
        shape = tuple(rng.choice((6, 7, 8)) for _ in range(3))
        yield shape, random_sharding(rng, MESH, 3, unreduced=True), random_sharding(rng, MESH, 3)


@pytest.mark.parametrize("most", [1, 10, 40])
def test_a_path_that_is_given_up_leads_to_the_target(most: int) -> None:
    given_up = 0
    for shape, source, target in cases(most, 60):
        type_ = TensorType(shape, "f32")
        planners = (Planner(MESH, max_temporary_bytes=4096, max_moves=moves) for moves in (most, 10**6))
        path, best = (planner.plan(type_, source, target) for planner in planners)
        assert (path.steps[-1].after if path.steps else source) == (best.steps[-1].after if best.steps else source)
        assert path.time_s >= best.time_s * (1 - 1e-12)
        assert best.complete
        given_up += not path.complete
    assert given_up


PROGRAM = f"""sdy.mesh @mesh = {print_mesh(MESH)}
func.func public @main(
    %a: tensor<8x8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}, {{"b"}}, {{"c"}}]>}},
    %b: tensor<8x8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"c"}}, {{"a"}}, {{"b"}}]>}})
    -> (tensor<8x8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"b", "c"}}, {{}}, {{"a"}}]>}}) {{
  %0 = stablehlo.add %a, %b : tensor<8x8x8xf32>
  return %0 : tensor<8x8x8xf32>
}}
"""


def test_a_path_that_is_given_up_is_right_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    searched = {"max-temporary-bytes": 4096}  # without a limit, the best routes between few axes are known
    gspmd.partition(PROGRAM, options={"max-reshard-moves": 1, **searched})
    told = capsys.readouterr().err
    assert "remark: 'stablehlo.add' op uses the best path of a value" in told
    assert "found within 1 moves" in told
    gspmd.partition(PROGRAM, options=searched)
    assert "remark" not in capsys.readouterr().err
    assert check(PROGRAM, options={"options": {"max-reshard-moves": 1, **searched}})

"""The integer program finds what trying everything finds, and its bound is one; pipelines are proposed that win."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.rule import PASS_THROUGH, REDUCTION, OpShardingRule
from gspmd.plan_search.integer_program import GlobalView
from gspmd.plan_search.solver import LinearProgram, solve
from gspmd.plan_search.value_kinds import HeldMoment, KindsOfProgram, Step, StepUse, ValueKind
from gspmd.plan_search.ways import Way, Ways
from gspmd.transforms.machine.cost import Hardware, collective_time

HARDWARE = Hardware(link_bytes_per_s=1e9, collective_latency_s=1e-6, memory_bytes_per_s=1e11, flops_per_s=1e12)
MESH = Mesh((("x", 4), ("y", 2)), name="mesh")
LIMIT_S = 60.0


def use(position: int, kind: int, size: float, is_result: bool = False) -> StepUse:
    return StepUse(position, kind, is_result, runs=3.0, new_runs=3.0, total_bytes=3 * size)


def perceptron(batch: int, model: int, hidden: int) -> KindsOfProgram:
    """`h = x @ up; y = h @ down`, with `y` added to `x`, so that they are of one kind."""
    product = OpShardingRule(
        (batch, hidden, model), (((0,), (2,)), ((2,), (1,))), (((0,), (1,)),), (PASS_THROUGH, PASS_THROUGH, REDUCTION)
    )
    back = OpShardingRule(
        (batch, model, hidden), (((0,), (2,)), ((2,), (1,))), (((0,), (1,)),), (PASS_THROUGH, PASS_THROUGH, REDUCTION)
    )
    kinds = tuple(
        ValueKind(shape, (n, n + 1)) for n, shape in
        enumerate([(batch, model), (model, hidden), (batch, hidden), (hidden, model)])
    )  # fmt: skip
    x, up, h, down = (4.0 * math.prod(kind.shape) for kind in kinds)
    compute_s = 3 * 2.0 * batch * model * hidden / HARDWARE.flops_per_s
    steps = (
        Step(product, [use(0, 0, x), use(1, 1, up), use(2, 2, h, True)], True, compute_s),
        Step(back, [use(0, 2, h), use(1, 3, down), use(2, 0, x, True)], True, compute_s),
    )
    held = (HeldMoment({1: up, 3: down, 0: x}, 0.0, True), HeldMoment({1: up, 3: down, 0: x, 2: h}, 0.0))
    return KindsOfProgram(kinds, steps, {0: 1e-3}, held, {})


def cost_of(model: KindsOfProgram, ways: Ways, chosen: tuple[Way, ...]) -> float:
    """What a choice for the kinds costs: each step takes its best way."""
    total_s = sum(work_s / ways.split(chosen[kind]) for kind, work_s in model.work_s.items())
    for step in model.steps:
        total_s += min(run_of(step, ways, chosen, way) for way in ways.of_step(step))
    return total_s


def run_of(step: Step, ways: Ways, chosen: tuple[Way, ...], way: Way) -> float:
    time_s = ways.run_s(step, way)
    for each in step.uses:
        need, partial = ways.needed(step, each, way)
        have, want = (need, chosen[each.kind]) if each.is_result else (chosen[each.kind], need)
        time_s += each.runs * ways.move_s(each.bytes, have, partial, want)
    return time_s


def fits(model: KindsOfProgram, ways: Ways, chosen: tuple[Way, ...], most: float) -> bool:
    return all(
        sum(held / ways.split(chosen[kind]) for kind, held in moment.bytes.items()) <= most for moment in model.held
    )


@pytest.mark.parametrize("sizes", [(64, 128, 512), (4096, 128, 512), (16, 2048, 2048)])
@pytest.mark.parametrize("part", [1.0, 0.3, 0.15])
def test_it_finds_what_trying_everything_finds(sizes: tuple[int, int, int], part: float) -> None:
    model, ways = perceptron(*sizes), Ways(MESH, HARDWARE)
    most = part * sum(model.held[1].bytes.values())
    all_choices = itertools.product(*(ways.of_value(kind.shape) for kind in model.kinds))
    best = min(cost_of(model, ways, each) for each in all_choices if fits(model, ways, each, most))
    view = GlobalView(model, ways, {})
    found = view.choose(most, LIMIT_S)
    assert found is not None
    assert found.cost_s == pytest.approx(best, rel=2e-3)
    assert found.bound_s <= best * 1.0001
    chosen = tuple(found.ways[kind] for kind in range(len(model.kinds)))
    assert fits(model, ways, chosen, most * 1.0001)
    assert cost_of(model, ways, chosen) == pytest.approx(best, rel=2e-3)
    assert view.least_s(most, LIMIT_S) <= best
    assert view.cost_s(most, LIMIT_S) <= best * 1.0001


def test_given_ways_are_kept_and_too_little_memory_is_told() -> None:
    model, ways = perceptron(64, 128, 512), Ways(MESH, HARDWARE)
    found = GlobalView(model, ways, {1: (1, 0)}).choose(0.0, LIMIT_S)
    assert found is not None
    assert found.ways[1] == (1, 0)
    assert GlobalView(model, ways, {}).choose(1.0, LIMIT_S) is None
    assert GlobalView(model, ways, {}).cost_s(1.0, LIMIT_S) == math.inf


def test_moves() -> None:
    ways, whole = Ways(MESH, HARDWARE), (-1, -1)
    none = (False, False)
    assert ways.of_value((8, 3)) == [(-1, -1), (-1, 0), (0, -1), (0, 0)]
    assert ways.move_s(64.0, (0, -1), none, (0, -1)) == 0
    assert ways.move_s(64.0, whole, none, (0, 1)) == 0  # a slice
    x, y = MESH.axis("x"), MESH.axis("y")
    assert ways.move_s(64.0, (0, -1), none, whole) == collective_time("all_gather", 16.0, 4, HARDWARE, (x,))
    assert ways.move_s(64.0, (0, -1), none, (1, -1)) == collective_time("all_to_all", 16.0, 4, HARDWARE, (x,))
    both = collective_time("all_gather", 8.0, 8, HARDWARE, (x, y))
    assert ways.move_s(64.0, (0, 0), none, whole) == both
    apart = [collective_time("all_gather", local, n, HARDWARE) for local, n in ((8.0, 2), (16.0, 4))]
    assert ways.move_s(64.0, (0, 1), none, whole) == pytest.approx(sum(apart))
    summed = collective_time("reduce_scatter", 64.0, 4, HARDWARE, (x,))
    assert ways.move_s(64.0, whole, (True, False), (1, -1)) == summed
    assert ways.move_s(64.0, whole, (True, False), whole) == collective_time("all_reduce", 64.0, 4, HARDWARE, (x,))
    assert ways.way_of([["x"], [], ["y"]]) == (0, 2)
    assert ways.way_of([["z"]]) is None
    assert ways.dims((1, 1), 2) == ((), ("x", "y"))


def test_axes_are_grouped() -> None:
    mesh = Mesh((("a", 8), ("b", 2), ("c", 2), ("d", 4)), name="mesh")
    ways = Ways(mesh, HARDWARE, most=3)
    assert [[axis.name for axis in group] for group in ways.groups] == [["a"], ["b", "c"], ["d"]]
    assert (ways.is_grouped, Ways(mesh, HARDWARE).is_grouped) == (True, False)
    assert ways.dims((-1, 0, 1), 2) == (("b", "c"), ("d",))
    assert ways.way_of([["b", "c"], ["d"]]) == (-1, 0, 1)
    assert ways.way_of([["b"], ["c"]]) is None
    assert ways.split((-1, 0, 1)) == 16
    assert ways.of_value((4, 3)) == [(-1, -1, -1), (-1, -1, 0), (-1, 0, -1)]
    over = tuple(map(mesh.axis, ("b", "c")))
    assert ways.move_s(64.0, (-1, 0, -1), (False,) * 3, (-1, -1, -1)) == collective_time(
        "all_gather", 16.0, 4, HARDWARE, over
    )


def test_the_solver() -> None:
    program = LinearProgram()
    first, second = (program.column(cost, is_integer=True, most=1.0) for cost in (-3.0, -2.0))
    program.row(-math.inf, 1.5, [(first, 1.0), (second, 1.0)])
    whole, mixed = solve(program, LIMIT_S), solve(program, LIMIT_S, is_relaxed=True)
    assert (whole.cost, whole.values) == (-3.0, (1.0, 0.0))
    assert mixed.cost == mixed.bound == -4.0
    program.row(2.0, 2.0, [(first, 1.0), (second, 1.0)])
    none = solve(program, LIMIT_S)
    assert (none.values, none.is_possible) == ((), False)


# ---- whole programs ----


def residual(params: Any, x: Any) -> Any:
    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return x + jax.nn.relu(x @ w["up"]) @ w["down"], None

    return jnp.sum(jax.lax.scan(jax.checkpoint(layer), x, params)[0].astype(jnp.float32) ** 2)


def step(params: Any, x: Any) -> Any:
    grads = jax.grad(residual)(params, x)
    return jax.tree.map(lambda weight, grad: weight - 1e-3 * grad.astype(weight.dtype), params, grads)


def lowered(layers: int, batch: int, model: int, hidden: int) -> Any:
    def of(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16)

    weights = {"up": of(layers, model, hidden), "down": of(layers, hidden, model)}
    return jax.jit(step, donate_argnums=0).lower(weights, of(batch, model))


@pytest.mark.parametrize("target", ["", "tpu:v5e:2x4", "a100"])
@pytest.mark.parametrize("batch", [64, 16384])
def test_no_plan_is_below_the_bound(batch: int, target: str) -> None:
    mesh = {"x": 4, "y": 2}
    found = gspmd.search(lowered(4, batch, 512, 2048), mesh=mesh, target=target, solver="highs", time_limit_s=6)
    assert 0 < found.bound.seconds <= found.outcome.step_s
    assert found.bound.seconds <= min(outcome.step_s for outcome in found.baselines.values())
    assert found.outcome.step_s <= found.baselines["integer program"].step_s * 1.001
    assert found.pipelining is None


def test_many_axes_start_from_groups_of_them() -> None:
    mesh = {"a": 2, "b": 2, "c": 2, "d": 2}
    found = gspmd.search(lowered(2, 4096, 256, 1024), mesh=mesh, target="tpu-v5p", solver="highs", time_limit_s=20)
    assert "integer program" in found.baselines
    assert 0 < found.bound.seconds <= found.outcome.step_s <= found.baselines["integer program"].step_s * 1.001


def test_little_memory_splits_what_is_held() -> None:
    program, options = lowered(4, 4096, 512, 2048), {"mesh": {"x": 4, "y": 2}, "target": "tpu-v5p", "time_limit_s": 5}
    most = 1.1 * gspmd.search(program, solver="none", **options).baselines["fully sharded"].memory_bytes
    found = gspmd.search(program, memory=most, solver="highs", **options)
    assert found.outcome.memory_bytes <= most
    assert not found.baselines["data parallel"].fits


def test_a_pipeline_is_proposed_where_links_are_slow(tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text('like = "tpu-v5p"\n[network]\ntopology = "switch"\nbytes_per_s = 1e10\nlatency_s = 1e-6\n')
    program = lowered(16, 4096, 8192, 32768)
    found = gspmd.search(program, mesh={"x": 8}, target=str(slow), solver="highs", time_limit_s=20)
    proposed = found.pipelining
    assert proposed is not None
    assert proposed.step_s < found.outcome.step_s
    assert (proposed.layers, 16 % proposed.stages, 4096 % proposed.microbatches) == (16, 0, 0)
    assert proposed.mesh.size == 8
    assert proposed.idle == (proposed.stages - 1) / (proposed.microbatches + proposed.stages - 1)
    assert found.to_dict()["pipelining"]["stages"] == proposed.stages
    assert f"gspmd.pipeline(layers, num_stages={proposed.stages}" in " ".join(str(found).split())

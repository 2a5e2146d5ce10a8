"""Searches as one problem: bounds hold, memory has a price, roles lie alike, many axes are groups, pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.meshes import put_mesh
from gspmd.plan_search.plan_problem import PlanProblem
from gspmd.plan_search.pricing import PlanPrices, SearchSettings
from gspmd.reading import read_program
from gspmd.transforms.decide.objective import BYTES_ALONE
from gspmd.transforms.machine.cost import Hardware

TARGET = "tpu-v5p"
MESH = {"x": 4, "y": 2}


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


def problem_of(program: Any, mesh: dict[str, int]) -> tuple[PlanProblem, PlanPrices]:
    over, question = Mesh(tuple(mesh.items()), name="mesh"), SearchSettings(TARGET, 0, {"target": TARGET})
    module = read_program(program)
    put_mesh(module, over)
    problem = PlanProblem(module, over, question)
    return problem, PlanPrices(module, problem.roles, question)


def test_the_solution_is_proven_and_no_worse_than_one_that_is_forced() -> None:
    problem, _ = problem_of(lowered(4, 16384, 512, 2048), MESH)
    best = problem.choose()
    assert best.gap < 1e-3
    assert 0 < best.work_s < best.cost_s
    for number, role in enumerate(problem.roles.roles):
        if problem.is_open(number):
            forced = problem.choose(lambda each, sharding, role=role: each is not role or not sharding.used_axes())  # type: ignore[misc]
            assert forced.cost_s >= best.cost_s * (1 - 1e-3)
            assert forced.state[number] is not None
            assert not forced.state[number].used_axes()


@pytest.mark.parametrize(("price_s", "hardware"), [(0.0, BYTES_ALONE.hardware), (1e-5, None)])
def test_what_is_forbidden_is_not_bought(price_s: float, hardware: Hardware | None) -> None:
    """Whatever a role has to be, and however many bytes are sent or held for that: none is worth what is forbidden."""
    problem, _ = problem_of(lowered(4, 65536, 512, 2048), MESH)
    for number, role in enumerate(problem.roles.roles):
        for option in problem.options(number) if problem.is_open(number) else ():
            forced = problem.choose(
                lambda each, sharding, role=role, option=option: each is not role or sharding == option,  # type: ignore[misc]
                price_s,
                hardware,
            )
            assert forced.state[number] == option


def test_a_price_of_memory_holds_less() -> None:
    problem, prices = problem_of(lowered(4, 4096, 512, 2048), MESH)
    free = problem.choose()
    least = problem.choose_within(0.0)
    assert least.held_bytes < free.held_bytes
    between = problem.choose_within((least.held_bytes + free.held_bytes) / 2)
    assert least.held_bytes <= between.held_bytes <= (least.held_bytes + free.held_bytes) / 2
    assert free.cost_s <= between.cost_s <= least.cost_s
    held = [prices.price(choice.state) for choice in (least, free)]
    assert held[0] is not None
    assert held[1] is not None
    assert held[0].memory_bytes < held[1].memory_bytes


def test_what_becomes_an_argument_lies_as_it() -> None:
    """A step is a loop: an update is not left where it is summed if its weight lies elsewhere."""
    problem, prices = problem_of(lowered(2, 4096, 512, 2048), MESH)
    product = gspmd.partition(prices.annotated(problem.choose().state), target=TARGET)
    arguments, results = product.in_shardings, product.out_shardings
    assert [str(each) for each in arguments[:2]] == [str(each) for each in results]


@pytest.mark.parametrize("target", ["", "tpu:v5e:2x4", "a100"])
@pytest.mark.parametrize("batch", [64, 16384])
def test_no_plan_is_below_the_bound(batch: int, target: str) -> None:
    found = gspmd.search(lowered(4, batch, 512, 2048), mesh=MESH, target=target, time_limit_s=20)
    assert 0 < found.bound.seconds <= found.outcome.step_s
    assert found.bound.seconds <= min(outcome.step_s for outcome in found.baselines.values())
    assert found.gap < 1e-2
    assert found.pipelining is None or found.pipelining.step_s < found.outcome.step_s, "it is told where it pays"


def test_many_axes_are_decided_upon_in_groups() -> None:
    mesh = {"a": 2, "b": 2, "c": 2, "d": 2}
    found = gspmd.search(lowered(2, 4096, 256, 1024), mesh=mesh, target=TARGET, time_limit_s=20)
    assert dict(found.mesh.axes) == mesh
    assert 0 < found.bound.seconds <= found.outcome.step_s
    assert found.outcome.step_s <= min(outcome.step_s for outcome in found.baselines.values())
    used = {name for decision in found.decisions for names in decision.dims or () for name in names}
    assert used == set(mesh)


def test_little_memory_splits_what_is_held() -> None:
    program, options = lowered(4, 4096, 512, 2048), {"mesh": MESH, "target": TARGET}
    most = 1.1 * gspmd.search(program, **options).baselines["fully sharded"].memory_bytes
    found = gspmd.search(program, memory=most, **options)
    assert found.outcome.memory_bytes <= most
    assert not found.baselines["as it is"].fits


def test_a_pipeline_is_proposed_where_links_are_slow(tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text('like = "tpu-v5p"\n[network]\ntopology = "switch"\nbytes_per_s = 1e10\nlatency_s = 1e-6\n')
    program = lowered(16, 4096, 8192, 32768)
    found = gspmd.search(program, mesh={"x": 8}, target=str(slow), time_limit_s=20)
    proposed = found.pipelining
    assert proposed is not None
    assert proposed.step_s < found.outcome.step_s
    assert (proposed.layers, 16 % proposed.stages, 4096 % proposed.microbatches) == (16, 0, 0)
    assert proposed.mesh.size == 8
    assert proposed.idle == (proposed.stages - 1) / (proposed.microbatches + proposed.stages - 1)
    assert found.to_dict()["pipelining"]["stages"] == proposed.stages
    assert f"gspmd.pipeline(layers, num_stages={proposed.stages}" in " ".join(str(found).split())

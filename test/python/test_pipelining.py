"""Pipelines give what stages applied one after the other give, and send one microbatch a step to the next stage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import gspmd
from gspmd.frontend.pipelining import Position

MODEL, HIDDEN = 8, 16
TOLERANCE = 1e-5  # of gradients summed in another order, relative to the largest element; 4e-6 seen


def stage(params: Any, x: Any, split: str | None = None) -> Any:
    """A residual block on [batch, model]; `split` is the mesh axis of its hidden dimension."""
    hidden = jnp.tanh(x @ params["in"] + params["bias"])
    if split is not None:
        hidden = gspmd.annotate(hidden, gspmd.UNSPECIFIED, split)
    return x + hidden @ params["out"]


def stacked(lead: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"in": (MODEL, HIDDEN), "bias": (HIDDEN,), "out": (HIDDEN, MODEL)}
    return {name: 0.3 * rng.standard_normal((*lead, *shape), np.float32) for name, shape in shapes.items()}


def batch(size: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((size, MODEL), np.float32)


def one_by_one(lead: tuple[int, ...], params: Any, x: Any, factor: Any = 1) -> Any:
    """All stages on the whole batch, in the order in which they are stacked."""
    layers = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(lead) :]), params)
    return functools.reduce(
        lambda x, i: factor * stage(jax.tree.map(lambda leaf: leaf[i], layers), x), range(int(np.prod(lead))), x
    )


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The result's loss, and its gradients by parameters and input."""
    return jax.value_and_grad(lambda params, x: jnp.sum(jnp.sin(function(params, x))), argnums=(0, 1))


def assert_close(found: Any, expected: Any) -> None:
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert np.abs(got - wanted).max() <= TOLERANCE * max(np.abs(wanted).max(), 1)


SCHEDULES = {
    "one stage": ("gpipe", (1,), 3),
    "microbatches that stages do not divide": ("gpipe", (4,), 6),
    "fewer microbatches than stages": ("gpipe", (4,), 2),
    "circular": ("circular", (2, 3), 6),
    "circular, of one stage": ("circular", (3, 1), 2),
    "circular, the last group smaller": ("circular", (3, 2), 3),
    "circular, fewer microbatches than stages": ("circular", (2, 4), 3),
}


def of_schedule(name: str, rows: int = 2, **options: Any) -> tuple[Callable[..., Any], Any, Any, Callable[..., Any]]:
    """A pipeline, its parameters and input of so many rows in a microbatch, and the reference."""
    schedule, lead, microbatches = SCHEDULES[name]
    repeats = {"circular_repeats": lead[0]} if schedule == "circular" else {}
    chosen = options.pop("stage_fn", stage)
    made = gspmd.pipeline(chosen, lead[-1], microbatches, schedule=schedule, **repeats, **options)
    return made, stacked(lead), batch(rows * microbatches), functools.partial(one_by_one, lead)


@pytest.mark.parametrize("name", SCHEDULES)
def test_values_and_gradients_are_those_of_stages_one_by_one(name: str) -> None:
    pipelined, params, x, reference = of_schedule(name)
    assert_close(jax.jit(gradients(pipelined))(params, x), jax.jit(gradients(reference))(params, x))


@pytest.mark.parametrize(
    ("name", "remat"),
    [("one stage", True), ("circular, of one stage", jax.checkpoint_policies.dots_saveable)],
    ids=["all", "by policy"],
)
def test_stages_may_be_recomputed(name: str, remat: Any) -> None:
    pipelined, params, x, reference = of_schedule(name, remat=remat)
    assert_close(jax.jit(gradients(pipelined))(params, x), jax.jit(gradients(reference))(params, x))


def test_works_in_forward_mode_and_under_vmap() -> None:
    pipelined, params, x, reference = of_schedule("circular")

    def both(function: Any) -> Any:
        mapped = jax.vmap(function, (None, 0))(params, jnp.stack([x, x + 1]))
        return mapped, jax.jvp(function, (params, x), (params, x))

    assert_close(jax.jit(both, static_argnums=0)(pipelined), jax.jit(both, static_argnums=0)(reference))


def test_weights_of_a_repeat_are_not_kept_for_every_step() -> None:
    pipelined, params, x, _ = of_schedule("circular")
    (steps,) = {eqn.params["length"] for eqn in _scans(jax.make_jaxpr(pipelined)(params, x).jaxpr)}
    text = jax.jit(gradients(pipelined)).lower(params, x).as_text()
    assert f"tensor<{steps}x3x{MODEL}x{HIDDEN}xf32>" not in text


def _scans(jaxpr: Any) -> list[Any]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]


def test_microbatches_may_come_apart_and_be_trees() -> None:
    def both(params: Any, x: Any) -> Any:
        return {"value": stage(params, x["value"]), "tag": x["tag"] + 1}

    pipelined, params, x, reference = of_schedule("circular", stage_fn=both, microbatched=True)
    rows = x.reshape(6, 2, MODEL)
    found = pipelined(params, {"value": rows, "tag": np.arange(6)})
    assert_close(found["value"].reshape(x.shape), reference(params, x))
    np.testing.assert_array_equal(found["tag"], np.arange(6) + 6)


@pytest.mark.parametrize("name", ["circular, the last group smaller", "microbatches that stages do not divide"])
def test_stages_know_where_they_are_and_give_more_than_their_result(name: str) -> None:
    def told(params: Any, x: Any, position: Position, factor: Any) -> Any:
        return stage(params, x) * factor, {"busy": 1, "at": 100 * position.layer + position.microbatch}

    pipelined, params, x, reference = of_schedule(name, stage_fn=told, indexed=True, has_aux=True)
    _, lead, microbatches = SCHEDULES[name]
    result, sums = jax.jit(pipelined)(params, x, 1.0)
    np.testing.assert_array_equal(sums["busy"], np.full(lead, microbatches))
    layers = np.arange(np.prod(lead)).reshape(lead)
    np.testing.assert_array_equal(sums["at"], 100 * layers * microbatches + sum(range(microbatches)))
    assert_close(result, reference(params, x))
    found = jax.jit(jax.grad(lambda factor: jnp.sum(pipelined(params, x, factor)[0])))(1.0)
    assert_close(found, jax.jit(jax.grad(lambda factor: jnp.sum(reference(params, x, factor))))(1.0))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_bubble_is_the_share_of_calls_that_do_nothing_new(name: str) -> None:
    calls: list[tuple[int, int]] = []

    def counted(params: Any, x: Any, position: Position) -> Any:
        jax.debug.callback(lambda *at: calls.append(tuple(map(int, at))), position.layer, position.microbatch)
        return stage(params, x)

    pipelined, params, x, _ = of_schedule(name, stage_fn=counted, indexed=True)
    jax.block_until_ready(jax.jit(pipelined)(params, x))
    jax.effects_barrier()
    schedule, lead, microbatches = SCHEDULES[name]
    assert len(set(calls)) == np.prod(lead) * microbatches
    repeats = lead[0] if schedule == "circular" else 1
    ratio = gspmd.bubble_ratio(lead[-1], microbatches, schedule, repeats)
    assert ratio == pytest.approx(1 - len(set(calls)) / len(calls))


def test_bubbles_are_those_of_the_papers() -> None:
    assert gspmd.bubble_ratio(4, 12) == pytest.approx(3 / 15)
    assert gspmd.bubble_ratio(4, 12, "circular", 3) == pytest.approx(3 / 39)
    assert gspmd.bubble_ratio(1, 5) == 0


# ---- partitioned ----

MESH = {"stage": 4, "x": 2}


def stage_specs(lead: tuple[int, ...], split: str | None) -> dict[str, PartitionSpec]:
    first = (None,) * (len(lead) - 1)
    last = {"in": (None, split), "bias": (split,), "out": (split, None)}
    return {name: PartitionSpec(*first, "stage", *dims) for name, dims in last.items()}


def lower(name: str, split: str | None, derived: bool, mesh: dict[str, int] = MESH, rows: int = 2) -> tuple[Any, ...]:
    """A pipeline over `stage`, with the batch or, by `split`, every stage over x, and its reference and arguments."""
    inner = functools.partial(stage, split=split)
    pipelined, params, x, reference = of_schedule(name, rows, stage_fn=inner, axis="stage")
    specs = (stage_specs(SCHEDULES[name][1], split), PartitionSpec(None if split else "x"))
    of = gradients if derived else lambda f: f
    lowered = gspmd.jit(of(pipelined), mesh=mesh, in_shardings=specs).lower(params, x)
    return lowered, of(reference), params, x


def kinds(lowered: Any, in_loops: bool) -> dict[tuple[str, str], int]:
    """How many collectives of each kind and axis there are, each counted once, in loops or outside."""
    found: dict[tuple[str, str], int] = {}
    for each in lowered.partitioned.collectives:
        if (each.count != 1) == in_loops:
            key = (each.kind, each.axes.replace('"', ""))
            found[key] = found.get(key, 0) + 1
    return found


PERMUTE, OVER_X, OVER_STAGES = ("collective_permute", "stage"), ("all_reduce", "x"), ("all_reduce", "stage")
FOUR_STAGES = ["microbatches that stages do not divide", "circular, fewer microbatches than stages"]


@pytest.mark.parametrize(("name", "split"), [*zip(FOUR_STAGES, [None, "x"], strict=True)], ids=["gpipe", "circular"])
def test_forward_sends_one_microbatch_a_step(name: str, split: str | None) -> None:
    lowered, reference, params, x = lower(name, split, derived=False)
    assert kinds(lowered, in_loops=True) == {PERMUTE: 1} | ({OVER_X: 1} if split else {})
    assert kinds(lowered, in_loops=False) == {OVER_STAGES: 1}  # the results, which only the last stage has
    (permute,) = (each for each in lowered.partitioned.collectives if each.kind == "collective_permute")
    assert permute.bytes == 2 * MODEL * 4 // (1 if split else 2)
    assert_close(lowered.compile()(params, x), reference(params, x))


@pytest.mark.parametrize("split", [None, "x"], ids=["data", "tensor"])
@pytest.mark.parametrize("name", FOUR_STAGES)
def test_backward_sends_one_microbatch_a_step(name: str, split: str | None) -> None:
    # So many rows of data that computing them on every device would take longer than summing gradients.
    rows = 2 if split else 64
    lowered, reference, params, x = lower(name, split, derived=True, rows=rows)
    assert kinds(lowered, in_loops=True) == {PERMUTE: 2} | ({OVER_X: 2} if split else {})
    outside = {OVER_STAGES: 2}  # results, and gradients of the input, which only the first stage has
    if split is None:
        outside |= {OVER_X: len(params) + 1}  # gradients, and the loss, which all stages have
    assert kinds(lowered, in_loops=False) == outside
    sent = {each.bytes for each in lowered.partitioned.collectives if each.kind == "collective_permute"}
    assert sent == {rows * MODEL * 4 // (1 if split else 2)}
    assert_close(lowered.compile()(params, x), reference(params, x))


def test_what_follows_may_be_split_over_stages_too() -> None:
    pipelined, params, x, _ = of_schedule("microbatches that stages do not divide", axis="stage")
    size = 3840
    params, x = stacked((4,)), batch(size)

    def result(params: Any, x: Any) -> Any:
        return gspmd.annotate(pipelined(params, x), ("x", "stage"))

    specs = (stage_specs((4,), None), PartitionSpec("x"))
    lowered = gspmd.jit(gradients(result), mesh=MESH, in_shardings=specs).lower(params, x)
    assert kinds(lowered, in_loops=True) == {PERMUTE: 2}
    results = [each for each in lowered.partitioned.collectives if each.axes == '"stage"' and each.count == 1]
    # The whole result comes by an all-reduce, which sends as much as a reduce-scatter and an all-to-all back.
    assert [each.kind for each in results] == ["all_reduce", "all_reduce"]
    whole = size * MODEL * 4 // 2  # bytes of what a device would hold without this
    assert [each.bytes for each in results] == [6 * whole // 4, 6 * whole // 4]


def test_a_device_may_hold_several_stages_and_unevenly_many() -> None:
    lowered, reference, params, x = lower(FOUR_STAGES[0], None, derived=True, mesh={"stage": 3, "x": 2})
    assert kinds(lowered, in_loops=True).keys() == {PERMUTE}
    assert_close(lowered.compile()(params, x), reference(params, x))


# ---- refusals ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedule": "1f1b"}, r"there is no schedule '1f1b'; known ones are gpipe, circular"),
        ({"num_stages": 0}, r"num_stages is 0; expected an integer of at least 1"),
        ({"circular_repeats": 2}, r"in the schedule 'gpipe' each stage works only once; use schedule='circular'"),
        ({"stage_fn": "stage"}, r"'stage' is not a function"),
    ],
)
def test_a_pipeline_of_wrong_arguments_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(gspmd.UsageError, match=message):
        gspmd.pipeline(**{"stage_fn": stage, "num_stages": 2, "num_microbatches": 2} | arguments)


def test_what_does_not_fit_a_pipeline_is_refused() -> None:
    pipelined = gspmd.pipeline(stage, 2, 4)
    with pytest.raises(gspmd.UsageError, match=r"shape \(6, 8\) cannot be split into 4 microbatches"):
        pipelined(stacked((2,)), batch(6))
    with pytest.raises(gspmd.UsageError, match=r"'\['bias'\]' has shape \(3, 16\), expected to begin with \(2,\)"):
        pipelined(stacked((3,)), batch(8))
    with pytest.raises(gspmd.UsageError, match=r"'x' has no arrays"):
        pipelined(stacked((2,)), {})
    with pytest.raises(gspmd.UsageError, match=r"'train' is not an array"):
        pipelined(stacked((2,)), batch(8), "train")
    with pytest.raises(gspmd.UsageError, match=r"should begin with 4 microbatches"):
        gspmd.pipeline(stage, 2, 4, microbatched=True)(stacked((2,)), batch(8))
    with pytest.raises(gspmd.UsageError, match=r"a stage takes .* and gives .*the next stage takes the result"):
        gspmd.pipeline(lambda params, x: x[:, :1], 2, 4)(stacked((2,)), batch(8))
    with pytest.raises(gspmd.UsageError, match=r"with has_aux, a stage has to return a pair"):
        gspmd.pipeline(stage, 2, 4, has_aux=True)(stacked((2,)), batch(8))
    with pytest.raises(gspmd.UsageError, match=r"there is no mesh"):
        gspmd.pipeline(stage, 2, 4, axis="stage")(stacked((2,)), batch(8))
    with pytest.raises(gspmd.UsageError, match=r"circular_repeats, num_stages"):
        gspmd.pipeline(stage, 2, 4, schedule="circular", circular_repeats=3)(stacked((6,)), batch(8))

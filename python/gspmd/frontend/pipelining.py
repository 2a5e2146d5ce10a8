"""Pipeline parallelism as sharding: stages are a dimension, and a shifting buffer moves microbatches along it.

Source: GSPMD, arXiv 2105.04663, section 3.3: a vectorised stage function in a loop, with a shift by one stage per step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gspmd.dialect.errors import UsageError, shown
from gspmd.frontend.annotation import UNSPECIFIED, annotate
from gspmd.frontend.pipeline_schedule import PipelineSchedule, schedule_of

Tree = Any  # a pytree of arrays
Policy = Callable[..., Any]


class Position(NamedTuple):
    """The layer and the microbatch of a call of the stage function: int32 scalars, traced."""

    layer: Any  # repeat * num_stages + stage
    microbatch: Any


def pipeline(
    stage_fn: Callable[..., Any],
    num_stages: int,
    num_microbatches: int,
    *,
    schedule: str = "gpipe",
    circular_repeats: int = 1,
    axis: str | tuple[str, ...] | None = None,
    remat: bool | Policy = False,
    microbatched: bool = False,
    indexed: bool = False,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """A function `(stage_params, x, *shared) -> y` that applies all stages to each microbatch, as a pipeline.

    `stage_fn(params, x, *shared)` is one stage for one microbatch; its result has the shapes and dtypes of `x`.
    `stage_params` are the parameters of all stages, stacked over a leading dimension of `num_stages`. In the schedule
    "circular", every stage works `circular_repeats` times, and parameters are stacked over two dimensions,
    [circular_repeats, num_stages, ...], to which layers stacked in their order need only be reshaped. `x` and `y` are
    pytrees of [batch, ...]; example i is in microbatch i % num_microbatches, so that a batch that is split over devices
    is not resharded. With `microbatched`, both are [num_microbatches, ...]. `shared` are pytrees of arrays that every
    stage gets.

    `axis` is the mesh axis over which the stages are split: a step then sends one microbatch to the next stage by one
    collective-permute, and nothing else. Annotations inside `stage_fn` are those of one stage. Without an axis, or on
    one device, the function is a loop of vectorised stages.

    `remat` recomputes stages in the backward pass: True for all values, or a policy of `jax.checkpoint`. `indexed`
    calls `stage_fn(params, x, position, *shared)` with a `Position` of this module. With `has_aux`, `stage_fn` returns
    `(x, aux)`, and the result is `(y, auxes)`: sums over microbatches, with the leading dimensions of `stage_params`.
    An idle stage also works on some microbatch, but its result is not used.

    Errors: UsageError for an unknown schedule, numbers below 1, parameters whose leading dimensions do not fit, a batch
    that the microbatches do not divide, a stage that changes shapes; what `gspmd.annotate` raises for `axis`.
    """
    if not callable(stage_fn):
        raise UsageError(f"{shown(stage_fn)} is not a function")
    plan = schedule_of(num_stages, num_microbatches, schedule, circular_repeats)
    lead = (num_stages,) if schedule == "gpipe" else (circular_repeats, num_stages)
    stages = _Stages(stage_fn, plan, lead, axis, remat, indexed, has_aux)

    def pipelined(stage_params: Tree, x: Tree, *shared: Any) -> Any:
        stage_params, x, shared = jax.tree.map(_array, (stage_params, x, shared))
        _check_params(stage_params, lead)
        rows = x if microbatched else _split_batch(x, num_microbatches)
        _check_microbatches(rows, num_microbatches)
        y, aux = _run(stages, stage_params, rows, shared)
        y = y if microbatched else jax.tree.map(_join_batch, y)
        return (y, aux) if has_aux else y

    return pipelined


@dataclasses.dataclass(frozen=True)
class _Stages:
    """All stages at one step, vectorised. `lead` are the leading sizes of parameters."""

    function: Callable[..., Any]
    plan: PipelineSchedule
    lead: tuple[int, ...]
    axis: str | tuple[str, ...] | None
    remat: bool | Policy
    indexed: bool
    has_aux: bool

    def on_stages(self, tree: Tree, dim: int) -> Tree:
        """`tree`, annotated: dimension `dim` of its arrays is that of the stages."""
        if self.axis is None:
            return tree
        return jax.tree.map(lambda leaf: _annotated(leaf, self.axis, dim), tree)

    def each(self, tree: Tree, dim: int) -> Tree:
        """A copy of the tree for every stage, so that gradients are summed over stages once, after the loop."""
        copies = jax.tree.map(lambda leaf: jnp.repeat(jnp.expand_dims(leaf, dim), self.plan.stages, dim), tree)
        return self.on_stages(copies, dim)

    def __call__(self, params: Tree, state: Tree, step: Any, shared: Tree) -> tuple[Tree, Tree]:
        """The state [stages, ...] after a step, and the auxiliary results of the stages."""
        body = self._vectorised
        if self.remat or len(self.lead) > 1:
            body = jax.checkpoint(body, policy=self._policy(), prevent_cse=False)
        return body(params, state, step, shared)

    def _policy(self) -> Policy | None:
        """The values saved for the backward pass. Weights of a repeat are looked up again, not saved at every step."""
        if self.remat is True:
            return None
        allowed = self.remat or jax.checkpoint_policies.everything_saveable
        return lambda primitive, *args, **kwargs: primitive is not lax.gather_p and allowed(primitive, *args, **kwargs)

    def _vectorised(self, params: Tree, state: Tree, step: Any, shared: Tree) -> tuple[Tree, Tree]:
        slots = self.plan.at(step)
        if len(self.lead) > 1:
            params = jax.tree.map(lambda leaf: _of_repeat(leaf, slots.repeat), params)
        layer = slots.repeat * self.plan.stages + jnp.arange(self.plan.stages, dtype=jnp.int32)
        position = Position(layer, slots.microbatch)
        return jax.vmap(self._one, spmd_axis_name=self.axis)(params, state, position, shared)

    def _one(self, params: Tree, x: Tree, position: Position, shared: Tree) -> tuple[Tree, Tree]:
        found = self.function(params, x, *((position,) if self.indexed else ()), *shared)
        if self.has_aux and not (isinstance(found, tuple) and len(found) == 2):
            raise UsageError("with has_aux, a stage has to return a pair of its result and its auxiliary results")
        y, aux = found if self.has_aux else (found, ())
        given, made = jax.tree.map(jax.typeof, x), jax.tree.map(jax.typeof, y)
        if _kinds(given) != _kinds(made):
            raise UsageError(
                f"a stage takes {given} and gives {made}", hint="they have to be equal: the next stage takes the result"
            )
        return y, aux


def _run(stages: _Stages, params: Tree, x: Tree, shared: Tree) -> tuple[Tree, Tree]:
    """The loop. All stages have the input and output rows, [microbatches, ...]; the first reads, the last writes."""
    plan = stages.plan
    params = stages.on_stages(params, len(stages.lead) - 1)
    shared = stages.each(shared, 0)
    rows = stages.each(x, 1)
    # Idle stages start with a row that exists: a function that is undefined at zero would spoil gradients.
    state = jax.tree.map(lambda leaf: lax.stop_gradient(leaf[0]), rows)
    results = jax.tree.map(jnp.zeros_like, rows)
    _, auxes = jax.eval_shape(stages, params, state, jnp.int32(0), shared)
    sums = jax.tree.map(lambda aux: jnp.zeros((*stages.lead, *aux.shape[1:]), aux.dtype), auxes)

    def body(carry: Any, step: Any) -> Any:
        state, results, sums = carry
        slots = plan.at(step)
        state = jax.tree.map(lambda leaf, row: _shifted(leaf, row, slots, plan), state, rows)
        state, aux = stages(params, stages.on_stages(state, 0), step, shared)
        state = stages.on_stages(state, 0)
        # A row is written at every repeat, the last time with its result; only the last stage's column is read.
        results = jax.tree.map(
            lambda rows, row: lax.dynamic_update_index_in_dim(rows, row, slots.microbatch[-1], 0), results, state
        )
        sums = jax.tree.map(lambda total, value: _added(total, value, slots), sums, aux)
        return (state, results, sums), None

    steps = jnp.arange(plan.steps, dtype=jnp.int32)
    (_, results, sums), _ = lax.scan(body, (state, results, sums), steps)
    # Without this annotation, the sharding that the results have after the pipeline would enter its backward loop.
    return jax.tree.map(lambda leaf: leaf[:, -1], stages.on_stages(results, 1)), sums


def _shifted(state: Any, rows: Any, slots: Any, plan: PipelineSchedule) -> Any:
    """`state`, moved to the next stage; the first stage gets a new row, or the result of the last stage."""
    if plan.repeats == 1:
        moved = lax.pad(state, jnp.zeros((), state.dtype), ((1, -1, 0), *((0, 0, 0),) * (state.ndim - 1)))
    else:
        moved = jnp.roll(state, 1, axis=0)
    row = lax.dynamic_index_in_dim(rows, slots.microbatch[0], 0, keepdims=False)
    fresh = (jnp.arange(plan.stages) == 0) & (slots.repeat[0] == 0)
    return jnp.where(_spread(fresh, state.ndim), row, moved)


def _of_repeat(leaf: Any, repeat: Any) -> Any:
    """`leaf[repeat[s], s]` of every stage s, by a single operation, so that a policy can exclude its result."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, leaf.ndim - 1)),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        operand_batching_dims=(1,),
        start_indices_batching_dims=(0,),
    )
    sizes = (1, 1, *leaf.shape[2:])
    return lax.gather(leaf, repeat[:, None], numbers, sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _added(total: Any, value: Any, slots: Any) -> Any:
    """`total` plus `value` [stages, ...] of the busy stages; `total` may have a dimension of repeats, too."""
    busy, rank = slots.busy, value.ndim
    if total.ndim > value.ndim:
        busy = busy & (jnp.arange(total.shape[0])[:, None] == slots.repeat)
        rank = total.ndim
    return total + jnp.where(_spread(busy, rank), value, jnp.zeros((), value.dtype))


def _spread(mask: Any, rank: int) -> Any:
    return mask.reshape(*mask.shape, *(1,) * (rank - mask.ndim))


def _annotated(leaf: Any, axis: Any, dim: int) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    entries = [UNSPECIFIED] * leaf.ndim
    entries[dim] = axis
    return annotate(leaf, *entries)


def _array(leaf: Any) -> Any:
    try:
        return jnp.asarray(leaf)
    except TypeError:
        raise UsageError(f"{shown(leaf)} is not an array; a pipeline takes pytrees of arrays") from None


def _split_batch(x: Tree, microbatches: int) -> Tree:
    def split(leaf: Any) -> Any:
        if not leaf.ndim or leaf.shape[0] % microbatches:
            raise UsageError(
                f"a batch of shape {leaf.shape} cannot be split into {microbatches} microbatches",
                hint="the number of microbatches has to divide its first dimension",
            )
        # With the dimensions swapped, the devices over which a batch is split would have different microbatches.
        return leaf.reshape(leaf.shape[0] // microbatches, microbatches, *leaf.shape[1:]).swapaxes(0, 1)

    return jax.tree.map(split, x)


def _join_batch(leaf: Any) -> Any:
    return leaf.swapaxes(0, 1).reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:])


def _check_microbatches(x: Tree, microbatches: int) -> None:
    leaves = jax.tree.leaves(x)
    if not leaves:
        raise UsageError("'x' has no arrays, so the pipeline has no input")
    for leaf in leaves:
        if leaf.shape[:1] != (microbatches,):
            raise UsageError(f"'x' of shape {leaf.shape} should begin with {microbatches} microbatches")


def _check_params(params: Tree, lead: tuple[int, ...]) -> None:
    names = "[num_stages, ...]" if len(lead) == 1 else "[circular_repeats, num_stages, ...]"
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if leaf.shape[: len(lead)] != lead:
            raise UsageError(
                f"parameter '{jax.tree_util.keystr(path)}' has shape {leaf.shape}, expected to begin with {lead}",
                hint=f"stack the parameters of all stages as {names}",
            )


def _kinds(tree: Tree) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]

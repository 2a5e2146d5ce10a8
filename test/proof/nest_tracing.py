"""Made-up nests as functions of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

import gspmd
from proof.nest_operations import Value, Values, results_of
from proof.nests import RANKS, Block, Nest, Spec, Statement

Array = np.ndarray[Any, Any]


def arguments(nest: Nest, seed: int) -> list[Array]:
    """What a nest is called with."""
    rng = np.random.default_rng(seed)
    matrix = (nest.rows, nest.columns)
    return [
        np.asarray(rng.integers(-4, 9), np.int32),
        rng.integers(-4, 9, nest.rows, np.int32),
        rng.integers(-4, 9, matrix, np.int32),
        rng.random(matrix, np.float32),
    ]


def shardings(nest: Nest) -> tuple[PartitionSpec, ...]:
    """How the arguments are split."""
    assert len(nest.specs) == len(RANKS)
    return tuple(PartitionSpec(*(dim or None for dim in spec)) for spec in nest.specs)


def function(nest: Nest, partitioned: bool) -> Callable[..., tuple[Value, ...]]:
    """The nest, over its mesh or for one device."""
    tracer = _Tracer(dict(nest.mesh), partitioned)

    def run(*args: Value) -> tuple[Value, ...]:
        values = Values([jnp.asarray(arg) for arg in args])
        tracer.steps(nest.body, values)
        return tuple(values.all[-1 - use % len(values.all)] for use in nest.body.made)

    return run


class _Tracer:
    def __init__(self, mesh: dict[str, int], partitioned: bool) -> None:
        self.mesh, self.partitioned = mesh, partitioned

    def steps(self, block: Block, values: Values) -> None:
        for statement in block.statements:
            if statement.blocks:
                found = getattr(self, f"_{statement.kind}")(statement, values)
            else:
                found = results_of(statement.kind, values, statement.number, statement.uses)
                found = [self._annotate(value, statement.spec) for value in found]
            values.all.extend(found)

    def _annotate(self, value: Value, spec: Spec | None) -> Value:
        if spec is None or not self.partitioned or not value.ndim:
            return value
        return gspmd.annotate(value, *(dim or None for dim in spec[: value.ndim]))

    def carried(self, block: Block, values: Values) -> tuple[Value, ...]:
        return tuple(values.all[-1 - use % len(values.all)] for use in block.carried)

    def around(self, block: Block, values: Values, carry: Sequence[Value]) -> tuple[Value, ...]:
        """What the block makes of what it is given: values of the same kinds, its own, those given or those around."""
        inner = values.inner(carry)
        self.steps(block, inner)
        return tuple(inner.like(value, use) for value, use in zip(carry, block.made, strict=False))

    # ---- loops ----

    def _going_on(self, statement: Statement, values: Values, i: Value, carry: Sequence[Value]) -> Value:
        numbers = [value for value in carry if value.dtype == jnp.int32] or [values.numbers(statement.uses[0])]
        total = jnp.sum(numbers[statement.number % len(numbers)], dtype=jnp.int32)
        return (i < 1 + statement.number % 3) & values.alike((total & 7) != 0)

    def _while(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks

        def test(state: Any) -> Value:
            return self._going_on(statement, values, state[0], state[1])

        def body(state: Any) -> Any:
            return state[0] + 1, self.around(block, values, (state[0], *state[1]))[1:]

        start = jnp.int32(0), self.carried(block, values)
        return list(lax.while_loop(test, self._aligned(body, start), start)[1])

    def _aligned(self, body: Callable[[Any], Any], start: Any) -> Callable[[Any], Any]:
        """A body whose results are as many as it is given: what it leaves out stays."""

        def whole(state: Any) -> Any:
            i, made = body(state)
            return i, (*made, *state[1][len(made) :])

        return whole

    def _repeat(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        start = self.carried(block, values)

        def body(i: Value, carry: Any) -> Any:
            made = self.around(block, values.inner([i]), carry)
            return (*made, *carry[len(made) :])

        return list(lax.fori_loop(0, 1 + statement.number % 3, body, start))

    def _until_alike(self, statement: Statement, values: Values) -> list[Value]:
        """A loop whose condition has the block, and with it loops of its own."""
        (block,) = statement.blocks
        start = jnp.int32(0), self.carried(block, values)

        def test(state: Any) -> Value:
            made = self.around(block, values, state[1])
            return self._going_on(statement, values, state[0], made)

        def body(state: Any) -> Any:
            return state[0] + 1, tuple(v + 1 if v.dtype == jnp.int32 else v * 0.5 for v in state[1])

        return list(lax.while_loop(test, body, start)[1])

    def _scan(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        start = self.carried(block, values)
        rows = values.pick(statement.uses[0], lambda v: v.ndim == 2 and v.dtype == jnp.int32)

        def body(carry: Any, row: Value) -> Any:
            made = self.around(block, values.inner([row]), carry)
            return (*made, *carry[len(made) :]), made[0]

        last, stacked = lax.scan(body, start, rows if statement.number % 2 else rows[:3])
        return [*last, stacked] if stacked.ndim == 2 else list(last)

    def _vmapped_while(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        rows = values.pick(statement.uses[0], lambda v: v.ndim == 2 and v.dtype == jnp.int32)

        def of_row(row: Value) -> Value:
            def body(state: Any) -> Any:
                return state[0] + 1, self.around(block, values, (state[1],))[0]

            def test(state: Any) -> Value:
                return self._going_on(statement, values, state[0], (state[1],))

            return lax.while_loop(test, body, (jnp.int32(0), row))[1]

        return [jax.vmap(of_row)(rows)]

    def _rows(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        rows = values.pick(statement.uses[0], lambda v: v.ndim == 2 and v.dtype == jnp.int32)
        return [lax.map(lambda row: self.around(block, values, (row,))[0], rows)]

    # ---- branches and calls ----

    def _cond(self, statement: Statement, values: Values) -> list[Value]:
        first, second = statement.blocks
        carry = self.carried(first, values)
        flag = values.alike(values.scalar(statement.uses[0]) % 3 == statement.number % 3)
        return list(lax.cond(flag, self._branch(first, values), self._branch(second, values), *carry))

    def _branch(self, block: Block, values: Values) -> Callable[..., tuple[Value, ...]]:
        def run(*carry: Value) -> tuple[Value, ...]:
            made = self.around(block, values, carry)
            return (*made, *carry[len(made) :])

        return run

    def _switch(self, statement: Statement, values: Values) -> list[Value]:
        carry = self.carried(statement.blocks[0], values)
        branches = [self._branch(block, values) for block in statement.blocks]
        return list(lax.switch(values.scalar(statement.uses[0]) % 3, branches, *carry))

    def _call(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        return list(jax.jit(self._branch(block, values))(*self.carried(block, values)))

    def _remat(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        return list(jax.checkpoint(self._branch(block, values))(*self.carried(block, values)))

    def _gradient(self, statement: Statement, values: Values) -> list[Value]:
        (block,) = statement.blocks
        at = values.pick(statement.uses[0], lambda v: v.dtype == jnp.float32 and v.ndim == 2)
        loss = jax.checkpoint(lambda f: jnp.sum(self.around(block, values, (f,))[0]))
        return [jnp.tanh(jax.grad(loss)(at))]

    # ---- manual computations ----

    def _manual(self, statement: Statement, values: Values) -> list[Value]:
        """A shard_map over all axes or one, of what is around: split where that comes out even."""
        (block,) = statement.blocks
        free = [name for name in self.mesh if name not in values.manual]
        if not free or values.alone:
            return []
        axes = tuple(free) if statement.number % 2 else (free[statement.number // 2 % len(free)],)
        given = [*values.all[:3], *(v for v in values.all[3:][-6:] if v.dtype == jnp.int32)]
        size = int(np.prod([self.mesh[axis] for axis in axes]))
        specs = tuple(PartitionSpec(axes) if v.ndim and v.shape[0] % size == 0 else PartitionSpec() for v in given)

        def device(*parts: Value) -> tuple[Value, ...]:
            inner = Values(list(parts), (*values.manual, *axes))
            self.steps(block, inner)
            made = (inner.all[-1 - use % len(inner.all)] for use in block.made)
            return tuple(v if v.ndim else v[None] for v in made)

        if not self.partitioned:
            return list(self._emulated(device, axes, specs, given))
        mapped = jax.shard_map(
            device, in_specs=specs, out_specs=PartitionSpec(axes), axis_names=set(axes), check_vma=False
        )
        return list(mapped(*given))

    def _emulated(
        self, device: Callable[..., tuple[Value, ...]], axes: tuple[str, ...], specs: Sequence[Any], given: list[Value]
    ) -> tuple[Value, ...]:
        """A shard_map on one device: by vmap, whose axes collectives may name."""
        sizes = tuple(self.mesh[axis] for axis in axes)
        split = [bool(spec) for spec in specs]
        parts = [v.reshape(*sizes, -1, *v.shape[1:]) if s else v for v, s in zip(given, split, strict=True)]
        for axis in reversed(axes):
            device = jax.vmap(
                device, in_axes=tuple(0 if s else None for s in split), axis_name=axis, axis_size=self.mesh[axis]
            )
        return tuple(v.reshape(-1, *v.shape[len(axes) + 1 :]) for v in device(*parts))

    def _alone(self, statement: Statement, values: Values) -> list[Value]:
        """A loop that each device of a manual computation leaves when it is done."""
        (block,) = statement.blocks
        inner = Values(list(values.all), values.manual, alone=True)
        return self._while(statement, inner) if block.carried else []

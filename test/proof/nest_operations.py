"""What the leaves of made-up nests compute: on whole numbers, which are exact, and on floats that stay small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Value = Any  # a jax.Array, or a tracer of one
Leaf = Callable[["Values", int, "tuple[int, ...]"], "list[Value]"]


@dataclasses.dataclass(slots=True)
class Values:
    """The values that a block sees, the newest last, and the mesh axes that it is manual along."""

    all: list[Value]
    manual: tuple[str, ...] = ()
    alone: bool = False  # whether devices may be at different places, so that none may wait for another

    def inner(self, more: Sequence[Value] = ()) -> Values:
        return Values([*self.all, *map(jnp.asarray, more)], self.manual, self.alone)

    def pick(self, use: int, fits: Callable[[Value], bool]) -> Value:
        found = [value for value in reversed(self.all) if fits(value)]
        return found[use % len(found)]

    def scalar(self, use: int) -> Value:
        return self.pick(use, lambda v: v.ndim == 0 and v.dtype == jnp.int32)

    def numbers(self, use: int) -> Value:
        return self.pick(use, lambda v: v.ndim > 0 and v.dtype == jnp.int32)

    def floats(self, use: int) -> Value:
        return self.pick(use, lambda v: v.dtype == jnp.float32)

    def like(self, value: Value, use: int) -> Value:
        return self.pick(use, lambda v: v.shape == value.shape and v.dtype == value.dtype)

    def alike(self, flag: Value) -> Value:
        """Whether a flag is set anywhere, so that devices of a manual computation go the same way."""
        return lax.psum(flag.astype(jnp.int32), self.manual) > 0 if self.manual and not self.alone else flag


def results_of(kind: str, values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    """What a leaf computes."""
    return _LEAVES[kind](values, number, uses)


_LEAVES: dict[str, Leaf] = {}


def _leaf(function: Leaf) -> Leaf:
    _LEAVES[function.__name__[1:]] = function
    return function


def _pair(name: str, function: Callable[[Value, Value], Value]) -> None:
    """A leaf of two values alike."""

    def leaf(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
        v = values.numbers(uses[0])
        return [function(v, values.like(v, uses[1]))]

    _LEAVES[name] = leaf


def _one(name: str, function: Callable[[Value, int], Value]) -> None:
    """A leaf of one value that is no scalar."""
    _LEAVES[name] = lambda values, number, uses: [function(values.numbers(uses[0]), number)]


def _table(shape: tuple[int, ...], number: int) -> Value:
    return jnp.asarray((np.arange(np.prod(shape, dtype=int)) * 7 + number % 4) % 11, jnp.int32).reshape(shape)


def _iota(shape: tuple[int, ...], dim: int = -1) -> Value:
    return lax.broadcasted_iota(jnp.int32, shape, dim % len(shape))


_pair("add", jnp.add)
_pair("subtract", jnp.subtract)
_pair("multiply", jnp.multiply)
_pair("maximum", jnp.maximum)
_pair("sorted_by", lambda v, w: lax.sort((v, w), num_keys=1)[1])
_pair("scattered", lambda v, w: v.at[w[..., 0].ravel() % v.shape[0]].add(3))
_pair("look_up", lambda v, w: v[w.ravel()[: v.shape[0]] % v.shape[0]])
_pair("product", lambda v, w: v @ (v.T @ w) if v.ndim == 2 else v * jnp.sum(v * w).astype(jnp.int32))
_one("constant", lambda v, number: v * (number % 3) + number % 3)
_one("table", lambda v, number: v + _table(v.shape, number))
_one("iota", lambda v, number: _iota(v.shape, number))
_one("full", lambda v, number: jnp.full(v.shape, number % 3, jnp.int32))
_one("column", lambda v, number: v + (v[:, :1] if v.ndim == 2 else v[:1]))
_one("sum", lambda v, number: jnp.sum(v, None if number % 2 else -1, dtype=jnp.int32))
_one("largest", lambda v, number: jnp.max(v, None if number % 2 else -1))
_one("where_largest", lambda v, number: jnp.argmax(v, None if number % 2 else -1).astype(jnp.int32))
_one("sorted", lambda v, number: lax.sort(v, dimension=number % v.ndim))
_one("running", lambda v, number: lax.cumsum(v, number % v.ndim))
_one("reversed", lambda v, number: lax.rev(v, (number % v.ndim,)))
_one("rolled", lambda v, number: jnp.roll(v, number % 5, number % v.ndim))
_one("transposed", lambda v, number: v.T.reshape(v.shape))
_one("order_of_iota", lambda v, number: lax.sort((_table(v.shape, number), _iota(v.shape)), num_keys=1)[1])


def _top(v: Value, number: int) -> tuple[int, Value, Value]:
    k = 1 + number % min(3, v.shape[-1])
    return k, *lax.top_k(v, k)


_one("top_k_values", lambda v, number: v.at[..., : _top(v, number)[0]].set(_top(v, number)[1]))
_one("top_k_places", lambda v, number: v.at[..., : _top(v, number)[0]].add(_top(v, number)[2]))
_one("top_k_of_iota", lambda v, number: v + jnp.sum(_top(_table(v.shape, number), number)[2], -1, keepdims=True))


@_leaf
def _select(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    return [jnp.where(v > number % 5, values.like(v, uses[1]), values.like(v, uses[2]))]


@_leaf
def _spread(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    return [jnp.broadcast_to(values.scalar(uses[1]), values.numbers(uses[0]).shape)]


@_leaf
def _window(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    piece = lax.dynamic_slice_in_dim(v, values.scalar(uses[1]) % 5, 1 + number % v.shape[0])
    return [lax.dynamic_update_slice_in_dim(v, piece, values.scalar(uses[2]) % 3, 0)]


@_leaf
def _update(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    return [lax.dynamic_update_index_in_dim(v, values.like(v, uses[1])[0], values.scalar(uses[2]) % v.shape[0], 0)]


@_leaf
def _random(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    return [v + jax.random.randint(jax.random.key(values.scalar(uses[1])), v.shape, 0, 100, jnp.int32)]


@_leaf
def _random_bits(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    key = jax.random.key(values.scalar(uses[1]) if number % 2 else number, impl="rbg")
    return [jax.random.bits(key, v.shape).astype(jnp.int32)]


@_leaf
def _barrier(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v, w = values.numbers(uses[0]), values.all[-1 - uses[1] % len(values.all)]
    if w.dtype != jnp.int32:
        w = values.scalar(uses[1])
    found = lax.optimization_barrier((v, w, _iota(v.shape), jnp.int32(number)))
    return list(found)


@_leaf
def _count(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    return [values.scalar(uses[0]) + number % 3]


def _greater(a: Any, b: Any) -> tuple[Value, Value]:
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])


@_leaf
def _mixed(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    v = values.numbers(uses[0])
    starts = jnp.int32(-(2**31)), jnp.int32(2**31 - 1)
    both = lax.reduce((v, _iota(v.shape)), starts, _greater, (v.ndim - 1,))
    return list(both) if number % 2 else [both[1]]


@_leaf
def _mixed_sum(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    shape = values.numbers(uses[0]).shape
    starts = jnp.int32(-(2**31)), jnp.int32(2**31 - 1)
    return [lax.reduce((_table(shape, number), _iota(shape)), starts, _greater, tuple(range(len(shape))))[1]]


# ---- between devices ----


def _axis(values: Values, number: int) -> str:
    return values.manual[number % len(values.manual)]


@_leaf
def _all_summed(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    return [lax.psum(values.numbers(uses[0]), values.manual if number % 2 else _axis(values, number))]


@_leaf
def _all_gathered(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    gathered = lax.all_gather(values.numbers(uses[0]), _axis(values, number))
    return [gathered[0] - 2 * gathered[-1]]


@_leaf
def _passed_on(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    axis = _axis(values, number)
    size = lax.axis_size(axis)
    return [lax.ppermute(values.numbers(uses[0]), axis, [(i, (i + 1) % size) for i in range(size)])]


@_leaf
def _own_number(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    return [lax.axis_index(_axis(values, number)).astype(jnp.int32)]


@_leaf
def _summed_count(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    return [lax.psum(jnp.int32(number % 7), _axis(values, number)).astype(jnp.int32)]


# ---- floats ----


def _small(name: str, function: Callable[[Value, Value], Value]) -> None:
    """A leaf of two matrices of floats alike."""

    def leaf(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
        v = values.floats(uses[0])
        return [function(v, values.like(v, uses[1]))]

    _LEAVES[name] = leaf


_small("bounded", lambda v, w: jnp.tanh(v + 0.5 * w))
_small("scaled", lambda v, w: 0.5 * v + 0.25)
_small("float_top_k", lambda v, w: w.at[..., :2].set(lax.top_k(v, 2)[0]))
_small("float_product", lambda v, w: jnp.tanh(0.01 * (v @ (v.T @ w))))
_small("float_sum", lambda v, w: w + jnp.mean(v, 0, keepdims=True))
_small("soft", lambda v, w: jax.nn.softmax(v, -1) + w * 0.5)
_small("float_sorted", lambda v, w: lax.sort(v, dimension=0))


@_leaf
def _numbers(values: Values, number: int, uses: tuple[int, ...]) -> list[Value]:
    f = values.floats(uses[0])
    found = [v for v in reversed(values.all) if v.shape == f.shape and v.dtype == jnp.int32]
    return [f + (found[uses[1] % len(found)] % 16).astype(jnp.float32) / 16] if found else []

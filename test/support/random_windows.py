"""Random window operations, split at random, beside the same operation on one device.

`python test/support/random_windows.py --family convolution --count 500` runs many of one family.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import operator
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from gspmd.dialect.rule import NEED_REPLICATION
from support.single_op import MESHES, Array, check, rule_of

SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, its inputs, and what it computes where XLA on CPU is not to be relied on."""

    text: str
    inputs: list[Array]
    reference: Callable[..., list[Array]] | None = None


@dataclasses.dataclass(frozen=True)
class Moves:
    """The windows of one dimension."""

    size: int
    taps: int
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0
    spread: int = 1

    @property
    def places(self) -> int:
        return (self.size - 1) * self.spread + 1 if self.size else 0

    @property
    def count(self) -> int:
        places = self.places + self.low + self.high - (self.taps - 1) * self.dilation - 1
        return places // self.stride + 1 if places >= 0 else 0


def moves(rng: random.Random, *, dilations: bool = True, negative: bool = True, may_be_none: bool = True) -> Moves:
    """Windows of every kind: small, as large as the dimension, running, strided, spread, and larger than all places."""
    while True:
        size = rng.choice(SIZES)
        kind = rng.choice(["none", "small", "small", "large", "running", "whole"])
        if kind == "none":
            return Moves(size, 1)
        least = -2 if negative else 0
        stride = rng.choice([1, 1, 2, 3])
        dilation, spread = (rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 1, 2, 3])) if dilations else (1, 1)
        low, high = rng.randint(least, 3), rng.randint(least, 3)
        if kind == "running":
            taps = max(1, size) + rng.choice([0, 0, 0, 2])
            low, high = rng.choice([(taps - 1, 0), (0, taps - 1), (taps, -1), (-1, taps), (taps + 1, 2)])
            found = Moves(size, taps, rng.choice([1, 1, 1, 2]), 1, low, high)
        elif kind == "whole":
            found = Moves(size, max(1, size), 1, 1, 0, 0, 1)
        else:
            taps = rng.randint(1, 4) if kind == "small" else rng.randint(max(1, size - 3), max(1, size))
            found = Moves(size, taps, stride, dilation, low, high, spread)
        if (found.count or may_be_none) and found.count <= 40:
            return found


def shape_text(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def padding_text(dims: list[Moves]) -> str:
    return f"dense<{[[m.low, m.high] for m in dims]}> : tensor<{len(dims)}x2xi64>"


def array_text(values: list[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def numbers(rng: random.Random, shape: tuple[int, ...], dtype: str, low: int = -4, high: int = 5) -> Array:
    return np.random.default_rng(rng.randrange(2**32)).integers(low, high, shape).astype(dtype)


def body(element: str, operation: str) -> str:
    """A region of one operation, or of one that is not known as a reducer but is one."""
    scalar = f"tensor<{element}>"
    if operation == "custom":
        lines = f"%d = stablehlo.add %b, %a : {scalar}\n    %z = stablehlo.subtract %d, %a : {scalar}\n"
        lines += f"    %c = stablehlo.add %z, %a : {scalar}"
    else:
        lines = f"%c = stablehlo.{operation} %a, %b : {scalar}"
    return f"({{\n  ^bb0(%a: {scalar}, %b: {scalar}):\n    {lines}\n    stablehlo.return %c : {scalar}\n  }}"


TYPES = {"f32": "float32", "i32": "int32", "i8": "int8"}
START = {"add": 0, "custom": 0, "maximum": None, "minimum": None, "multiply": 1}


def start_of(rng: random.Random, reducer: str, element: str) -> Array:
    """Mostly the identity; sometimes another value of reducers that XLA and we know."""
    if reducer != "custom" and rng.random() < 0.2:
        return np.array(2, TYPES[element])
    known = START[reducer]
    if known is None:
        if element == "f32":
            return np.array(-np.inf if reducer == "maximum" else np.inf, np.float32)
        limits = np.iinfo(TYPES[element])
        return np.array(limits.min if reducer == "maximum" else limits.max, TYPES[element])
    return np.array(known, TYPES[element])


def reduce_window(rng: random.Random) -> Case:
    # XLA on CPU dies of single elements with negative padding.
    dims = [Moves(2, 1, low=-1)]
    while all(m.taps == 1 for m in dims) and any(m.low < 0 or m.high < 0 for m in dims):
        dims = [moves(rng) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        if len(dims) > 2:
            dims[0] = Moves(rng.choice([2, 5]), 1)
    shape, result = tuple(m.size for m in dims), tuple(m.count for m in dims)
    attributes = (
        f"window_dimensions = {array_text([m.taps for m in dims])}, window_strides = "
        f"{array_text([m.stride for m in dims])}, base_dilations = {array_text([m.spread for m in dims])}, "
        f"window_dilations = {array_text([m.dilation for m in dims])}, padding = {padding_text(dims)}"
    )
    if rng.random() < 0.15:
        return _largest(rng, shape, result, attributes)
    element, reducer = rng.choice(list(TYPES)), rng.choice(list(START))
    start = start_of(rng, reducer, element)
    if any(m.taps >= 16 for m in dims) and reducer not in ("maximum", "minimum"):
        # XLA makes running sums of parts, and counts the initial value for each.
        start = np.array(START[reducer], TYPES[element])
    x, s, r = (shape_text(t, element) for t in (shape, (), result))
    text = f"""
func.func public @main(%x: {x}, %init: {s}) -> {r} {{
  %0 = "stablehlo.reduce_window"(%x, %init) <{{{attributes}}}> {body(element, reducer)}) : ({x}, {s}) -> {r}
  return %0 : {r}
}}
"""
    few = (1, 3) if reducer == "multiply" else (-4, 5)
    return Case(text, [numbers(rng, shape, TYPES[element], *few), start])


def _largest(rng: random.Random, shape: tuple[int, ...], result: tuple[int, ...], attributes: str) -> Case:
    """The largest element of a window and what stands beside it; of equal ones the one with less beside it."""
    x, k, r, q = (
        shape_text(shape, "f32"),
        shape_text(shape, "i32"),
        shape_text(result, "f32"),
        shape_text(result, "i32"),
    )
    text = f"""
func.func public @main(%x: {x}, %k: {k}, %init: tensor<f32>, %none: tensor<i32>) -> ({r}, {q}) {{
  %0:2 = "stablehlo.reduce_window"(%x, %k, %init, %none) <{{{attributes}}}> ({{
  ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
    %gt = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %eq = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %lt = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tie = stablehlo.and %eq, %lt : tensor<i1>
    %p = stablehlo.or %gt, %tie : tensor<i1>
    %c = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
    %d = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %c, %d : tensor<f32>, tensor<i32>
  }}) : ({x}, {k}, tensor<f32>, tensor<i32>) -> ({r}, {q})
  return %0#0, %0#1 : {r}, {q}
}}
"""
    places = np.random.default_rng(rng.randrange(2**32)).permutation(int(np.prod(shape))).reshape(shape)
    starts = [np.array(-np.inf, np.float32), np.array(2**31 - 1, np.int32)]
    return Case(text, [numbers(rng, shape, "float32", 0, 3), places.astype(np.int32), *starts])


def select_and_scatter(rng: random.Random) -> Case:
    dims = []
    for _ in range(rng.choice([1, 1, 2, 2, 3])):
        m = moves(rng, dilations=False, negative=rng.random() < 0.5, may_be_none=False)
        # A window of nothing but padding selects nothing, which is undefined.
        while not m.size or m.low >= m.taps or (m.count - 1) * m.stride - m.low >= m.size:
            m = moves(rng, dilations=False, negative=rng.random() < 0.5, may_be_none=False)
        dims.append(m)
    if len(dims) > 2:
        dims[0] = Moves(rng.choice([2, 5]), 1)
    shape, result = tuple(m.size for m in dims), tuple(m.count for m in dims)
    element = rng.choice(list(TYPES) if np.prod(shape) < 256 else ["f32", "i32"])
    reducer, direction = rng.choice(["add", "add", *START]), rng.choice(["GE", "GT", "LE", "LT", "GE", "last"])
    x, y, s = (shape_text(t, element) for t in (shape, result, ()))
    select = f"%p = stablehlo.compare {direction}, %a, %b : ({s}, {s}) -> tensor<i1>"
    if direction == "last":
        select = "%p = stablehlo.constant dense<false> : tensor<i1>"
    text = f"""
func.func public @main(%x: {x}, %y: {y}, %init: {s}) -> {x} {{
  %0 = "stablehlo.select_and_scatter"(%x, %y, %init) <{{
    window_dimensions = {array_text([m.taps for m in dims])}, window_strides = {array_text([m.stride for m in dims])},
    padding = {padding_text(dims)}
  }}> ({{
  ^bb0(%a: {s}, %b: {s}):
    {select}
    stablehlo.return %p : tensor<i1>
  }}, {body(element, reducer).removeprefix("(")}) : ({x}, {y}, {s}) -> {x}
  return %0 : {x}
}}
"""
    dtype = TYPES[element]
    few = (1, 3) if reducer == "multiply" else (-4, 5)
    operand = numbers(rng, shape, dtype, 0, rng.choice([2, 9]))
    if sum(m.taps > 1 for m in dims) > 1:
        # Which of equal elements XLA finds first depends on the order that it puts dimensions in.
        places = np.random.default_rng(rng.randrange(2**32)).permutation(operand.size) - 128
        operand = places.reshape(shape).astype(dtype)
    elif not operand.size:
        pass
    elif element == "f32" and direction != "last" and rng.random() < 0.3:
        operand.flat[rng.randrange(operand.size)] = rng.choice([-np.inf, np.inf])
    elif element != "f32":
        operand.flat[rng.randrange(operand.size)] = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max])

    def reference(x: Array, y: Array, init: Array) -> list[Array]:
        return [scattered(x, y, init, dims, direction, reducer)]

    return Case(text, [operand, numbers(rng, result, dtype, *few), start_of(rng, reducer, element)], reference)


SELECTS: dict[str, Callable[[Any, Any], Any]] = {
    "GE": operator.ge, "GT": operator.gt, "LE": operator.le, "LT": operator.lt, "last": lambda a, b: False,
}  # fmt: skip
SCATTERS = {"add": np.add, "custom": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}


def scattered(x: Array, y: Array, init: Array, dims: list[Moves], select: str, scatter: str) -> Array:
    """What select_and_scatter makes, window by window."""
    result = np.full_like(x, init)
    for window in np.ndindex(*y.shape):
        starts = [i * m.stride - m.low for i, m in zip(window, dims, strict=True)]
        ranges = [
            range(max(a, 0), min(a + m.taps * m.dilation, m.size), m.dilation)
            for a, m in zip(starts, dims, strict=True)
        ]
        chosen: tuple[int, ...] | None = None
        for place in itertools.product(*ranges):
            if chosen is None or not SELECTS[select](x[chosen], x[place]):
                chosen = place
        assert chosen is not None
        with np.errstate(over="ignore"):
            result[chosen] = SCATTERS[scatter](result[chosen], y[window])
    return result


def convolution(rng: random.Random) -> Case:
    rank = rng.choice([1, 1, 2, 2, 3])
    dims = [moves(rng) for _ in range(rank)]
    if rank == 3:
        dims[rng.randrange(3)] = Moves(rng.choice([1, 3]), 1)
    feature_groups = rng.choice([1, 1, 2, 3, 4])
    batch_groups = rng.choice([1, 2, 3, 4]) if feature_groups == 1 and rng.random() < 0.5 else 1
    batch = rng.choice([1, 2, 3, 4])
    inputs, outputs = rng.choice([1, 2, 3, 4, 5]), rng.choice([1, 2, 3, 4, 5]) * feature_groups * batch_groups
    lhs = [batch * batch_groups, inputs * feature_groups, *(m.size for m in dims)]
    rhs = [inputs, outputs, *(m.taps for m in dims)]
    result = [batch, outputs, *(m.count for m in dims)]
    spatial = [str(d) for d in range(rank)]
    layouts, shapes, orders = [], [], []
    for names, shape in ((["b", "f"], lhs), (["i", "o"], rhs), (["b", "f"], result)):
        order = list(range(rank + 2))
        rng.shuffle(order)
        orders.append(order)
        letters = [*names, *spatial]
        layouts.append(f"[{', '.join(letters[i] for i in order)}]")
        shapes.append(tuple(shape[i] for i in order))
    reversal = [rng.random() < 0.2 for _ in dims]
    x, k, r = (shape_text(s, "f32") for s in shapes)
    text = f"""
func.func public @main(%x: {x}, %k: {k}) -> {r} {{
  %0 = "stablehlo.convolution"(%x, %k) <{{
    dimension_numbers = #stablehlo.conv<{layouts[0]}x{layouts[1]}->{layouts[2]}>,
    window_strides = {array_text([m.stride for m in dims])}, padding = {padding_text(dims)},
    lhs_dilation = {array_text([m.spread for m in dims])}, rhs_dilation = {array_text([m.dilation for m in dims])},
    window_reversal = array<i1: {", ".join(str(b).lower() for b in reversal)}>,
    feature_group_count = {feature_groups} : i64, batch_group_count = {batch_groups} : i64
  }}> : ({x}, {k}) -> {r}
  return %0 : {r}
}}
"""

    def reference(x: Array, k: Array) -> list[Array]:
        x, k = x.transpose(np.argsort(orders[0])), k.transpose(np.argsort(orders[1]))
        for d, is_reversed in enumerate(reversal):
            k = np.flip(k, d + 2) if is_reversed else k
        return [convolved(x, k, dims, feature_groups, batch_groups).transpose(orders[2])]

    return Case(text, [numbers(rng, shape, "float32") for shape in shapes[:2]], reference)


def convolved(x: Array, k: Array, dims: list[Moves], feature_groups: int, batch_groups: int) -> Array:
    """The convolution of [batch, features, ...] with [features in, features out, ...]."""
    for d, m in enumerate(dims, start=2):
        spread = np.zeros((*x.shape[:d], m.places, *x.shape[d + 1 :]), x.dtype)
        spread[(slice(None),) * d + (slice(None, None, m.spread),)] = x
        margins = [
            (max(n, 0), max(o, 0)) if e == d else (0, 0) for e, n, o in ((e, m.low, m.high) for e in range(x.ndim))
        ]
        end = spread.shape[d] + max(m.low, 0) + m.high if m.high < 0 else None
        x = np.pad(spread, margins)[(slice(None),) * d + (slice(max(-m.low, 0), end),)]
    groups = max(feature_groups, batch_groups)
    lhs = np.split(x, groups, axis=1 if feature_groups > 1 else 0)
    parts = []
    for part, kernel in zip(lhs, np.split(k, groups, axis=1), strict=True):
        total = np.zeros((part.shape[0], kernel.shape[1], *(m.count for m in dims)), x.dtype)
        for taps in np.ndindex(*(m.taps for m in dims)) if total.size else ():
            places = tuple(
                slice(q * m.dilation, q * m.dilation + (m.count - 1) * m.stride + 1, m.stride)
                for q, m in zip(taps, dims, strict=True)
            )
            total += np.einsum("bi...,io->bo...", part[(..., *places)], kernel[(..., *taps)])
        parts.append(total)
    return np.concatenate(parts, axis=1)


FAMILIES: dict[str, Callable[[random.Random], Case]] = {
    "convolution": convolution,
    "reduce_window": reduce_window,
    "select_and_scatter": select_and_scatter,
}


def run(family: str, seed: int, count: int = 2) -> bool:
    """Check one case; False when nothing of it can be split. Raises AssertionError."""
    rng = random.Random(f"{family} {seed}")
    case = FAMILIES[family](rng)
    rule = rule_of(case.text)
    if all(kind is NEED_REPLICATION or size == 1 for kind, size in zip(rule.kinds, rule.sizes, strict=True)):
        return False
    check(case.text, case.inputs, MESHES[rng.choice(list(MESHES))], count=count, seed=seed, reference=case.reference)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=list(FAMILIES), action="append", help="(default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=100, help="number of cases of a family (default: 100)")
    args = parser.parse_args()
    failed = 0
    for family in args.family or FAMILIES:
        started, ran, wrong = time.perf_counter(), 0, 0
        for seed in range(args.seed, args.seed + args.count):
            try:
                ran += run(family, seed)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                wrong += 1
                print(f"// {family} {seed}: {type(error).__name__} {str(error)[:1500]}\n// -----", flush=True)
        failed += wrong
        print(f"// {family}: {wrong} of {ran + wrong} wrong; {time.perf_counter() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

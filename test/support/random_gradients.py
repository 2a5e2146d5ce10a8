"""Convolutions and pooling with their gradients, as JAX writes them, split at random through the whole pipeline.

`python test/support/random_gradients.py --count 500` checks many.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import gspmd

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# Meshes, and which axes a dimension may be split over.
MESHES = {
    "a": ('["x"=8]', (("x",),)),
    "b": ('["x"=4, "y"=2]', (("x",), ("y",), ("x", "y"), ("y", "x"))),
    "c": ('["x"=3, "y"=2], device_ids=[4, 1, 3, 0, 5, 2]', (("x",), ("y",), ("x", "y"))),
}


def convolution(rng: random.Random) -> tuple[Function, list[Shape]]:
    """A convolution and its gradients by both sides."""
    rank = rng.choice([1, 2, 2])
    groups, batch_groups = rng.choice([(1, 1), (1, 1), (2, 1), (4, 1), (1, 2), (1, 4)])
    dims = []
    for _ in range(rank):
        size, taps = rng.choice([5, 8, 9, 12, 16]), rng.choice([1, 2, 3, 3, 4])
        padding = (rng.randint(-1, 2), rng.randint(-1, 2))
        stride, dilation, spread = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2]), rng.choice([1, 1, 1, 2])
        if (size - 1) * spread + sum(padding) < (taps - 1) * dilation:
            taps = 1
        dims.append((size, taps, padding, stride, dilation, spread))
    features, outputs = rng.choice([1, 2, 3]), rng.choice([1, 2, 3]) * groups * batch_groups
    lhs = (rng.choice([1, 2, 3]) * batch_groups, features * groups, *(d[0] for d in dims))
    rhs = (outputs, features, *(d[1] for d in dims))

    def apply(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            k,
            window_strides=[d[3] for d in dims],
            padding=[d[2] for d in dims],
            lhs_dilation=[d[5] for d in dims],
            rhs_dilation=[d[4] for d in dims],
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )

    def with_gradients(x: Any, k: Any, g: Any) -> Any:
        y, pull = jax.vjp(apply, x, k)
        return (y, *pull(g))

    made = jax.eval_shape(apply, *(jax.ShapeDtypeStruct(s, jnp.float32) for s in (lhs, rhs))).shape
    return with_gradients, [lhs, rhs, made]


def pooling(rng: random.Random) -> tuple[Function, list[Shape]]:
    """Pooling by maximum, minimum or sum, and its gradient."""
    rank = rng.choice([1, 2, 2])
    shape = (rng.choice([2, 3]), *(rng.choice([5, 8, 9, 12, 16]) for _ in range(rank)))
    taps = (1, *(rng.choice([1, 2, 3, 4]) for _ in range(rank)))
    strides = (1, *(rng.choice([1, 2, 3]) for _ in range(rank)))
    padding = ((0, 0), *((rng.randrange(n), rng.randrange(n)) for n in taps[1:]))
    reducer, start = rng.choice([(lax.max, -np.inf), (lax.max, -np.inf), (lax.min, np.inf), (lax.add, 0.0)])

    def apply(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(start), reducer, taps, strides, padding)

    def with_gradients(x: Any, g: Any) -> Any:
        y, pull = jax.vjp(apply, x)
        return (y, *pull(g))

    made = jax.eval_shape(apply, jax.ShapeDtypeStruct(shape, jnp.float32)).shape
    return with_gradients, [shape, made]


def running(rng: random.Random) -> tuple[Function, list[Shape]]:
    """A cumulative sum or maximum and its gradient."""
    shape = (rng.choice([2, 3]), rng.choice([5, 8, 9, 12, 16, 17]))
    of, backwards = rng.choice([lax.cumsum, lax.cumsum, lax.cummax]), rng.random() < 0.5

    def with_gradients(x: Any, g: Any) -> Any:
        y, pull = jax.vjp(lambda v: of(v, axis=1, reverse=backwards), x)
        return (y, *pull(g)) if of is lax.cumsum else (y,)

    return with_gradients, [shape, shape]


FAMILIES: dict[str, Callable[[random.Random], tuple[Function, list[Shape]]]] = {
    "convolution": convolution,
    "pooling": pooling,
    "running": running,
}


def annotated(function: Function, shapes: list[Shape], rng: random.Random) -> str:
    """The function as JAX writes it for TPUs, where running sums are windows, with random annotations."""
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    text = jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()
    mesh, choices = MESHES[rng.choice(list(MESHES))]

    def sharding(rank: int) -> str:
        free, dims = {"x", "y"}, []
        for _ in range(rank):
            able = [axes for axes in choices if free.issuperset(axes)]
            axes = rng.choice(able) if able and rng.random() < 0.4 else ()
            free -= set(axes)
            dims.append("{" + (", ".join(f'"{axis}"' for axis in axes) or "?") + "}")
        return f"#sdy.sharding<@mesh, [{', '.join(dims)}]>"

    def annotate(match: re.Match[str]) -> str:
        """Another attribute of the argument or result whose type and attributes these are."""
        kind, rest = match[1], match[2] or "}"
        if rng.random() < 0.3:
            return match[0]
        given = f"sdy.sharding = {sharding(kind.count('x'))}"
        return f"tensor<{kind}> {{{given}{'' if rest == '}' else ', '}{rest}"

    before, main, after = text.partition("func.func public @main")
    signature, brace, body = after.partition(" {\n")
    signature = re.sub(r"tensor<([^>]*)>(?: \{([^}]*\}))?", annotate, signature)
    before = re.sub(r" attributes \{[^}]*\}", "", before)
    before = before.replace("{\n", f"{{\n  sdy.mesh @mesh = <{mesh}>\n", 1)
    return before + main + signature + brace + body


def run(family: str, seed: int) -> str:
    """What is wrong with one case, "" if nothing is."""
    rng = random.Random(f"{family} {seed}")
    function, shapes = FAMILIES[family](rng)
    text = annotated(function, shapes, rng)
    numbers = np.random.default_rng(seed)
    inputs = [numbers.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    if family == "pooling":
        # Which of equal elements of a window XLA finds first depends on the order that it puts dimensions in.
        inputs[0] = numbers.permutation(inputs[0].size).reshape(shapes[0]).astype(np.float32)
    report = gspmd.check(text, inputs=inputs, rtol=0, atol=0)
    wrong = "; ".join(f"result {r.index}: {r.reason}" for r in report.results if not r.passed)
    return f"{wrong}\n{text}" if wrong else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=list(FAMILIES), action="append", help="(default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=50, help="number of cases of a family (default: 50)")
    args = parser.parse_args()
    failed = 0
    for family in args.family or FAMILIES:
        started, wrong = time.perf_counter(), 0
        for seed in range(args.seed, args.seed + args.count):
            found = run(family, seed)
            if found:
                wrong += 1
                print(f"// {family} {seed}: {found}\n// -----", flush=True)
        failed += wrong
        print(f"// {family}: {wrong} of {args.count} wrong; {time.perf_counter() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

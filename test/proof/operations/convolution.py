"""convolution: strides, dilations, padding, reversal, groups, and dimensions in any order."""

from __future__ import annotations

from proof.operations.slicing import integers
from proof.operations.windows import Window
from proof.program import Shape
from proof.writer import Writer


def convolution(w: Writer) -> None:
    rng = w.rng
    spatial = rng.choice([0, 1, 1, 1, 2, 2])
    groups, batch_groups = rng.choice([(1, 1), (1, 1), (1, 1), (2, 1), (4, 1), (1, 2), (1, 3)])
    windows = [_window(w) for _ in range(spatial)]
    sizes = [rng.choice([1, 2, 4, 5, 7, 8, 9, 12]) for _ in range(spatial)]
    counts = [v.count(n) for v, n in zip(windows, sizes, strict=True)]
    if spatial == 2:
        sizes = [min(n, 8) for n in sizes]
        counts = [v.count(n) for v, n in zip(windows, sizes, strict=True)]
    batch = batch_groups * rng.choice([1, 2, 3, 4])
    per_group = rng.choice([1, 2, 3, 4])
    out = groups * batch_groups * rng.choice([1, 2, 3])
    orders = [rng.sample(range(spatial + 2), spatial + 2) for _ in range(3)]
    element = rng.choice(["f32", "f32", "f32", "f64", "i32", "bf16"])
    a = w.of(_placed(orders[0], batch, groups * per_group, sizes), element)
    k = w.of(_placed(orders[1], per_group, out, [v.size for v in windows]), element)
    result = _placed(orders[2], batch // batch_groups, out, counts)
    reversal = [rng.random() < 0.2 for _ in windows]
    names = [_names(order, letters) for order, letters in zip(orders, ("bf", "io", "bf"), strict=True)]
    pads = ", ".join(f"[{v.low}, {v.high}]" for v in windows)
    attributes = (
        f"dimension_numbers = #stablehlo.conv<[{names[0]}]x[{names[1]}]->[{names[2]}]>, "
        f"feature_group_count = {groups} : i64, batch_group_count = {batch_groups} : i64, "
        f"window_strides = {integers([v.stride for v in windows])}, "
        f"lhs_dilation = {integers([v.base for v in windows])}, "
        f"rhs_dilation = {integers([v.dilation for v in windows])}"
    )
    if windows:
        attributes += f", padding = dense<[{pads}]> : tensor<{spatial}x2xi64>"
        attributes += f", window_reversal = array<i1: {', '.join(str(r).lower() for r in reversal)}>"
    terms = per_group
    for v in windows:
        terms *= v.size
    w.op("stablehlo.convolution", (a, k), [(result, element)], attributes, bound=a.bound * k.bound * terms)


def _window(w: Writer) -> Window:
    rng = w.rng
    size = rng.choice([1, 2, 3, 3, 4, 5, 7])
    low, high = rng.choice([(0, 0), (1, 1), (size - 1, size - 1), (size // 2, size // 2), (2, 0), (0, 3), (-1, 1)])
    return Window(
        size, rng.choice([1, 1, 1, 2, 3]), low, high, rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 1, 2, 3])
    )


def _placed(order: list[int], first: int, second: int, rest: list[int]) -> Shape:
    """Batch, feature and spatial sizes at the places that `order` gives them."""
    values = [first, second, *rest]
    shape = [0] * len(order)
    for value, place in zip(values, order, strict=True):
        shape[place] = value
    return tuple(shape)


def _names(order: list[int], letters: str) -> str:
    found = [""] * len(order)
    for name, place in zip([*letters, *map(str, range(len(order) - 2))], order, strict=True):
        found[place] = name
    return ", ".join(found)


CONVOLUTION = (convolution,)

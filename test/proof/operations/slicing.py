"""slice, pad, concatenate, reverse."""

from __future__ import annotations

from proof.program import Value
from proof.writer import ANY, MAX_ELEMENTS, Writer

PADDINGS = ((0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 1), (2, 1, 2), (-1, 0, 0), (0, -1, 0), (-2, 3, 0),
            (3, -2, 1), (9, 0, 0), (0, 9, 0), (-1, -1, 1))  # fmt: skip


def integers(values: list[int] | tuple[int, ...]) -> str:
    """An attribute that lists numbers."""
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


def cut(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    starts, limits, strides, shape = [], [], [], []
    for n in a.shape:
        start = w.rng.choice([0, 0, w.rng.randint(0, n)])
        limit = w.rng.choice([n, n, w.rng.randint(start, n)])
        stride = w.rng.choice([1, 1, 1, 2, 3, 5])
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        shape.append(-(-(limit - start) // stride))
    attributes = (
        f"start_indices = {integers(starts)}, limit_indices = {integers(limits)}, strides = {integers(strides)}"
    )
    w.op("stablehlo.slice", (a,), [(tuple(shape), a.element)], attributes)


def pad(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    fill = w.of((), a.element, "hostile")
    low, high, interior, shape = [], [], [], []
    for n in a.shape:
        padding = w.rng.choice(PADDINGS)
        inside = n + max(n - 1, 0) * padding[2]
        if inside + padding[0] + padding[1] < 0 or w.rng.random() < 0.3:
            padding, inside = (0, 0, 0), n
        for amounts, amount in zip((low, high, interior), padding, strict=True):
            amounts.append(amount)
        shape.append(inside + padding[0] + padding[1])
    attributes = (
        f"edge_padding_low = {integers(low)}, edge_padding_high = {integers(high)}, "
        f"interior_padding = {integers(interior)}"
    )
    if Value("", tuple(shape)).size <= MAX_ELEMENTS:
        w.op("stablehlo.pad", (a, fill), [(tuple(shape), a.element)], attributes)


def concatenate(w: Writer) -> None:
    first = w.tensor(ANY, least=1, content="hostile")
    dim = w.rng.randrange(len(first.shape))
    parts = [first]
    for _ in range(w.rng.randint(0, 2)):
        size = w.rng.choice([first.shape[dim], 0, 1, 2, 5, 8])
        shape = (*first.shape[:dim], size, *first.shape[dim + 1 :])
        parts.append(first if w.rng.random() < 0.1 else w.of(shape, first.element, "hostile"))
    w.rng.shuffle(parts)
    shape = (*first.shape[:dim], sum(p.shape[dim] for p in parts), *first.shape[dim + 1 :])
    w.op("stablehlo.concatenate", parts, [(shape, first.element)], f"dimension = {dim} : i64")


def reverse(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    dims = sorted(w.rng.sample(range(len(a.shape)), w.rng.randint(1, len(a.shape))))
    w.op("stablehlo.reverse", (a,), [(a.shape, a.element)], f"dimensions = {integers(dims)}")


SLICING = (cut, pad, concatenate, reverse)

"""gather and scatter in all their forms: batching, collapsed and window dimensions, index vectors anywhere."""

from __future__ import annotations

import dataclasses

from proof.operations.bodies import body, updating
from proof.operations.slicing import integers
from proof.program import INEXACT, Shape, Value
from proof.writer import ANY, INTEGERS, MAX_ELEMENTS, Writer


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Dimension numbers of a gather from `operand`, or of a scatter into it."""

    operand: Shape
    batching: list[int]
    collapsed: list[int]
    index_map: list[int]
    sizes: Shape
    indices: Shape
    indices_batching: list[int]
    vector_dim: int
    offsets: list[int]
    result: Shape


def numbers(w: Writer, operand: Shape, whole: bool = False) -> Numbers:
    """Random ones; with `whole` all indexed dimensions are collapsed, so that windows cannot overlap in part."""
    rng, rank = w.rng, len(operand)
    full = [d for d in range(rank) if operand[d] > 0]
    rng.shuffle(full)
    batching = sorted(full[:1]) if rank > 1 and rng.random() < 0.3 else []
    rest = [d for d in range(rank) if d not in batching]
    collapsed = sorted(d for d in rest if operand[d] > 0 and rng.random() < 0.5)
    able = collapsed if whole else rest
    index_map = rng.sample(able, rng.randint(min(1, len(able)), min(2, len(able))))
    indexed = set(index_map)
    sizes = tuple(
        1
        if d in collapsed or d in batching
        else n
        if whole or (d not in indexed and rng.random() < 0.8)
        else rng.randint(0, n) if rng.random() < 0.9 else min(n, 1)
        for d, n in enumerate(operand)
    )  # fmt: skip
    dims = [rng.choice([1, 2, 3, 5, 8, 0]) for _ in range(rng.randint(0, 2))]
    batch_at = []
    for d in batching:
        place = rng.randint(0, len(dims))
        dims.insert(place, operand[d])
        batch_at.append(place)
    vector_dim = len(dims)
    indices = list(dims)
    if len(index_map) != 1 or rng.random() < 0.7:
        vector_dim = rng.randint(0, len(dims))
        indices.insert(vector_dim, len(index_map))
        batch_at = [d + (d >= vector_dim) for d in batch_at]
    window = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batching]
    offsets = sorted(rng.sample(range(len(dims) + len(window)), len(window)))
    outer, inner = iter(dims), iter(window)
    result = tuple(next(inner) if d in offsets else next(outer) for d in range(len(dims) + len(window)))
    return Numbers(
        operand, batching, collapsed, index_map, sizes, tuple(indices), batch_at, vector_dim, offsets, result
    )


def _content(found: Numbers, kind: str) -> str:
    most = max([found.operand[d] for d in found.index_map], default=0)
    return f"{kind} {most}"


def gather(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    n = numbers(w, a.shape)
    if Value("", n.result).size > MAX_ELEMENTS:
        return
    indices = w.of(n.indices, w.rng.choice(INTEGERS), _content(n, "index"))
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {n.offsets}, collapsed_slice_dims = {n.collapsed}, "
        f"operand_batching_dims = {n.batching}, start_indices_batching_dims = {n.indices_batching}, "
        f"start_index_map = {n.index_map}, index_vector_dim = {n.vector_dim}>, slice_sizes = {integers(n.sizes)}, "
        "indices_are_sorted = false"
    )
    w.op("stablehlo.gather", (a, indices), [(n.result, a.element)], attributes, bound=a.bound)


def _attributes(n: Numbers, unique: bool) -> str:
    return (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {n.offsets}, "
        f"inserted_window_dims = {n.collapsed}, input_batching_dims = {n.batching}, "
        f"scatter_indices_batching_dims = {n.indices_batching}, scatter_dims_to_operand_dims = {n.index_map}, "
        f"index_vector_dim = {n.vector_dim}>, unique_indices = {str(unique).lower()}, indices_are_sorted = false"
    )


def scatter(w: Writer) -> None:
    """With a body that may be applied in any order."""
    a = w.tensor(("f32", "f32", "i32", "i1", "f64", "ui8", "i64"), least=1)
    n = numbers(w, a.shape)
    if Value("", n.result).size > MAX_ELEMENTS:
        return
    name = w.rng.choice(updating(a.element))
    indices = w.of(n.indices, w.rng.choice(INTEGERS), _content(n, "index"))
    updates = w.of(n.result, a.element)
    count = max(1, updates.size)
    bound = {"maximum": max(a.bound, updates.bound), "minimum": max(a.bound, updates.bound)}.get(
        name, a.bound + count * updates.bound if name == "add" else INEXACT
    )
    results = [(a.shape, a.element)]
    w.op("stablehlo.scatter", (a, indices, updates), results, _attributes(n, False), body(name, a.element), bound=bound)


def scatter_replacing(w: Writer) -> None:
    """At most one update an element, so that the order does not matter."""
    a = w.tensor(ANY, least=1, content="hostile")
    n = numbers(w, a.shape, whole=True)
    if Value("", n.result).size > MAX_ELEMENTS:
        return
    indices = w.of(n.indices, w.rng.choice(("i32", "i64")), _content(n, "distinct"))
    updates = w.of(n.result, a.element, "hostile")
    names = ["set", "subtract"] if a.element != "i1" else ["set"]
    results, bound = [(a.shape, a.element)], a.bound + updates.bound
    region = body(w.rng.choice(names), a.element)
    if not n.index_map and n.indices and Value("", n.indices).size != 1:
        return  # without an index every update is of the same element
    w.op("stablehlo.scatter", (a, indices, updates), results, _attributes(n, True), region, bound=bound)


def scatter_two(w: Writer) -> None:
    """Two tensors at once, summed and maximized."""
    a = w.tensor(("f32", "i32"), least=1)
    b = w.of(a.shape, "i32")
    n = numbers(w, a.shape)
    if Value("", n.result).size > MAX_ELEMENTS:
        return
    indices = w.of(n.indices, "i32", _content(n, "index"))
    x, y = w.of(n.result, a.element), w.of(n.result, "i32")
    s, t = f"tensor<{a.element}>", "tensor<i32>"
    region = f"""{{
    ^bb0(%p: {s}, %q: {t}, %u: {s}, %v: {t}):
      %c = stablehlo.add %p, %u : {s}
      %d = stablehlo.maximum %q, %v : {t}
      stablehlo.return %c, %d : {s}, {t}
    }}"""
    results = [(a.shape, a.element), (a.shape, "i32")]
    bound = a.bound + max(1, x.size) * x.bound
    w.op("stablehlo.scatter", (a, b, indices, x, y), results, _attributes(n, False), region, bound=bound)


GATHER = (gather,)
SCATTER = (scatter, scatter, scatter_replacing, scatter_two)

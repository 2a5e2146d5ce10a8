"""sort and top_k, with ties."""

from __future__ import annotations

from proof.operations.bodies import comparing
from proof.writer import Writer


def sort(w: Writer) -> None:
    a = w.tensor(("f32", "f32", "i32", "ui8", "bf16", "f64"), least=1, exact=True)
    dim = w.rng.randrange(len(a.shape))
    region = comparing(w.rng.choice(["LT", "GT"]), a.element)
    stable = str(w.rng.random() < 0.7).lower()
    w.op("stablehlo.sort", (a,), [(a.shape, a.element)], f"dimension = {dim} : i64, is_stable = {stable}", region)


def sort_hostile(w: Writer) -> None:
    """In the total order of floats, in which NaN and the two zeros have places."""
    a = w.tensor(("f32", "f64", "bf16"), least=1, content="hostile")
    dim = w.rng.randrange(len(a.shape))
    region = comparing(w.rng.choice(["LT", "GT"]), a.element, kind="TOTALORDER")
    w.op("stablehlo.sort", (a,), [(a.shape, a.element)], f"dimension = {dim} : i64, is_stable = true", region)


def sort_by_key(w: Writer) -> None:
    """Stable: equal keys stay in order."""
    a = w.tensor(("f32", "i32", "i1", "ui8"), least=1, exact=True)
    more = w.rng.randint(1, 2)
    others = [w.of(a.shape, "i32", "bits") for _ in range(more)]
    dim = w.rng.randrange(len(a.shape))
    region = comparing(w.rng.choice(["LT", "GT", "LT"]), a.element, more)
    results = [(a.shape, a.element), *((a.shape, "i32") for _ in others)]
    attributes = f"dimension = {dim} : i64, is_stable = true"
    w.op("stablehlo.sort", (a, *others), results, attributes, region, bound=a.bound)


def top_k(w: Writer) -> None:
    a = w.tensor(("f32", "f32", "i32", "bf16"), least=1, exact=True)
    k = w.rng.choice([0, 1, 1, 2, 3, a.shape[-1]])
    shape = (*a.shape[:-1], min(k, a.shape[-1]))
    w.op("chlo.top_k", (a,), [(shape, a.element), (shape, "i32")], f"k = {shape[-1]} : i64")


SORTING = (sort, sort_hostile, sort_by_key, top_k)

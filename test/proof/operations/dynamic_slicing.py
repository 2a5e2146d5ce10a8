"""dynamic_slice and dynamic_update_slice, with starts far out of range among others."""

from __future__ import annotations

from proof.operations.slicing import integers
from proof.program import Value
from proof.writer import ANY, INTEGERS, Writer


def _starts(w: Writer, a: Value) -> list[Value]:
    element = w.rng.choice(INTEGERS)
    return [w.of((), element, f"index {n}") for n in a.shape]


def _sizes(w: Writer, a: Value) -> tuple[int, ...]:
    return tuple(w.rng.choice([n, w.rng.randint(0, n), min(n, 1)]) for n in a.shape)


def dynamic_slice(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    sizes = _sizes(w, a)
    starts = _starts(w, a)
    w.op(
        "stablehlo.dynamic_slice", (a, *starts), [(sizes, a.element)], f"slice_sizes = {integers(sizes)}", bound=a.bound
    )


def dynamic_update(w: Writer) -> None:
    a = w.tensor(ANY, least=1, content="hostile")
    update = w.of(_sizes(w, a), a.element, "hostile")
    starts = _starts(w, a)
    bound = max(a.bound, update.bound)
    w.op("stablehlo.dynamic_update_slice", (a, update, *starts), [(a.shape, a.element)], bound=bound)


DYNAMIC_SLICING = (dynamic_slice, dynamic_update)

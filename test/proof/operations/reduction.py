"""reduce, by every reducer and of several operands."""

from __future__ import annotations

from proof.operations.bodies import argument_of_extreme, body, identity, updating
from proof.operations.slicing import integers
from proof.program import INEXACT, Shape, Value
from proof.writer import Writer

_ELEMENTS = ("f32", "f32", "i32", "i1", "f64", "ui8", "i64", "complex<f32>", "bf16")


def _reduced(w: Writer, a: Value) -> tuple[list[int], Shape]:
    dims = sorted(w.rng.sample(range(len(a.shape)), w.rng.randint(0 if w.rng.random() < 0.1 else 1, len(a.shape))))
    return dims, tuple(n for d, n in enumerate(a.shape) if d not in dims)


def start(w: Writer, name: str, element: str) -> Value:
    """The identity of a reducer, or some other value to start from."""
    if w.rng.random() < 0.6:
        return w.constant(element, identity(name, element), bound=4 if name in ("add", "multiply") else INEXACT)
    return w.of((), element)


def reduce(w: Writer) -> None:
    a = w.tensor(_ELEMENTS, least=1)
    dims, shape = _reduced(w, a)
    name = w.rng.choice(updating(a.element))
    init = start(w, name, a.element)
    count = max(1, a.size // max(1, Value("", shape).size))
    bound = a.bound * count + init.bound if name == "add" else max(a.bound, init.bound)
    region = body(name, a.element)
    w.op("stablehlo.reduce", (a, init), [(shape, a.element)], f"dimensions = {integers(dims)}", region, bound=bound)


def reduce_hostile(w: Writer) -> None:
    """The largest or smallest among infinities; XLA's all-reduce on CPUs drops NaN."""
    a = w.tensor(("f32", "f32", "f64", "bf16", "i32", "ui8"), least=1, content="hostile")
    dims, shape = _reduced(w, a)
    name = w.rng.choice(["maximum", "minimum"])
    init = w.constant(a.element, identity(name, a.element), bound=INEXACT)
    region = body(name, a.element)
    w.op("stablehlo.reduce", (a, init), [(shape, a.element)], f"dimensions = {integers(dims)}", region, bound=INEXACT)


def argmax(w: Writer) -> None:
    """The extreme value and its first position, with ties."""
    a = w.tensor(("f32", "i32"), least=1, exact=True)
    dims, shape = _reduced(w, a)
    dim = w.rng.randrange(len(a.shape))
    (positions,) = w.op("stablehlo.iota", (), [(a.shape, "i32")], f"iota_dimension = {dim} : i64")
    direction = w.rng.choice(["GT", "LT"])
    name = {"GT": "maximum", "LT": "minimum"}[direction]
    extreme = w.constant(a.element, identity(name, a.element), bound=INEXACT)
    last = w.constant("i32", str(2**31 - 1))
    results = [(shape, a.element), (shape, "i32")]
    region = argument_of_extreme(direction, a.element)
    attributes = f"dimensions = {integers(dims)}"
    w.op("stablehlo.reduce", (a, positions, extreme, last), results, attributes, region, bound=a.bound)


def two_sums(w: Writer) -> None:
    """A sum and a maximum in one operation."""
    a = w.tensor(("f32", "i32"), least=1)
    b = w.of(a.shape, "i32")
    dims, shape = _reduced(w, a)
    zero, least = w.constant(a.element, identity("add", a.element)), w.constant("i32", identity("maximum", "i32"))
    s, t = f"tensor<{a.element}>", "tensor<i32>"
    region = f"""{{
^bb0(%p: {s}, %q: {t}, %u: {s}, %v: {t}):
  %c = stablehlo.add %p, %u : {s}
  %d = stablehlo.maximum %q, %v : {t}
  stablehlo.return %c, %d : {s}, {t}
}}"""
    results = [(shape, a.element), (shape, "i32")]
    attributes = f"dimensions = {integers(dims)}"
    w.op("stablehlo.reduce", (a, b, zero, least), results, attributes, region, bound=a.bound * max(1, a.size))


REDUCTION = (reduce, reduce, reduce_hostile, argmax, two_sums)

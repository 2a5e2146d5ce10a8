"""while, if, case, scan; calls, composites, barriers."""

from __future__ import annotations

from proof.program import INEXACT, Value, tensor_type
from proof.writer import ANY, Writer


def _bodies(w: Writer, a: Value, b: Value, name: str = "%c") -> tuple[str, str]:
    """A computation on `name`, of the type of `a`, that may read `b` from outside: its lines, and its result."""
    t = a.type
    last = len(a.shape) - 1
    lines = w.rng.choice(
        [
            f"%t = stablehlo.multiply {name}, {b.name} : {t}",
            f"%t = stablehlo.negate {name} : {t}",
            f"%t = stablehlo.add {name}, {b.name} : {t}",
            f"%t = stablehlo.reverse {name}, dims = [{last}] : {t}",
            f"%r = stablehlo.reverse {b.name}, dims = [0] : {t}\n  %t = stablehlo.maximum {name}, %r : {t}",
            f"%s = stablehlo.tanh {name} : {t}\n  %t = stablehlo.add %s, {b.name} : {t}",
        ]
    )
    return lines, "%t"


def loop(w: Writer) -> None:
    """A counted loop; the body reads a value from outside, and sometimes mixes the elements of its carry."""
    a = w.tensor(least=1)
    b = w.of(a.shape)
    zero = w.constant("i32", "0")
    lines, result = _bodies(w, a, b)
    regions = f"""{{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %most = stablehlo.constant dense<3> : tensor<i32>
  %p = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
}}, {{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  {lines}
  stablehlo.return %j, {result} : tensor<i32>, {a.type}
}}"""
    results = [((), "i32"), (a.shape, "f32")]
    w.op("stablehlo.while", (zero, a), results, regions=regions, captured=(b,), bound=INEXACT)


def search(w: Writer) -> None:
    """A loop that ends when the data says so."""
    a = w.of(w.shape(1, 2), content="positive")
    dims = ", ".join(map(str, range(len(a.shape))))
    regions = f"""{{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [{dims}]
    : ({a.type}, tensor<f32>) -> tensor<f32>
  %most = stablehlo.constant dense<100.0> : tensor<f32>
  %more = stablehlo.compare LT, %sum, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %steps = stablehlo.constant dense<5> : tensor<i32>
  %few = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %p = stablehlo.and %more, %few : tensor<i1>
  stablehlo.return %p : tensor<i1>
}}, {{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %t = stablehlo.add %c, %c : {a.type}
  stablehlo.return %j, %t : tensor<i32>, {a.type}
}}"""
    zero = w.constant("i32", "0")
    w.op("stablehlo.while", (zero, a), [((), "i32"), (a.shape, "f32")], regions=regions, bound=a.bound * 64)


def branch(w: Writer) -> None:
    """if, or case with an index that may be out of range."""
    a = w.tensor(least=1)
    b = w.of(a.shape)
    made = []
    two = w.rng.random() < 0.5
    for _ in range(2 if two else w.rng.randint(1, 3)):
        if w.rng.random() < 0.3:
            made.append(f"{{\n  stablehlo.return {w.rng.choice((a, b)).name} : {a.type}\n}}")
            continue
        lines, result = _bodies(w, a, b, a.name)
        made.append(f"{{\n  {lines}\n  stablehlo.return {result} : {a.type}\n}}")
    which = w.of((), "i1") if two else w.of((), "i32", f"index {len(made)}")
    name = "stablehlo.if" if two else "stablehlo.case"
    w.op(name, (which,), [(a.shape, "f32")], regions=", ".join(made), captured=(a, b), bound=INEXACT)


def nested(w: Writer) -> None:
    """A branch in a loop."""
    a = w.tensor(least=1)
    b = w.of(a.shape)
    zero = w.constant("i32", "0")
    first, left = _bodies(w, a, b)
    second, right = _bodies(w, a, b)
    regions = f"""{{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %most = stablehlo.constant dense<2> : tensor<i32>
  %p = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
}}, {{
^bb0(%i: tensor<i32>, %c: {a.type}):
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %q = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %n = "stablehlo.if"(%q) ({{
    {first}
    stablehlo.return {left} : {a.type}
  }}, {{
    {second}
    stablehlo.return {right} : {a.type}
  }}) : (tensor<i1>) -> {a.type}
  stablehlo.return %j, %n : tensor<i32>, {a.type}
}}"""
    results = [((), "i32"), (a.shape, "f32")]
    w.op("stablehlo.while", (zero, a), results, regions=regions, captured=(b,), bound=INEXACT)


def scan(w: Writer) -> None:
    """Running sums along a dimension, forwards or backwards."""
    a = w.of(w.shape(1, 3, (1, 2, 3, 4, 5, 6, 8)))
    dim = w.rng.randrange(len(a.shape))
    row = tuple(n for d, n in enumerate(a.shape) if d != dim)
    carry = w.of(row)
    t = tensor_type(row, "f32")
    mixed = f"%d = stablehlo.reverse %x, dims = [0] : {t}" if row and w.rng.random() < 0.5 else ""
    used = "%d" if mixed else "%x"
    region = f"""{{
^bb0(%x: {t}, %y: {t}):
  {mixed}
  %c = stablehlo.add {used}, %y : {t}
  stablehlo.return %c, %c : {t}, {t}
}}"""
    attributes = (
        f"dimension = {dim} : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"
    )
    if w.rng.random() < 0.4:
        attributes += ", is_reverse = true"
    bound = a.bound * a.size + carry.bound
    w.op("chlo.scan", (a, carry), [(a.shape, "f32"), (row, "f32")], attributes, region, bound=bound)


def barrier(w: Writer) -> None:
    values = [w.tensor(ANY, content="hostile") for _ in range(w.rng.randint(1, 3))]
    w.op("stablehlo.optimization_barrier", values, [(v.shape, v.element) for v in values])


def call(w: Writer) -> None:
    """A function, called or as the decomposition of a composite."""
    a = w.tensor(least=1)
    b = w.of(a.shape)
    lines, result = _bodies(w, a, Value("%y", a.shape), "%x")
    name = f"{w.prefix}callee_{len(w.functions)}"
    head = f"func.func private @{name}(%x: {a.type}, %y: {a.type}) -> {a.type}"
    w.functions.append(f"{head} {{\n  {lines}\n  return {result} : {a.type}\n}}\n")
    if w.rng.random() < 0.5:
        w.op("func.call", (a, b), [(a.shape, "f32")], f"callee = @{name}", bound=INEXACT)
    else:
        given = f'name = "my.op", decomposition = @{name}'
        w.op("stablehlo.composite", (a, b), [(a.shape, "f32")], given, bound=INEXACT)


CONTROL_FLOW = (loop, loop, search, branch, branch, nested)
SCAN = (scan,)
STRUCTURE = (barrier, call)

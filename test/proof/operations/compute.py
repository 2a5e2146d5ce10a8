"""dot_general, ragged_dot; batch_norm_*."""

from __future__ import annotations

from proof.program import INEXACT, Value
from proof.writer import MAX_ELEMENTS, Writer


def dot(w: Writer) -> None:
    """Any number of batch and contracted dimensions, in any order."""
    rng = w.rng
    a = w.tensor(("f32", "f32", "i32", "f64", "complex<f32>", "bf16"))
    dims = list(range(len(a.shape)))
    rng.shuffle(dims)
    batch = dims[: rng.choice([0, 0, 1, 1, 2])]
    contracted = [d for d in dims if d not in batch][: rng.choice([0, 1, 1, 1, 2])]
    own = [rng.choice([1, 2, 3, 4, 5, 7, 8]) for _ in range(rng.choice([0, 1, 1, 2]))]
    pieces = [*((("b", d), a.shape[d]) for d in batch), *((("c", d), a.shape[d]) for d in contracted)]
    pieces += [(("f", i), n) for i, n in enumerate(own)]
    rng.shuffle(pieces)
    b = w.of(tuple(n for _, n in pieces), a.element)
    at = {key: place for place, (key, _) in enumerate(pieces)}
    free = [d for d in range(len(a.shape)) if d not in batch and d not in contracted]
    free_b = [n for (kind, _), n in pieces if kind == "f"]
    shape = (*(a.shape[d] for d in batch), *(a.shape[d] for d in free), *free_b)
    if Value("", shape).size > MAX_ELEMENTS:
        return
    attributes = (
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {batch}, "
        f"rhs_batching_dimensions = {[at['b', d] for d in batch]}, lhs_contracting_dimensions = {contracted}, "
        f"rhs_contracting_dimensions = {[at['c', d] for d in contracted]}>"
    )
    terms = Value("", tuple(a.shape[d] for d in contracted)).size
    w.op("stablehlo.dot_general", (a, b), [(shape, a.element)], attributes, bound=a.bound * b.bound * max(1, terms))


def mixed_dot(w: Writer) -> None:
    """Of short numbers into long ones."""
    rng = w.rng
    m, k, n = (rng.choice([1, 2, 3, 5, 8]) for _ in range(3))
    element, wide = rng.choice([("bf16", "f32"), ("i8", "i32"), ("f16", "f32")])
    a, b = w.of((m, k), element), w.of((n, k), element)
    attributes = (
        "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>"
    )
    w.op("stablehlo.dot_general", (a, b), [((m, n), wide)], attributes, bound=a.bound * b.bound * k)


def ragged_dot(w: Writer) -> None:
    """With a batch in groups, the only form that XLA compiles for CPUs."""
    rng = w.rng
    batch, m, k, n, g = (rng.choice(sizes) for sizes in ([1, 4, 6, 8], [1, 3, 4], [2, 3, 8], [1, 4, 5], [1, 2, 3]))
    sizes = w.of((g,), rng.choice(["i32", "i64"]), f"groups {batch}")
    a, b = w.of((batch, m, k)), w.of((batch, k, n))
    attributes = (
        "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = []>"
    )
    w.op("chlo.ragged_dot", (a, b, sizes), [((batch, m, n), "f32")], attributes, bound=a.bound * b.bound * k)


def batch_norm(w: Writer) -> None:
    rng = w.rng
    shape = w.shape(1, 3, (1, 2, 3, 4, 5, 8))
    feature = rng.randrange(len(shape))
    n = shape[feature]
    given = f"epsilon = 0.5 : f32, feature_index = {feature} : i64"
    x = w.of(shape)
    match rng.choice(["inference", "training", "grad"]):
        case "inference":
            operands = (x, w.of((n,)), w.of((n,)), w.of((n,)), w.of((n,), content="positive"))
            w.op("stablehlo.batch_norm_inference", operands, [(shape, "f32")], given, bound=INEXACT)
        case "training":
            results = [(shape, "f32"), ((n,), "f32"), ((n,), "f32")]
            w.op("stablehlo.batch_norm_training", (x, w.of((n,)), w.of((n,))), results, given, bound=INEXACT)
        case _:
            results = [(shape, "f32"), ((n,), "f32"), ((n,), "f32")]
            operands = (x, w.of((n,)), w.of((n,)), w.of((n,), content="positive"), w.of(shape))
            w.op("stablehlo.batch_norm_grad", operands, results, given, bound=INEXACT)


CONTRACTION = (dot, dot, dot, mixed_dot, ragged_dot)
NORMALIZATION = (batch_norm,)

"""constants, iota, and random bits."""

from __future__ import annotations

from proof.program import INEXACT, Shape
from proof.writer import Writer


def iota(w: Writer) -> None:
    shape = w.shape(1, 3)
    element = w.rng.choice(["i32", "i32", "f32", "ui8", "bf16", "complex<f32>", "i64"])
    dim = w.rng.randrange(len(shape))
    w.op("stablehlo.iota", (), [(shape, element)], f"iota_dimension = {dim} : i64", bound=16)


def constant(w: Writer) -> None:
    """Of different elements."""
    shape = w.shape(0, 2)
    count = 1
    for n in shape:
        count *= n
    numbers = iter([w.rng.randint(-3, 3) for _ in range(count)])
    element = w.rng.choice(["f32", "i32"])
    form = "{}.0" if element == "f32" else "{}"

    def nested(rest: Shape) -> str:
        return form.format(next(numbers)) if not rest else f"[{', '.join(nested(rest[1:]) for _ in range(rest[0]))}]"

    type_ = f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"
    text = nested(shape) if count else ""
    w.op("stablehlo.constant", (), [(shape, element)], f"value = dense<{text}> : {type_}")


def splat(w: Writer) -> None:
    shape = w.shape(0, 3)
    type_ = f"tensor<{''.join(f'{n}x' for n in shape)}f32>"
    w.op("stablehlo.constant", (), [(shape, "f32")], f"value = dense<2.0> : {type_}")


def like(w: Writer) -> None:
    a = w.tensor(content="hostile")
    w.op("chlo.constant_like", (a,), [(a.shape, "f32")], "value = 1.0 : f32", bound=1)


def random_bits(w: Writer) -> None:
    algorithm, state = w.rng.choice([("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 2), ("DEFAULT", 3)])
    a = w.of((state,), "ui64", "bits")
    shape = w.shape(0, 3)
    element = w.rng.choice(["ui32", "ui32", "ui64", "ui8", "ui16"])
    attributes = f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>"
    w.op("stablehlo.rng_bit_generator", (a,), [((state,), "ui64"), (shape, element)], attributes, bound=INEXACT)


CREATION = (iota, iota, constant, splat, like)
RANDOM = (random_bits,)

"""transpose, reshape, broadcast_in_dim."""

from __future__ import annotations

from proof.operations.slicing import integers
from proof.program import Value
from proof.writer import ANY, MAX_ELEMENTS, SIZES, Writer


def transpose(w: Writer) -> None:
    a = w.tensor(ANY, most=4, content="hostile")
    order = list(range(len(a.shape)))
    w.rng.shuffle(order)
    shape = tuple(a.shape[d] for d in order)
    w.op("stablehlo.transpose", (a,), [(shape, a.element)], f"permutation = {integers(order)}")


def reshape(w: Writer) -> None:
    """Mostly pieces of the operand's dimensions put together anew, in order; else anything of that many elements."""
    a = w.tensor(ANY, content="hostile")
    if a.size == 0:
        shape = list(a.shape)
        w.rng.shuffle(shape)
    else:
        pieces: list[int] = []
        for n in a.shape if w.rng.random() < 0.7 else (a.size,):
            while n > 1:
                piece = w.rng.choice([k for k in range(2, n + 1) if n % k == 0])
                pieces.append(piece)
                n //= piece
        shape = []
        for piece in pieces:
            if shape and (len(shape) >= 4 or w.rng.random() < 0.4):
                shape[-1] *= piece
            else:
                shape.append(piece)
        for _ in range(w.rng.choice([0, 0, 1])):
            shape.insert(w.rng.randint(0, len(shape)), 1)
    w.op("stablehlo.reshape", (a,), [(tuple(shape), a.element)])


def broadcast(w: Writer) -> None:
    a = w.tensor(ANY, most=2, content="hostile")
    rank = len(a.shape) + w.rng.randint(0, 2)
    dims = w.rng.sample(range(rank), len(a.shape))
    if w.rng.random() < 0.7:
        dims.sort()
    shape = [w.rng.choice(SIZES) for _ in range(rank)]
    for d, n in zip(dims, a.shape, strict=True):
        if n != 1:
            shape[d] = n
    if Value("", tuple(shape)).size <= MAX_ELEMENTS:
        attributes = f"broadcast_dimensions = {integers(dims)}"
        w.op("stablehlo.broadcast_in_dim", (a,), [(tuple(shape), a.element)], attributes)


LAYOUT = (transpose, reshape, reshape, broadcast)

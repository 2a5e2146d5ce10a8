"""cholesky, triangular_solve, fft."""

from __future__ import annotations

from proof.operations.slicing import integers
from proof.program import INEXACT
from proof.writer import Writer


def cholesky(w: Writer) -> None:
    n = w.rng.choice([1, 2, 3, 4, 5])
    element = w.rng.choice(["f32", "f32", "f64", "complex<f32>"])
    shape = (*w.shape(0, 2), n, n)
    a = w.of(shape, element, "definite")
    lower = str(w.rng.random() < 0.5).lower()
    w.op("stablehlo.cholesky", (a,), [(shape, element)], f"lower = {lower}", bound=INEXACT)


def triangular_solve(w: Writer) -> None:
    rng, n = w.rng, w.rng.choice([1, 2, 3, 4])
    element = rng.choice(["f32", "f32", "f64", "complex<f32>"])
    batch, columns = w.shape(0, 1), rng.choice([1, 2, 3, 5, 8])
    left = rng.random() < 0.5
    a = w.of((*batch, n, n), element, "solvable")
    b = w.of((*batch, n, columns) if left else (*batch, columns, n), element)
    transpose = rng.choice(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    attributes = (
        f"left_side = {str(left).lower()}, lower = {str(rng.random() < 0.5).lower()}, "
        f"unit_diagonal = {str(rng.random() < 0.3).lower()}, transpose_a = #stablehlo<transpose {transpose}>"
    )
    w.op("stablehlo.triangular_solve", (a, b), [(b.shape, element)], attributes, bound=INEXACT)


def fft(w: Writer) -> None:
    rng = w.rng
    kind = rng.choice(["FFT", "IFFT", "RFFT", "IRFFT"])
    rank = rng.randint(1, 2)
    lengths = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(rank)]
    batch = w.shape(0, 2)
    whole, half = (*batch, *lengths), (*batch, *lengths[:-1], lengths[-1] // 2 + 1)
    wide = rng.random() < 0.2
    real, number = ("f64", "complex<f64>") if wide else ("f32", "complex<f32>")
    shapes = {
        "FFT": ((whole, number), (whole, number)),
        "IFFT": ((whole, number), (whole, number)),
        "RFFT": ((whole, real), (half, number)),
        "IRFFT": ((half, number), (whole, real)),
    }
    operand, result = shapes[kind]
    a = w.of(*operand)
    attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {integers(lengths)}"
    w.op("stablehlo.fft", (a,), [result], attributes, bound=INEXACT)


LINEAR_ALGEBRA = (cholesky, triangular_solve, fft, fft)

"""reduce_window and select_and_scatter."""

from __future__ import annotations

import dataclasses

from proof.operations.bodies import body, comparing, identity, updating
from proof.operations.reduction import start
from proof.operations.slicing import integers
from proof.program import Shape, Value
from proof.writer import MAX_ELEMENTS, Writer


@dataclasses.dataclass(frozen=True)
class Window:
    """One dimension of a window."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    dilation: int = 1

    def count(self, n: int) -> int:
        """Windows in a dimension of `n`."""
        inside = (n - 1) * self.base + 1 if n else 0
        wide = (self.size - 1) * self.dilation + 1
        room = inside + self.low + self.high
        return (room - wide) // self.stride + 1 if room >= wide else 0


def window(w: Writer, n: int, dilated: bool = True) -> Window:
    """A random one over a dimension of `n`."""
    rng = w.rng
    if rng.random() < 0.3:
        return Window()
    size = rng.choice([1, 2, 2, 3, 3, 4, 5, max(n, 1)])
    low, high = rng.choice([(0, 0), (0, 0), (1, 1), (0, 1), (2, 0), (1, 3), (-1, 0), (0, -1), (size - 1, size - 1)])
    base = rng.choice([1, 1, 1, 1, 2, 3]) if dilated else 1
    dilation = rng.choice([1, 1, 1, 1, 2, 3]) if dilated else 1
    found = Window(size, rng.choice([1, 1, 2, 2, 3, size]), low, high, base, dilation)
    inside = (n - 1) * base + 1 if n else 0
    return found if inside + low + high >= 0 else Window()


def attributes(windows: list[Window]) -> str:
    pads = ", ".join(f"[{v.low}, {v.high}]" for v in windows)
    return (
        f"window_dimensions = {integers([v.size for v in windows])}, "
        f"window_strides = {integers([v.stride for v in windows])}, "
        f"padding = dense<[{pads}]> : tensor<{len(windows)}x2xi64>"
    )


def _dilations(windows: list[Window]) -> str:
    return (
        f", base_dilations = {integers([v.base for v in windows])}, "
        f"window_dilations = {integers([v.dilation for v in windows])}"
    )


def _counts(windows: list[Window], shape: Shape) -> Shape:
    return tuple(v.count(n) for v, n in zip(windows, shape, strict=True))


def reduce_window(w: Writer) -> None:
    a = w.tensor(("f32", "f32", "i32", "i1", "f64", "ui8", "bf16"), least=1)
    windows = [window(w, n) for n in a.shape]
    shape = _counts(windows, a.shape)
    if Value("", shape).size > MAX_ELEMENTS:
        return
    name = w.rng.choice(updating(a.element))
    # How often padding counts any other initial value, XLA and the specification do not agree on.
    once = name in ("maximum", "minimum", "and", "or")
    init = start(w, name, a.element) if once else w.constant(a.element, identity(name, a.element))
    size = Value("", tuple(v.size for v in windows)).size
    bound = (a.bound + init.bound) * size if name == "add" else max(a.bound, init.bound)
    given = attributes(windows) + _dilations(windows)
    w.op("stablehlo.reduce_window", (a, init), [(shape, a.element)], given, body(name, a.element), bound=bound)


def reduce_two_windows(w: Writer) -> None:
    """Of two operands."""
    a = w.tensor(("f32",), least=1)
    b = w.of(a.shape, "i32")
    windows = [window(w, n) for n in a.shape]
    shape = _counts(windows, a.shape)
    zero, least = w.constant("f32", "0.0"), w.constant("i32", str(-(2**31)))
    region = """{
^bb0(%p: tensor<f32>, %q: tensor<i32>, %u: tensor<f32>, %v: tensor<i32>):
  %c = stablehlo.add %p, %u : tensor<f32>
  %d = stablehlo.maximum %q, %v : tensor<i32>
  stablehlo.return %c, %d : tensor<f32>, tensor<i32>
}"""
    if Value("", shape).size <= MAX_ELEMENTS:
        bound = a.bound * Value("", tuple(v.size for v in windows)).size
        given = attributes(windows) + _dilations(windows)
        w.op(
            "stablehlo.reduce_window", (a, b, zero, least), [(shape, "f32"), (shape, "i32")], given, region, bound=bound
        )


def select_and_scatter(w: Writer) -> None:
    """With ties: the values are small whole numbers."""
    a = w.tensor(("f32", "f32", "i32", "f64"), least=1, exact=True)
    windows = []
    for n in a.shape:
        found = window(w, n, dilated=False)
        if found.low >= found.size or found.high >= found.size or found.low < 0 or found.high < 0:
            found = Window(found.size if found.size <= n else 1, found.stride)
        windows.append(found)
    shape = _counts(windows, a.shape)
    source = w.of(shape, a.element, exact=True)
    direction = w.rng.choice(["GE", "GE", "LE", "GT", "LT"])
    name = w.rng.choice(["add", "add", "maximum"])
    init = w.constant(a.element, identity("add", a.element)) if w.rng.random() < 0.7 else w.of((), a.element)
    regions = f"{comparing(direction, a.element)}, {body(name, a.element)}"
    bound = source.bound * max(1, source.size) + init.bound
    results = [(a.shape, a.element)]
    w.op("stablehlo.select_and_scatter", (a, source, init), results, attributes(windows), regions, bound=bound)


WINDOWS = (reduce_window, reduce_window, reduce_two_windows, select_and_scatter, select_and_scatter)

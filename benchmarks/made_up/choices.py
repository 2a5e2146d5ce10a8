"""Which steps made-up programs get: each function picks operands and parameters and appends one step or a few."""

from __future__ import annotations

import math
from collections.abc import Callable

from made_up.draft import Draft, Refused


def unary(d: Draft) -> None:
    d.add("unary", [d.value()], [d.rng.choice(["tanh", "logistic", "decay", "negate", "cosine", "relu"])])


def binary(d: Draft) -> None:
    a = d.value()
    d.add("binary", [a, d.of(d.shape(a))], [d.rng.choice(["add", "multiply", "maximum", "subtract"])])


def bias(d: Draft) -> None:
    """An operand of fewer dimensions is broadcast."""
    a = d.value(2)
    dims = sorted(d.rng.sample(range(len(d.shape(a))), d.rng.randint(1, len(d.shape(a)) - 1)))
    d.add("bias", [a, d.of([d.shape(a)[i] for i in dims])], [d.rng.choice(["add", "multiply"]), tuple(dims)])


def dot(d: Draft) -> None:
    """With any contracted and batch dimensions; the other operand has one or two of its own."""
    a = d.value(2, 4)
    shape, rng = d.shape(a), d.rng
    dims = list(range(len(shape)))
    rng.shuffle(dims)
    contracted = dims[: rng.choice([1, 1, 1, 2]) if len(dims) > 2 else 1]
    batch = [i for i in dims if i not in contracted][: rng.choice([0, 0, 0, 1, 2])]
    pieces = [(("c", i), shape[i]) for i in contracted] + [(("b", i), shape[i]) for i in batch]
    pieces += [(("f", i), d.size()) for i in range(rng.choice([0, 1, 1, 1, 2]))]
    rng.shuffle(pieces)
    b = d.of([n for _, n in pieces])
    place = {key: at for at, (key, _) in enumerate(pieces)}
    numbers = (contracted, [place["c", i] for i in contracted], batch, [place["b", i] for i in batch])
    d.add("dot", [a, b], [tuple(each) for each in numbers])


def product(d: Draft) -> None:
    """The last dimension with the first of a matrix, as layers have it; sometimes the matrix the other way round."""
    a = d.value(2, 4)
    n, m = d.shape(a)[-1], d.size()
    last = len(d.shape(a)) - 1
    if d.rng.random() < 0.5:
        d.add("dot", [a, d.of((n, m))], [(last,), (0,), (), ()])
    else:
        d.add("dot", [a, d.of((m, n))], [(last,), (1,), (), ()])


def transpose(d: Draft) -> None:
    a = d.value(2)
    d.add("transpose", [a], d.rng.sample(range(len(d.shape(a))), len(d.shape(a))))


def reshape(d: Draft) -> None:
    """A dimension is split or two are merged; now and then whatever has as many elements."""
    a, rng = d.value(), d.rng
    shape = d.shape(a)
    if rng.random() < 0.15:
        found = [n for n in d.sizes if math.prod(shape) % n == 0 and math.prod(shape) > n]
        if found:
            n = rng.choice(found)
            d.add("reshape", [a], (n, math.prod(shape) // n) if rng.random() < 0.5 else (math.prod(shape) // n, n))
            return
    if len(shape) > 1 and rng.random() < 0.55:
        d.add("merge", [a], [rng.randrange(len(shape) - 1)])
        return
    dim = d.dim(a)
    parts = [k for k in range(2, shape[dim]) if shape[dim] % k == 0]
    if not parts:
        raise Refused
    d.add("split", [a], [dim, rng.choice(parts)])


def broadcast(d: Draft) -> None:
    a = d.value(1, 3)
    d.add("broadcast", [a], [d.rng.randint(0, len(d.shape(a))), d.size()])


def reduce(d: Draft) -> None:
    a = d.value(2)
    dims = sorted(d.rng.sample(range(len(d.shape(a))), d.rng.choice([1, 1, 1, 2])))
    d.add("reduce", [a], [d.rng.choice(["sum", "sum", "max", "mean", "min"]), tuple(dims)])


def argmax(d: Draft) -> None:
    a = d.value(2)
    d.add("argmax", [a], [d.dim(a)])


def concatenate(d: Draft) -> None:
    a, rng = d.value(), d.rng
    dim, shape = d.dim(a), d.shape(a)
    if rng.random() < 0.25:
        d.add("stack", [a, d.of(shape)], [rng.randint(0, len(shape))])
        return
    same = [n for n, t in enumerate(d.types) if len(t.shape) == len(shape) and t.dtype.kind == "f"]
    able = [n for n in same if all(x == y for i, (x, y) in enumerate(zip(d.shape(n), shape, strict=True)) if i != dim)]
    other = rng.choice(able) if rng.random() < 0.7 else d.add("argument", (), shape)
    d.add("concatenate", [a, other] if rng.random() < 0.5 else [other, a], [dim])


def slicing(d: Draft) -> None:
    a, rng = d.value(), d.rng
    dim = d.dim(a)
    n = d.shape(a)[dim]
    start, limit = rng.choice([(0, n // 2), (n // 2, n), (0, n - 1), (1, n), (n // 4, 3 * n // 4)])
    d.add("slice", [a], [dim, start, limit, rng.choice([1, 1, 1, 2, 3])])


def dynamic_slice(d: Draft) -> None:
    a = d.value()
    dim = d.dim(a)
    n = d.shape(a)[dim]
    size = d.rng.choice([1, max(1, n // 4), max(1, n // 2)])
    d.add("dynamic_slice", [a, d.ids((), n - size + 1)], [dim, size])


def dynamic_update_slice(d: Draft) -> None:
    a = d.value()
    dim, shape = d.dim(a), d.shape(a)
    size = d.rng.choice([1, max(1, shape[dim] // 4), max(1, shape[dim] // 2)])
    update = d.of((*shape[:dim], size, *shape[dim + 1 :]))
    d.add("dynamic_update_slice", [a, update, d.ids((), shape[dim] - size + 1)], [dim])


def pad(d: Draft) -> None:
    a, rng = d.value(), d.rng
    n = d.shape(a)[dim := d.dim(a)]
    low, high = rng.choice([(0, 1), (1, 1), (2, 0), (0, n), (n // 2, 0), (-1, 1), (-2, 0), (0, -(n // 4)), (3, 5)])
    d.add("pad", [a], [dim, low, high, rng.choice([0, 0, 0, 1, 2])])


def reverse(d: Draft) -> None:
    a = d.value()
    d.add("reverse", [a], d.rng.sample(range(len(d.shape(a))), 1))


def roll(d: Draft) -> None:
    a = d.value()
    dim = d.dim(a)
    d.add("roll", [a], [dim, d.rng.choice([1, -1, 2, d.shape(a)[dim] // 2])])


def sort(d: Draft) -> None:
    a = d.value()
    d.add(d.rng.choice(["sort", "sort", "sort_pair"]), [a], [d.dim(a)])


def top_k(d: Draft) -> None:
    a = d.value()
    d.add("top_k", [a], [min(d.rng.choice([1, 2, 4, 8]), d.shape(a)[-1])])


def take(d: Draft) -> None:
    """Look-ups of rows, or of one element a row."""
    a, rng = d.value(), d.rng
    dim, shape = d.dim(a), d.shape(a)
    if len(shape) > 1 and rng.random() < 0.3:
        ids = d.ids((*shape[:dim], d.size(), *shape[dim + 1 :]), shape[dim])
        d.add("take_along", [a, ids], [dim])
        return
    wanted = (d.size(),) if rng.random() < 0.6 else (d.size(), d.size())
    d.add("take", [a, d.ids(wanted, shape[dim])], [dim])


def scatter(d: Draft) -> None:
    a = d.value(2)
    shape = d.shape(a)
    count = d.size()
    updates = d.of((count, *shape[1:]))
    d.add("scatter", [a, d.ids((count,), shape[0]), updates], ["add"])


def cumulative(d: Draft) -> None:
    a, rng = d.value(), d.rng
    d.add("cumulative", [a], [rng.choice(["sum", "sum", "max", "logsumexp"]), d.dim(a), rng.random() < 0.2])


def window(d: Draft) -> None:
    a, rng = d.value(), d.rng
    dim = d.dim(a)
    size, stride, dilation = rng.choice([2, 3, 4]), rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
    low, high = rng.choice([(0, 0), (1, 1), (size - 1, 0), (0, 2)])
    name = rng.choice(["sum", "sum", "max"])
    d.add("window", [a], [name, dim, size, stride, dilation, rng.choice([1, 1, 1, 2]), low, high])


def convolution(d: Draft) -> None:
    a, rng = d.value(3, 4), d.rng
    shape = d.shape(a)
    features, size = shape[-1], rng.choice([1, 3, 3, 4])
    groups = rng.choice([1, 1, 1, features]) if features <= 64 else 1
    out = features if groups > 1 else rng.choice([n for n in d.sizes if n <= 64] or [8])
    kernel = d.of((*(size,) * (len(shape) - 2), features // groups, out))
    stride, dilation, base = rng.choice([(1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)])
    d.add("convolution", [a, kernel], [stride, dilation, base, rng.choice(["SAME", "VALID"]), groups])


def select(d: Draft) -> None:
    a = d.value()
    d.add("select", [a, d.of(d.shape(a)), d.of(d.shape(a))], [0.1])


def mask(d: Draft) -> None:
    a = d.value(2)
    d.add("mask", [a], d.rng.sample(range(len(d.shape(a))), 2))


def iota(d: Draft) -> None:
    a = d.value()
    d.add("iota", [a], [d.dim(a)])


def fft(d: Draft) -> None:
    d.add("fft", [d.value()], [d.rng.choice(["fft", "rfft", "filter"])])


def one_hot(d: Draft) -> None:
    """Classes of a value's first dimension, and the product with it: a look-up as GSPMD's paper writes it."""
    a = d.value(2, 3)
    classes = d.shape(a)[0]
    rows = d.add("one_hot", [d.ids((d.size(),), classes)], [classes])
    d.add("dot", [rows, a], [(1,), (0,), (), ()])


def softmax(d: Draft) -> None:
    a = d.value()
    d.add("softmax", [a], [d.rng.choice([d.dim(a), len(d.shape(a)) - 1])])


def layer_norm(d: Draft) -> None:
    a = d.value(2)
    d.add("layer_norm", [a, d.of(d.shape(a)[-1:])])


def attention(d: Draft) -> None:
    x = d.value(3, 3)
    model, heads, size = d.shape(x)[-1], d.rng.choice([4, 8, 16]), d.rng.choice([8, 16])
    weights = [d.of((model, heads, size)) for _ in range(3)]
    d.add("attention", [x, *weights, d.of((heads, size, model))], [d.rng.random() < 0.5])


def mlp(d: Draft) -> None:
    x = d.value(2, 3)
    model, hidden = d.shape(x)[-1], d.size()
    d.add("mlp", [x, d.of((model, hidden)), d.of((hidden, model))])


def dispatch(d: Draft) -> None:
    x = d.value(3, 3)
    model, experts, hidden = d.shape(x)[-1], d.rng.choice([4, 8, 16]), d.size()
    gate, up, down = d.of((model, experts)), d.of((experts, model, hidden)), d.of((experts, hidden, model))
    d.add("dispatch", [x, gate, up, down])


def routed(d: Draft) -> None:
    x = d.value(2, 2)
    model, experts = d.shape(x)[-1], d.rng.choice([4, 8])
    d.add("routed", [x, d.of((model, experts)), d.of((experts, model, d.size()))])


def cross_entropy(d: Draft) -> None:
    a = d.value(2, 3)
    d.add("cross_entropy", [a, d.ids(d.shape(a)[:-1], d.shape(a)[-1])])


def rotary(d: Draft) -> None:
    d.add("rotary", [d.value(2)])


def recurrence(d: Draft) -> None:
    a = d.value(3, 3)
    n = d.shape(a)[-1]
    d.add("recurrence", [a, d.of((n, n))])


CHOICES: tuple[tuple[Callable[[Draft], None], float], ...] = (
    (unary, 2), (binary, 4), (bias, 2), (dot, 3), (product, 4), (transpose, 2), (reshape, 3), (broadcast, 1),
    (reduce, 2), (argmax, 0.4), (concatenate, 2), (slicing, 2), (dynamic_slice, 1), (dynamic_update_slice, 1),
    (pad, 1.5), (reverse, 1), (roll, 1), (sort, 1), (top_k, 0.7), (take, 1.5), (scatter, 1), (cumulative, 1),
    (window, 1.5), (convolution, 1.5), (select, 1), (mask, 0.7), (iota, 0.7), (fft, 0.7), (one_hot, 0.7),
    (softmax, 1), (layer_norm, 1), (attention, 0.8), (mlp, 1), (dispatch, 0.5), (routed, 0.5), (cross_entropy, 0.5),
    (rotary, 0.5), (recurrence, 0.4),
)  # fmt: skip
"""With how often each is taken."""

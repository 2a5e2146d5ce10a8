"""Random programs with random annotations: partitioned, they must give what they give on one device.

Run as `python test/fuzz.py [--seed N] [--count N]`; a seed names a program, whatever the count. Programs that
fail are shrunk, by leaving out annotations and operations, and printed. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(Path(__file__).parent / "reshard"))

from random_shardings import random_mesh, random_sharding

import gspmd
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, print_sharding

Shape = tuple[int, ...]
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)
MOST_ELEMENTS = 20000


@dataclasses.dataclass(frozen=True)
class Value:
    """An SSA value: its name, shape, and element type."""

    name: str
    shape: Shape
    element: str = "f32"

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{self.element}>"


@dataclasses.dataclass(frozen=True)
class Statement:
    """One operation: what it defines, what it reads, its text, and the text of its sharding if it is annotated.

    `{s}` in the text is where an attribute dictionary may stand; "" if there is no such place.
    """

    result: Value
    operands: tuple[Value, ...]
    text: str
    sharding: str = ""

    def __str__(self) -> str:
        given = f" {{sdy.sharding = #sdy.sharding_per_value<[{self.sharding}]>}}" if self.sharding else ""
        return self.text.replace("{s}", given)


@dataclasses.dataclass(frozen=True)
class Program:
    mesh: Mesh
    arguments: tuple[tuple[Value, str], ...]
    statements: tuple[Statement, ...]
    results: tuple[tuple[Value, str], ...]

    def __str__(self) -> str:
        arguments = ", ".join(f"{v.name}: {v.type}{_attribute(s)}" for v, s in self.arguments)
        results = ", ".join(f"{v.type}{_attribute(s)}" for v, s in self.results)
        names = ", ".join(v.name for v, _ in self.results)
        types = ", ".join(v.type for v, _ in self.results)
        body = "\n".join(f"  {line}" for s in self.statements for line in str(s).splitlines())
        head = f"sdy.mesh @mesh = {print_mesh(self.mesh)}\nfunc.func public @main({arguments}) -> ({results}) {{\n"
        return f"{head}{body}\n  return {names} : {types}\n}}\n"


def _attribute(sharding: str) -> str:
    return f" {{sdy.sharding = #sdy.sharding{sharding}}}" if sharding else ""


class Writer:
    """Makes up one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mesh = random_mesh(self.rng)
        self.values: list[Value] = []
        self.statements: list[Statement] = []

    def program(self) -> Program:
        rng = self.rng
        arguments = []
        for i in range(rng.randint(1, 3)):
            value = Value(f"%a{i}", tuple(rng.choice(SIZES) for _ in range(rng.randint(1, 3))))
            arguments.append((value, self.sharding(value, 0.7)))
            self.values.append(value)
        wanted = len(self.statements) + rng.randint(3, 10)
        while len(self.statements) < wanted:
            rng.choice(OPERATIONS)(self)
        used = {v.name for s in self.statements for v in s.operands}
        outputs = [s.result for s in self.statements if s.result.name not in used][-4:]
        return Program(
            self.mesh,
            tuple(arguments),
            tuple(self.statements),
            tuple((value, self.sharding(value, 0.3)) for value in outputs),
        )

    def sharding(self, value: Value, likely: float) -> str:
        if self.rng.random() >= likely:
            return ""
        text = print_sharding(random_sharding(self.rng, self.mesh, len(value.shape)))
        if self.rng.random() < 0.5:
            text = text.replace("{}", "{?}")
        return text

    # ---- values ----

    def pick(self, rank: int | None = None, least: int = 0) -> Value | None:
        found = [v for v in self.values if len(v.shape) >= least and rank in (None, len(v.shape))]
        return self.rng.choice(found[-6:]) if found else None

    def add(self, shape: Shape, operands: tuple[Value, ...], text: str) -> Value:
        """Append `%n = text`, in which `{r}` is the result's type and `{s}` the place of its attributes."""
        value = Value(f"%{len(self.statements)}", shape)
        annotated = "{s}" in text and bool(shape)
        line = f"{value.name} = {text}".replace("{r}", value.type)
        self.statements.append(Statement(value, operands, line, self.sharding(value, 0.15) if annotated else ""))
        if not shape or all(n > 0 for n in shape):
            self.values.append(value)
        return value

    def scalar(self, text: str) -> Value:
        """A float constant, written where it is needed."""
        return self.add((), (), f"stablehlo.constant dense<{text}> : {{r}}")

    def fitted(self, value: Value, shape: Shape) -> Value:
        """A value of this shape made from another: cut or padded, of the same rank."""
        if value.shape == shape:
            return value
        zero = self.scalar("0.0")
        high = [b - a for a, b in zip(value.shape, shape, strict=True)]
        zeros = [0] * len(shape)
        return self.add(
            shape,
            (value, zero),
            f"stablehlo.pad {value.name}, {zero.name}, low = {zeros}, high = {high}, interior = {zeros}{{s}}"
            f" : ({value.type}, {zero.type}) -> {{r}}",
        )


def elementwise(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    if w.rng.random() < 0.5:
        name = w.rng.choice(["sine", "negate", "tanh", "abs", "logistic"])
        w.add(a.shape, (a,), f"stablehlo.{name} {a.name}{{s}} : {{r}}")
        return
    b = w.pick(len(a.shape))
    assert b is not None
    b = w.fitted(b, a.shape)
    name = w.rng.choice(["add", "multiply", "subtract", "maximum", "minimum"])
    w.add(a.shape, (a, b), f"stablehlo.{name} {a.name}, {b.name}{{s}} : {{r}}")


def dot(w: Writer) -> None:
    a, b = w.pick(least=1), w.pick(least=1)
    if a is None or b is None:
        return
    d, e = (w.rng.randrange(len(v.shape)) for v in (a, b))
    shape = tuple(a.shape[d] if i == e else n for i, n in enumerate(b.shape))
    b = w.fitted(b, shape)
    free_a = [i for i in range(len(a.shape)) if i != d]
    free_b = [i for i in range(len(b.shape)) if i != e]
    pairs = [(i, j) for i in free_a for j in free_b if a.shape[i] == b.shape[j]]
    batch = [w.rng.choice(pairs)] if pairs and w.rng.random() < 0.5 else []
    left, right = [i for i, _ in batch], [j for _, j in batch]
    result = tuple(a.shape[i] for i in left)
    result += tuple(a.shape[i] for i in free_a if i not in left) + tuple(b.shape[j] for j in free_b if j not in right)
    if len(result) > 4 or _size(result) > MOST_ELEMENTS:
        return
    batching = f"batching_dims = {left} x {right}, " if batch else ""
    w.add(
        result,
        (a, b),
        f"stablehlo.dot_general {a.name}, {b.name}, {batching}contracting_dims = [{d}] x [{e}]{{s}}"
        f" : ({a.type}, {b.type}) -> {{r}}",
    )


def reduce(w: Writer) -> None:
    a = w.pick(least=1)
    if a is None:
        return
    dims = sorted(w.rng.sample(range(len(a.shape)), w.rng.randint(1, len(a.shape))))
    # XLA repeats other initial values of a sum, and forgets any other of a reduction of single elements.
    choices = [("add", "0.0"), ("minimum", "0x7F800000")]
    if any(a.shape[d] > 1 for d in dims):
        choices.append(("maximum", "-1.0"))
    name, start = w.rng.choice(choices)
    init = w.scalar(start)
    shape = tuple(n for d, n in enumerate(a.shape) if d not in dims)
    w.add(
        shape,
        (a, init),
        f"stablehlo.reduce({a.name} init: {init.name}) applies stablehlo.{name} across dimensions = {dims}{{s}}"
        f" : ({a.type}, {init.type}) -> {{r}}",
    )


def transpose(w: Writer) -> None:
    a = w.pick(least=2)
    if a is None:
        return
    order = list(range(len(a.shape)))
    w.rng.shuffle(order)
    shape = tuple(a.shape[d] for d in order)
    w.add(shape, (a,), f"stablehlo.transpose {a.name}, dims = {order}{{s}} : ({a.type}) -> {{r}}")


def reshape(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    size, shape = _size(a.shape), []
    while size > 1 and len(shape) < 3:
        factor = w.rng.choice([k for k in range(1, size + 1) if size % k == 0])
        shape.append(factor)
        size //= factor
    if size > 1 or not shape:
        shape.append(size)
    w.rng.shuffle(shape)
    w.add(tuple(shape), (a,), f"stablehlo.reshape {a.name}{{s}} : ({a.type}) -> {{r}}")


def broadcast(w: Writer) -> None:
    a = w.pick()
    if a is None or len(a.shape) > 2:
        return
    rank = len(a.shape) + 1
    dims = sorted(w.rng.sample(range(rank), len(a.shape)))
    shape = [w.rng.choice(SIZES) for _ in range(rank)]
    for d, n in zip(dims, a.shape, strict=True):
        if n != 1:
            shape[d] = n
    if _size(tuple(shape)) <= MOST_ELEMENTS:
        w.add(tuple(shape), (a,), f"stablehlo.broadcast_in_dim {a.name}, dims = {dims}{{s}} : ({a.type}) -> {{r}}")


def cut(w: Writer) -> None:
    a = w.pick(least=1)
    if a is None:
        return
    parts, shape = [], []
    for n in a.shape:
        start = w.rng.choice([0, 0, w.rng.randrange(n)])
        limit = w.rng.choice([n, w.rng.randint(start + 1, n)])
        stride = w.rng.choice([1, 1, 2, 3])
        parts.append(f"{start}:{limit}:{stride}")
        shape.append(-(-(limit - start) // stride))
    w.add(tuple(shape), (a,), f"stablehlo.slice {a.name} [{', '.join(parts)}]{{s}} : ({a.type}) -> {{r}}")


def concatenate(w: Writer) -> None:
    a = w.pick(least=1)
    b = w.pick(len(a.shape)) if a else None
    if a is None or b is None:
        return
    dim = w.rng.randrange(len(a.shape))
    b = w.fitted(b, tuple(b.shape[d] if d == dim else n for d, n in enumerate(a.shape)))
    shape = tuple(n + b.shape[d] if d == dim else n for d, n in enumerate(a.shape))
    w.add(
        shape,
        (a, b),
        f"stablehlo.concatenate {a.name}, {b.name}, dim = {dim}{{s}} : ({a.type}, {b.type}) -> {{r}}",
    )


def pad(w: Writer) -> None:
    a = w.pick(least=1)
    if a is None:
        return
    fill = w.scalar("0.5")
    low, high, interior, shape = [], [], [], []
    for n in a.shape:
        padding = w.rng.choice([(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 1), (2, 1, 1), (-1, 0, 0), (0, -1, 0)])
        if n + (n - 1) * padding[2] + padding[0] + padding[1] < 1:
            padding = (0, 0, 0)
        for amounts, amount in zip((low, high, interior), padding, strict=True):
            amounts.append(amount)
        shape.append(n + (n - 1) * padding[2] + padding[0] + padding[1])
    if _size(tuple(shape)) <= MOST_ELEMENTS:
        w.add(
            tuple(shape),
            (a, fill),
            f"stablehlo.pad {a.name}, {fill.name}, low = {low}, high = {high}, interior = {interior}{{s}}"
            f" : ({a.type}, {fill.type}) -> {{r}}",
        )


def reverse(w: Writer) -> None:
    a = w.pick(least=1)
    if a is not None:
        dims = sorted(w.rng.sample(range(len(a.shape)), w.rng.randint(1, len(a.shape))))
        w.add(a.shape, (a,), f"stablehlo.reverse {a.name}, dims = {dims}{{s}} : {{r}}")


def indices(w: Writer, shape: Shape, most: int) -> Value:
    """Made-up integer indices, some out of bounds, as a constant or computed from an iota."""
    value = Value(f"%{len(w.statements)}", shape, "i32")
    if shape and w.rng.random() < 0.5:
        dim = w.rng.randrange(len(shape))
        text = f"{value.name} = stablehlo.iota dim = {dim}{{s}} : {value.type}"
        w.statements.append(Statement(value, (), text, w.sharding(value, 0.2)))
        return value
    numbers = iter([w.rng.randint(-1, most) for _ in range(_size(shape))])

    def nested(rest: Shape) -> str:
        return str(next(numbers)) if not rest else f"[{', '.join(nested(rest[1:]) for _ in range(rest[0]))}]"

    text = f"{value.name} = stablehlo.constant dense<{nested(shape)}> : {value.type}"
    w.statements.append(Statement(value, (), text))
    return value


def gather(w: Writer) -> None:
    """Rows of a tensor, as an embedding is looked up."""
    a = w.pick(least=1)
    if a is None:
        return
    dim = w.rng.randrange(len(a.shape))
    count = w.rng.choice(SIZES)
    index = indices(w, (count, 1), a.shape[dim])
    kept = [n for d, n in enumerate(a.shape) if d != dim]
    offsets = list(range(1, 1 + len(kept)))
    sizes = ", ".join("1" if d == dim else str(n) for d, n in enumerate(a.shape))
    text = (
        f'"stablehlo.gather"({a.name}, {index.name}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, '
        f"collapsed_slice_dims = [{dim}], start_index_map = [{dim}], index_vector_dim = 1>, "
        f"slice_sizes = array<i64: {sizes}>}}>{{s}} : ({a.type}, {index.type}) -> {{r}}"
    )
    w.add((count, *kept), (a, index), text)


def scatter(w: Writer) -> None:
    """Rows added to a tensor, as an embedding's gradient is.

    At least two: XLA joins the cut that a shard is with the cut that a single update becomes, and clamps only one
    of the two starts.
    """
    a = w.pick(least=1)
    b = w.pick(len(a.shape)) if a else None
    if a is None or b is None:
        return
    dim = w.rng.randrange(len(a.shape))
    count = w.rng.choice(SIZES[1:])
    index = indices(w, (count, 1), a.shape[dim])
    b = w.fitted(b, (count, *(n for d, n in enumerate(a.shape) if d != dim)))
    windows = list(range(1, len(a.shape)))
    text = (
        f'"stablehlo.scatter"({a.name}, {index.name}, {b.name}) <{{scatter_dimension_numbers = #stablehlo.scatter<'
        f"update_window_dims = {windows}, inserted_window_dims = [{dim}], scatter_dims_to_operand_dims = [{dim}], "
        f"index_vector_dim = 1>}}> ({{\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        f"  %z = stablehlo.add %x, %y : tensor<f32>\n  stablehlo.return %z : tensor<f32>\n}})"
        f"{{s}} : ({a.type}, {index.type}, {b.type}) -> {{r}}"
    )
    w.add(a.shape, (a, index, b), text)


def dynamic_slice(w: Writer) -> None:
    a = w.pick(least=1)
    if a is None:
        return
    starts = tuple(indices(w, (), n) for n in a.shape)
    sizes = tuple(w.rng.choice([n, w.rng.randint(1, n)]) for n in a.shape)
    names = "".join(f", {s.name}" for s in starts)
    types = "".join(f", {s.type}" for s in starts)
    w.add(
        sizes,
        (a, *starts),
        f"stablehlo.dynamic_slice {a.name}{names}, sizes = {list(sizes)}{{s}} : ({a.type}{types}) -> {{r}}",
    )


def dynamic_update(w: Writer) -> None:
    a = w.pick(least=1)
    b = w.pick(len(a.shape)) if a else None
    if a is None or b is None:
        return
    b = w.fitted(b, tuple(min(n, m) for n, m in zip(a.shape, b.shape, strict=True)))
    starts = tuple(indices(w, (), n) for n in a.shape)
    names = "".join(f", {s.name}" for s in starts)
    types = "".join(f", {s.type}" for s in starts)
    w.add(
        a.shape,
        (a, b, *starts),
        f"stablehlo.dynamic_update_slice {a.name}, {b.name}{names}{{s}} : ({a.type}, {b.type}{types}) -> {{r}}",
    )


def loop(w: Writer) -> None:
    """Three rounds; the body reads a value from outside, and sometimes mixes the elements of its carry."""
    a = w.pick(least=1)
    b = w.pick(len(a.shape)) if a else None
    if a is None or b is None:
        return
    b = w.fitted(b, a.shape)
    body = w.rng.choice(
        [
            f"%t = stablehlo.multiply %c, {b.name} : {a.type}",
            f"%t = stablehlo.reverse %c, dims = [0] : {a.type}",
            f"%s = stablehlo.tanh %c : {a.type}\n  %t = stablehlo.add %s, {b.name} : {a.type}",
            f"%r = stablehlo.reverse {b.name}, dims = [0] : {a.type}\n  %t = stablehlo.add %c, %r : {a.type}",
        ]
    )
    start = indices(w, (), 0)
    text = (
        f"stablehlo.while(%i = {start.name}, %c = {a.name}) : tensor<i32>, {a.type}\n"
        f"cond {{\n  %n = stablehlo.constant dense<3> : tensor<i32>\n"
        f"  %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        f"  stablehlo.return %p : tensor<i1>\n}} do {{\n  %one = stablehlo.constant dense<1> : tensor<i32>\n"
        f"  %j = stablehlo.add %i, %one : tensor<i32>\n  {body}\n"
        f"  stablehlo.return %j, %t : tensor<i32>, {a.type}\n}}"
    )
    name = f"%{len(w.statements)}"
    value = Value(f"{name}#1", a.shape)
    w.statements.append(Statement(value, (start, a, b), f"{name}:2 = {text}"))
    w.values.append(value)


def constrain(w: Writer) -> None:
    a = w.pick(least=1)
    if a is not None:
        w.add(a.shape, (a,), f"sdy.sharding_constraint {a.name} {w.sharding(a, 1.0)} : {{r}}")


OPERATIONS: list[Callable[[Writer], None]] = [
    elementwise,
    elementwise,
    elementwise,
    dot,
    dot,
    reduce,
    transpose,
    reshape,
    reshape,
    broadcast,
    cut,
    concatenate,
    pad,
    reverse,
    gather,
    scatter,
    dynamic_slice,
    dynamic_update,
    loop,
    constrain,
]


def _size(shape: Shape) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


# ---- running and shrinking ----


def failure(program: Program, seed: int) -> str:
    """What is wrong with the partitioned program, "" if nothing is."""
    text = str(program)
    try:
        report = gspmd.check(text, seed=seed)
    except Unsupported:
        return ""
    except gspmd.Error as error:
        return f"refused: {error}"
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        return traceback.format_exc(limit=-3)
    return "; ".join(f"result {r.index}: {r.reason}" for r in report.results if not r.passed)


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less: a result, an unused operation, an argument, an annotation."""
    yield from _less_to_compute(program)
    yield from _less_to_return(program)
    for name in ("arguments", "results"):
        values = getattr(program, name)
        for i, (value, sharding) in enumerate(values):
            if sharding:
                yield dataclasses.replace(program, **{name: (*values[:i], (value, ""), *values[i + 1 :])})
    for i, statement in enumerate(program.statements):
        if statement.sharding:
            plain = dataclasses.replace(statement, sharding="")
            yield dataclasses.replace(
                program, statements=(*program.statements[:i], plain, *program.statements[i + 1 :])
            )
    if program.mesh.device_ids:
        yield dataclasses.replace(program, mesh=Mesh(program.mesh.axes))


def _less_to_compute(program: Program) -> Iterator[Program]:
    """Without what nobody uses."""
    used = {v.name for s in program.statements for v in s.operands} | {v.name for v, _ in program.results}
    kept = tuple(s for s in program.statements if s.result.name in used)
    if kept != program.statements:
        yield dataclasses.replace(program, statements=kept)
    arguments = tuple((v, s) for v, s in program.arguments if v.name in used)
    if arguments and arguments != program.arguments:
        yield dataclasses.replace(program, arguments=arguments)


def _less_to_return(program: Program) -> Iterator[Program]:
    """Without one of the results, or with what a result is made from in its place."""
    if len(program.results) > 1:
        for i in range(len(program.results)):
            yield dataclasses.replace(program, results=program.results[:i] + program.results[i + 1 :])
    makers = {s.result.name: s for s in program.statements}
    for value, _ in program.results:
        others = tuple((v, s) for v, s in program.results if v != value)
        for operand in makers[value.name].operands if value.name in makers else ():
            if operand.element == "f32" and operand.name in makers:
                yield dataclasses.replace(program, results=(*others, (operand, "")))


def shrunk(program: Program, seed: int) -> Program:
    """The smallest program found that still fails."""
    tries = 60
    progress = True
    while progress and tries:
        progress = False
        for candidate in smaller(program):
            tries -= 1
            if failure(candidate, seed):
                program, progress = candidate, True
                break
            if not tries:
                break
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    parser.add_argument("--count", type=int, default=100, help="number of programs (default: 100)")
    args = parser.parse_args()
    started, failed = time.perf_counter(), 0
    for seed in range(args.seed, args.seed + args.count):
        program = Writer(seed).program()
        if not program.results:
            continue
        if failure(program, seed):
            failed += 1
            least = shrunk(program, seed)
            print(f"// seed {seed}: {failure(least, seed)}\n{least}\n// -----", flush=True)
    print(f"// {failed} of {args.count} programs fail; {time.perf_counter() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

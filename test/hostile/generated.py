"""Programs that are made, not found: deep, long, wide and many-sided ones, and valid ones of random operations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from proof.graphs import Graph

_MESH = 'sdy.mesh @mesh = <["x"=4, "y"=2]>\n'
_X = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'


def generated(rng: Random) -> str:
    """A program."""
    if rng.random() < 0.6:
        return str(Graph(rng.randrange(10**6)).program())
    return rng.choice(_MADE)(rng)


def _main(body: str, result: str, mesh: str = _MESH, argument: str = f"%a: tensor<8xf32> {_X}") -> str:
    return (
        f"{mesh}func.func public @main({argument}) -> tensor<8xf32> {{\n{body}  return {result} : tensor<8xf32>\n}}\n"
    )


def _size(rng: Random) -> int:
    return rng.choice((1, 2, 3, 10, 10, 100, 100, 1000, 10_000))


def whiles(depth: int) -> str:
    """Loops inside loops."""
    lines = ["  %t = stablehlo.constant dense<false> : tensor<i1>\n"]
    value = "%a"
    for i in range(depth):
        lines.append(
            f"  %w{i} = stablehlo.while(%i{i} = {value}) : tensor<8xf32>\n  cond {{\n"
            f"  stablehlo.return %t : tensor<i1>\n  }} do {{\n"
        )
        value = f"%i{i}"
    for i in reversed(range(depth)):
        lines.append(f"  stablehlo.return {value} : tensor<8xf32>\n  }}\n")
        value = f"%w{i}"
    return _main("".join(lines), value)


def _conditions(rng: Random) -> str:
    depth = _size(rng)
    lines = ["  %t = stablehlo.constant dense<0> : tensor<i32>\n"]
    kind = rng.choice(("stablehlo.case", "stablehlo.if"))
    if kind == "stablehlo.if":
        lines = ["  %t = stablehlo.constant dense<true> : tensor<i1>\n"]
    of = "tensor<i1>" if kind == "stablehlo.if" else "tensor<i32>"
    other = "}, {\n  stablehlo.return %a : tensor<8xf32>\n  "
    lines += [f'  %w{i} = "{kind}"(%t) ({{\n' for i in range(depth)]
    value = "%a"
    for i in reversed(range(depth)):
        lines.append(f"  stablehlo.return {value} : tensor<8xf32>\n  {other}}}) : ({of}) -> tensor<8xf32>\n")
        value = f"%w{i}"
    return _main("".join(lines), value)


def chain(count: int, kind: str = "negate", second: str = "") -> str:
    """Operations that read the one before, twice or with another value where a `second` is given."""
    value, lines = "%a", []
    for i in range(count):
        other = f", {value if second == 'same' else second}" if second else ""
        lines.append(f"  %v{i} = stablehlo.{kind} {value}{other} : tensor<8xf32>\n")
        value = f"%v{i}"
    return _main("".join(lines), value)


def calls(depth: int, times: int, circle: bool = False) -> str:
    """Functions that call the next one so many times; the last calls the first if it is a circle."""
    texts = []
    for i in range(depth):
        value, body = "%a", ""
        following = 0 if circle and i == depth - 1 else i + 1
        for k in range(times if following < depth else 0):
            body += f"  %c{k} = call @f{following}({value}) : (tensor<8xf32>) -> tensor<8xf32>\n"
            value = f"%c{k}"
        if following == depth:
            body, value = "  %n = stablehlo.negate %a : tensor<8xf32>\n", "%n"
        head = f"func.func private @f{i}(%a: tensor<8xf32>) -> tensor<8xf32> {{\n"
        texts.append(f"{head}{body}  return {value} : tensor<8xf32>\n}}\n")
    return _main("  %0 = call @f0(%a) : (tensor<8xf32>) -> tensor<8xf32>\n", "%0") + "".join(texts)


def _deep(rng: Random) -> str:
    depth, times = rng.choice(((5, 1), (1000, 1), (5000, 1), (8, 2), (12, 2), (30, 2), (40, 3)))
    return rng.choice((
        whiles(_size(rng)), chain(_size(rng)), chain(_size(rng), "add", "same"), chain(_size(rng), "add", "%a"),
        calls(depth, times, circle=rng.random() < 0.2),
    ))  # fmt: skip


def _axes(rng: Random) -> str:
    """A mesh of strange sizes, and an array that is split over what there is."""
    sizes = rng.choice(((2,) * 14, (2,) * 30, (2147483647,), (1000000007, 2), (2**32, 2**32), (99999,), (997, 991),
                        (2,) * 64,
                        (10**9,), (1,) * 20, (2**62, 2), (3,) * 12, (2**31,), (720720,)))  # fmt: skip
    names = [f'"a{i}"' for i in range(len(sizes))]
    mesh = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
    shuffled = list(names)
    rng.choice((rng.shuffle, list.reverse))(shuffled)
    half = len(names) // 2
    first = f"[{{{', '.join(names[:half])}}}, {{{', '.join(names[half:])}}}]"
    second = f"[{{{', '.join(shuffled[half:])}}}, {{{', '.join(shuffled[:half])}}}]"
    rows = rng.choice((64, 2**20, 3))
    kind, extra = f"tensor<{rows}x64xf32>", rng.choice(("", ', unreduced={"a0"}'))
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\n"
        f"func.func public @main(%a: {kind} {{sdy.sharding = #sdy.sharding<@mesh, {first}{extra}>}}) -> ({kind} "
        f"{{sdy.sharding = #sdy.sharding<@mesh, {rng.choice((second, '[{}, {}]'))}>}}) {{\n"
        f"  %0 = stablehlo.{rng.choice(('negate', 'cosine'))} %a : {kind}\n  return %0 : {kind}\n}}\n"
    )


def _product(rng: Random) -> str:
    """Many dimensions, each split over an axis of its own, the result the other way round."""
    rank = rng.choice((2, 4, 6, 8, 10, 12, 14))
    names = [f'"a{i}"' for i in range(rank)]
    kind = f"tensor<{'2x' * rank}f32>"
    dims = f"[{', '.join(f'{{{n}}}' for n in names)}]"
    back = f"[{', '.join(f'{{{n}}}' for n in reversed(names))}]"
    listed = ", ".join(map(str, range(rank)))
    operation = rng.choice((
        f"stablehlo.add %a, %b : {kind}",
        f"stablehlo.transpose %a, dims = [{', '.join(map(str, reversed(range(rank))))}] : ({kind}) -> {kind}",
        f"stablehlo.dot_general %a, %b, batching_dims = [{listed}] x [{listed}] : ({kind}, {kind}) -> {kind}",
        f"stablehlo.reverse %a, dims = [{listed}] : {kind}",
    ))  # fmt: skip
    sharded = f"{{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}"
    mesh = ", ".join(f"{n}=2" for n in names)
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func public @main(%a: {kind} {sharded}, %b: {kind}) -> ({kind} "
        f"{{sdy.sharding = #sdy.sharding<@mesh, {back}>}}) {{\n  %0 = {operation}\n  return %0 : {kind}\n}}\n"
    )


def _constant(rng: Random) -> str:
    """A constant of every type and literal, right and wrong."""
    kind = rng.choice(("f32", "i32", "i1", "complex<f32>", "f64", "ui8", "bf16", "i4", "i0", "f8E4M3FN", "index"))
    literal = rng.choice(("0", "(0.0,1.0)", "true", "0x7FC0", '"0x"', '"0x0000803F"', "1e999", "nan", "-1", "[]",
                          "[0, 1]",
                          "[[0], [1, 2]]", "[(1,2), (3,4)]", '"abc"', "1.5", "99999999999999999999", ""))  # fmt: skip
    shape = rng.choice(("", "2x", "0x", "2x2x", "4294967296x", "?x"))
    opcode = rng.choice(("stablehlo.constant", "arith.constant", "mhlo.constant"))
    return _main(f"  %c = {opcode} dense<{literal}> : tensor<{shape}{kind}>\n", "%a")


def _locations(rng: Random) -> str:
    """Deep and odd places in the source."""
    depth = _size(rng)
    named = rng.choice(('loc("a"(', 'loc(callsite("f" at ', "loc(fused["))
    close = {"(": "))", " ": "))", "[": "])"}[named[-1]]
    inner = rng.choice(("unknown", '"f.py":1:1', '"\\FF":1:1', '"":0:0', '"a\\0Ab":4294967295:9', '"é":2:3'))
    nested = named.removeprefix("loc(") * depth + inner + close[:-1] * depth
    return _main(f"  %0 = stablehlo.sine %a : tensor<8xi32> loc({nested})\n", "%a")


def _types(rng: Random) -> str:
    depth = _size(rng)
    return _main("", "%a", argument=f"%a: tensor<8xf32> {_X}, %b: {'tuple<' * depth}tensor<f32>{'>' * depth}")


def _many(rng: Random) -> str:
    """Many arguments or results."""
    count = rng.choice((100, 1000, 3000))
    arguments = ", ".join(f"%a{i}: tensor<8xf32> {_X if i % 3 == 0 else ''}" for i in range(count))
    values, types = ", ".join(f"%a{i}" for i in range(count)), ", ".join(["tensor<8xf32>"] * count)
    return f"{_MESH}func.func public @main({arguments}) -> ({types}) {{\n  return {values} : {types}\n}}\n"


_MADE: tuple[Callable[[Random], str], ...] = (
    _deep, _deep, _deep, _conditions, _axes, _axes, _product, _constant, _constant, _locations, _types, _many,
)  # fmt: skip

BUILDERS: dict[str, Callable[..., str]] = {"whiles": whiles, "chain": chain, "calls": calls}

"""Operations that XLA gets wrong, or does not take, written so that it does not fail, whatever they stand beside.

XLA for CPUs lays an fft out as its neighbours like best, such as a gather of another dimension, but runs it only with
its dimensions in order: anything else fails when the program runs (`fft_thunk.cc`). It writes a scatter of several
operands to one buffer for all of them that are one value to XLA, as equal constants are. It exchanges the values that
an exchanged one is put together of, and refuses them if they are laid out differently. Reductions are taken to start
from identities.

Programs with manual computations go through Shardy in XLA, and what goes there is written as StableHLO again. That
cannot write `mulhi`, which XLA for CPUs also refuses beside a change of layout, nor random bits that are converted to
signed integers or floating-point numbers: it takes these for the unsigned ones they are made from.

What it lacks of the collectives that users write is in `collectives.py`, and in which order callbacks and collectives
run in `callback_order.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.repairs.callback_order import put_in_order
from gspmd.transforms.repairs.collectives import replace_missing
from gspmd.transforms.repairs.initial_values import REDUCE, count_once

_NUMBER = TensorType((), "i32")
_HALF_BITS = 32  # of the widest integers
_SHAPING = frozenset({"stablehlo.convert", "stablehlo.reshape", "stablehlo.transpose"})


def repair(root: Operation, platform: str = "") -> None:
    """Rewrite in `root`, in place, what the compiler of a JAX platform gets wrong or refuses; "" stands for any."""
    replace_missing(root, platform)
    build = Builder(context_of(root))
    for op in [op for op in root.walk() if op.name in _REPAIRS]:
        only, rewrite = _REPAIRS[op.name]
        if not only or platform in ("", only):
            build.location, build.point = op.location, Point.at(op)
            rewrite(build, op)
    if platform in ("", "cpu"):
        put_in_order(root)


def _keep_dims_in_order(build: Builder, op: Operation) -> None:
    """Ask for the order of dimensions as the layout of what an fft takes and makes."""
    if op.results[0].type.rank < 2:
        return
    op.operands[0] = _in_order(build, op.operands[0])
    build.point = Point.after(op)
    result = op.results[0]
    pinned = _in_order(build, result)
    result.replace_all_uses_with(pinned, [pinned.op])


def _in_order(build: Builder, value: Value) -> Value:
    return build.laid_out(value, range(value.type.rank))


def _keep_apart(build: Builder, op: Operation) -> None:
    """Make each operand of a scatter another value to XLA: one selected by what it cannot know to be true."""
    for number in range(1, len(op.results)):
        value = op.operands[number]
        type_ = value.type
        constant = build.constant(_NUMBER, number)
        hidden = build.op("stablehlo.optimization_barrier", [constant], [_NUMBER])
        is_same = build.compare(hidden, "EQ", constant)
        opposite = "not" if type_.element.startswith(("i", "ui")) else "negate"
        other = build.op(f"stablehlo.{opposite}", [value], [type_])
        op.operands[number] = build.op("stablehlo.select", [is_same, value, other], [type_])


def _keep_together(build: Builder, op: Operation) -> None:
    """Exchange what is put together of other values as one value that XLA cannot look into."""
    for number, value in enumerate(op.operands):
        made = value.op
        while made is not None and made.name in _SHAPING:
            made = made.operands[0].op
        if made is not None and made.name == "stablehlo.concatenate":
            op.operands[number] = build.op("stablehlo.optimization_barrier", [value], [value.type])


def _multiply_wider(build: Builder, op: Operation) -> None:
    """Make `mulhi`, the upper half of the bits of a product, from products of integers that are wide enough."""
    a, b = op.operands
    type_ = op.results[0].type
    signed = type_.element.startswith("i")
    bits = round(element_bytes(type_.element) * 8)
    if bits > _HALF_BITS:
        high = _high_of_longest(build, a, b, signed)
    else:
        wide = type_.of_element(f"{'i' if signed else 'ui'}{max(8, 2 * bits)}")
        product = build.binary("multiply", build.convert(a, wide.element), build.convert(b, wide.element))
        shift = "shift_right_arithmetic" if signed else "shift_right_logical"
        high = build.binary(shift, product, build.constant(wide, bits))
    op.replace([build.convert(high, type_.element)])


def _high_of_longest(build: Builder, a: Value, b: Value, signed: bool) -> Value:
    """The upper half of a product of 64 by 64 bits, unsigned, from the four products of their halves."""
    type_ = a.type.of_element("ui64")
    half, mask = build.constant(type_, _HALF_BITS), build.constant(type_, (1 << _HALF_BITS) - 1)

    def low(value: Value) -> Value:
        return build.binary("and", value, mask)

    def high(value: Value) -> Value:
        return build.binary("shift_right_logical", value, half)

    def product(x: Value, y: Value) -> Value:
        return build.binary("multiply", x, y)

    def total(x: Value, y: Value) -> Value:
        return build.binary("add", x, y)

    x, y = (build.convert(value, "ui64") for value in (a, b))
    one = total(product(high(x), low(y)), high(product(low(x), low(y))))  # no sum here reaches 64 bits
    other = total(product(low(x), high(y)), low(one))
    result = total(product(high(x), high(y)), total(high(one), high(other)))
    if signed:  # a negative number is its unsigned one less 2**64
        zero = build.constant(type_, 0)
        sign = build.constant(type_, 63)
        for value, factor in ((x, y), (y, x)):
            is_negative = build.compare(build.binary("shift_right_logical", value, sign), "NE", zero)
            less = build.op("stablehlo.select", [is_negative, factor, zero], [type_])
            result = build.binary("subtract", result, less)
    return result


def _draw_unsigned(build: Builder, op: Operation) -> None:
    """Draw unsigned integers and convert them, which is what XLA makes of an element type that is another."""
    type_ = op.results[1].type
    if type_.element.startswith("ui"):
        return
    drawn = type_.of_element(f"ui{round(element_bytes(type_.element) * 8)}")
    state, bits = build.ops(
        op.name, list(op.operands), [op.results[0].type, drawn], rng_algorithm=op.attributes["rng_algorithm"]
    )
    how = "bitcast_convert" if type_.element.startswith("i") else "convert"
    op.replace([state, build.op(f"stablehlo.{how}", [bits], [type_])])


_REPAIRS: dict[str, tuple[str, Callable[[Builder, Operation], None]]] = {
    "chlo.mulhi": ("", _multiply_wider),
    "stablehlo.all_to_all": ("cpu", _keep_together),
    REDUCE: ("", count_once),
    "stablehlo.fft": ("cpu", _keep_dims_in_order),
    "stablehlo.rng_bit_generator": ("", _draw_unsigned),
    "stablehlo.scatter": ("cpu", _keep_apart),
}
"""By operation: the only platform that it concerns, "" where it is in what all share, and what rewrites it."""

"""rng_bit_generator and rng: enciphered counters, so that every device computes the bits of its own shard.

The element type and the shape determine the counter of an element, as in XLA's expansion of the operation:

- THREE_FRY computes two 32-bit words per counter. They are adjacent in the first dimension of even size, or if all are
  odd in the largest one, and counters are numbered row by row. An element of 64 bits takes both words.
- PHILOX computes four words per counter, and all words are numbered row by row.

Both have this order on every platform. DEFAULT depends on the platform, so every device computes all bits.

Numbers of `rng` differ from run to run. The guarantees are that replicas of a shard are equal, and that numbers have
the requested distribution.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops.ciphers import halves, joined, philox, threefry
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits

_WIDE = TensorType((), "ui64")


def rng_bit_generator_rule(info: OpInfo) -> OpShardingRule:
    """The dimensions of the bits pass through if their counters are known; the state is whole."""
    bits = info.results[1]
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results])
    if _words(info):
        for dim, size in enumerate(bits.shape):
            builder.factor([None], [None, dim], size)
    return builder.build()


def _algorithm(info: OpInfo) -> str:
    return str(info.attributes["rng_algorithm"]).rpartition(" ")[2].rstrip(">")


def _words(info: OpInfo) -> int:
    """The number of elements per counter, 0 if unknown."""
    state, bits = info.operands[0], info.results[1]
    sizes = {"THREE_FRY": (2,), "PHILOX": (2, 3)}.get(_algorithm(info), ())
    if state.element != "ui64" or state.shape not in [(size,) for size in sizes] or 0 in bits.shape:
        return 0
    return (2 if sizes == (2,) else 4) // (2 if element_bytes(bits.element) == 8 else 1)


_Entry = TypeVar("_Entry")


@dataclasses.dataclass(frozen=True, slots=True)
class _Grid:
    """This device's part of a grid of counters: the whole grid, the part, and its start (ui64 or None)."""

    whole: tuple[int, ...]
    part: tuple[int, ...]
    begins: tuple[Value | None, ...]

    def is_contiguous(self) -> bool:
        last = max((d for d, begin in enumerate(self.begins) if begin is not None), default=0)
        return all(n == 1 for n in self.whole[:last]) and self.whole[last + 1 :] == self.part[last + 1 :]

    def first(self, emit: Emitter) -> Value:
        """The number of the part's first element, a scalar."""
        number = emit.constant(_WIDE, 0)
        for dim, begin in enumerate(self.begins):
            if begin is not None:
                stride = emit.constant(_WIDE, math.prod(self.whole[dim + 1 :]))
                number = emit.binary("add", number, emit.binary("multiply", begin, stride))
        return number

    def places(self, emit: Emitter) -> Value:
        """The number of every element of the part, row by row in the whole."""
        type_ = TensorType(self.part, "ui64")
        numbers = emit.broadcast_scalar(self.first(emit), type_)
        for dim, size in enumerate(self.part):
            if size > 1:
                steps = emit.op("stablehlo.iota", [], [type_], iota_dimension=emit.i64(dim))
                stride = emit.constant(type_, math.prod(self.whole[dim + 1 :]))
                numbers = emit.binary("add", numbers, emit.binary("multiply", steps, stride))
        return numbers


class _Generator:
    """Computes the bits of one operation on one device."""

    def __init__(self, emit: Emitter, algorithm: str, state: Value, lanes: int) -> None:
        self.emit = emit
        self.algorithm = algorithm
        self.lanes = lanes
        self.state = state
        self.words = [self._word(i) for i in range(state.type.shape[0])]
        if algorithm == "PHILOX" and len(self.words) == 2:
            self.words.append(self.words[0])  # the upper half of the counter is then the key

    def _word(self, index: int) -> Value:
        found = self.emit.op(
            "stablehlo.slice",
            [self.state],
            [TensorType((1,), "ui64")],
            start_indices=self.emit.i64s([index]),
            limit_indices=self.emit.i64s([index + 1]),
            strides=self.emit.i64s([1]),
        )
        return self.emit.reshape(found, ())

    def advanced(self, by: Value) -> list[Value]:
        """The state's words with `by` (ui64, any shape) added to the counter."""
        emit, shape = self.emit, by.type.shape
        key, low, *high = (emit.broadcast_scalar(w, TensorType(shape, "ui64")) if shape else w for w in self.words)
        total = emit.binary("add", low, by)
        carry = emit.convert(emit.compare(total, "LT", low), "ui64")
        return [key, total, *(emit.binary("add", h, carry) for h in high)]

    def state_after(self, counters: int) -> Value:
        words = self.advanced(self.emit.constant(_WIDE, counters))
        return self._stack(words[: self.state.type.shape[0]])

    def _stack(self, words: list[Value]) -> Value:
        parts = [self.emit.reshape(word, (1,)) for word in words]
        return self.emit.op(
            "stablehlo.concatenate", parts, [TensorType((len(parts),), "ui64")], dimension=self.emit.i64(0)
        )

    def words_of(self, grid: _Grid) -> list[Value]:
        """The words of the grid's counters: for each lane a tensor with the shape of the part, ui32 or ui64."""
        if grid.is_contiguous():
            return self._in_order(grid.first(self.emit), grid.part)
        return self.each(grid.places(self.emit))

    def _in_order(self, first: Value, part: tuple[int, ...]) -> list[Value]:
        """The words of consecutive counters, computed by the operation itself from a later state."""
        emit, count = self.emit, math.prod(part)
        element = "ui64" if self.lanes == (1 if self.algorithm == "THREE_FRY" else 2) else "ui32"
        paired = self.algorithm == "THREE_FRY" and self.lanes == 2
        shape = (self.lanes, count) if paired else (count, self.lanes)
        state = self._stack(self.advanced(first))
        _, made = emit.ops(
            "stablehlo.rng_bit_generator",
            [state],
            [state.type, TensorType(shape, element)],
            rng_algorithm=ir.Attribute.parse(f"#stablehlo<rng_algorithm {self.algorithm}>", emit.context),
        )
        return [self._lane(made, 0 if paired else 1, lane, part) for lane in range(self.lanes)]

    def _lane(self, made: Value, dim: int, lane: int, part: tuple[int, ...]) -> Value:
        type_ = made.type
        starts = [lane if d == dim else 0 for d in range(2)]
        shape = tuple(1 if d == dim else n for d, n in enumerate(type_.shape))
        found = self.emit.op(
            "stablehlo.slice",
            [made],
            [TensorType(shape, type_.element)],
            start_indices=self.emit.i64s(starts),
            limit_indices=self.emit.i64s([a + n for a, n in zip(starts, shape, strict=True)]),
            strides=self.emit.i64s([1, 1]),
        )
        return self.emit.reshape(found, part)

    def each(self, counters: Value) -> list[Value]:
        """The words of the counters at these offsets from the state, enciphered explicitly."""
        emit = self.emit
        key, *counter = (halves(emit, word) for word in self.advanced(counters))
        if self.algorithm == "THREE_FRY":
            made = threefry(emit, key, counter[0])
        else:
            made = philox(emit, key, (*counter[0], *counter[1]))
        if self.lanes == len(made):
            return made
        return [joined(emit, *made[i : i + 2]) for i in range(0, len(made), 2)]


def localize_rng_bit_generator(op: LocalOp) -> None:
    """Every device computes the counters for its shard; the first and last may have unused words."""
    sharding = op.result_shardings[1]
    if sharding.is_replicated():
        op.keep()
        return
    whole, local = op.info.results[1].shape, op.local_result(1).shape
    lanes = _words(op.info)
    generator = _Generator(op.emit, _algorithm(op.info), op.operands[0], lanes)
    begins = tuple(
        op.emit.shard_offset(dim.axes, local[d], "ui64") if dim.axes else None for d, dim in enumerate(sharding.dims)
    )
    bits = _bits(op.emit, generator, _Grid(whole, local, begins))
    after = generator.state_after(math.prod(_counters(generator, whole)))
    op.replace([after, _converted(op.emit, bits, op.info.results[1].element)])


def _paired_dim(shape: tuple[int, ...]) -> int:
    """The dimension in which the two words of THREE_FRY are adjacent."""
    even = [d for d, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=lambda d: shape[d])


def _counters(generator: _Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid of all counters."""
    if generator.algorithm == "PHILOX":
        return (-(-math.prod(shape) // generator.lanes),)
    if generator.lanes == 1:
        return shape
    paired = _paired_dim(shape)
    return tuple(-(-n // 2) if d == paired else n for d, n in enumerate(shape))


def _bits(emit: Emitter, generator: _Generator, elements: _Grid) -> Value:
    if not elements.part:
        return emit.reshape(_along(emit, generator, _Grid((1,), (1,), (None,)), 0), ())
    if generator.lanes == 1:
        return generator.words_of(elements)[0]
    if generator.algorithm == "THREE_FRY":
        return _along(emit, generator, elements, _paired_dim(elements.whole))
    last, start = [(d, begin) for d, begin in enumerate(elements.begins) if begin is not None][-1]
    after = elements.whole[last + 1 :]
    run = elements.whole[last] * math.prod(after)
    if run % generator.lanes and math.prod(elements.whole[:last]) > 1:
        return _picked(emit, generator, elements)
    begin = emit.binary("multiply", start, emit.constant(_WIDE, math.prod(after)))
    rows = _Grid(
        (*elements.whole[:last], run),
        (*elements.part[:last], elements.part[last] * math.prod(after)),
        (*elements.begins[:last], begin),
    )
    return emit.reshape(_along(emit, generator, rows, last), elements.part)


def _along(emit: Emitter, generator: _Generator, elements: _Grid, dim: int) -> Value:
    """Elements that come from one counter in groups of `lanes` adjacent ones along `dim`."""
    lanes, begin, size = generator.lanes, elements.begins[dim], elements.part[dim]
    aligned = begin is None or size % lanes == 0
    count = -(-size // lanes) if aligned else -(-(size + lanes - 1) // lanes)
    each = emit.constant(_WIDE, lanes)

    def replaced(values: tuple[_Entry, ...], value: _Entry) -> tuple[_Entry, ...]:
        return (*values[:dim], value, *values[dim + 1 :])

    grid = _Grid(
        replaced(elements.whole, -(-elements.whole[dim] // lanes)),
        replaced(elements.part, count),
        replaced(elements.begins, None if begin is None else emit.binary("divide", begin, each)),
    )
    parts = [emit.reshape(lane, (*grid.part[: dim + 1], 1, *grid.part[dim + 1 :])) for lane in generator.words_of(grid)]
    element = parts[0].type.element
    joint = TensorType((*grid.part[: dim + 1], lanes, *grid.part[dim + 1 :]), element)
    value = emit.op("stablehlo.concatenate", parts, [joint], dimension=emit.i64(dim + 1))
    value = emit.reshape(value, replaced(grid.part, count * lanes))
    if aligned:
        return emit.slice(value, elements.part)
    assert begin is not None, "what begins with the dimension is aligned"
    zero, start = emit.constant(_WIDE, 0), emit.binary("remainder", begin, each)
    return emit.op(
        "stablehlo.dynamic_slice",
        [value, *(start if d == dim else zero for d in range(len(elements.part)))],
        [TensorType(elements.part, element)],
        slice_sizes=emit.i64s(elements.part),
    )


def _picked(emit: Emitter, generator: _Generator, elements: _Grid) -> Value:
    """Rows that start inside a counter's words: every element computes all words of its counter and selects one."""
    type_, place = TensorType(elements.part, "ui64"), elements.places(emit)
    lanes = emit.constant(type_, generator.lanes)
    words = generator.each(emit.binary("divide", place, lanes))
    lane = emit.binary("remainder", place, lanes)
    value = words[0]
    for index, word in enumerate(words[1:], 1):
        chosen = emit.compare(lane, "EQ", emit.constant(type_, index))
        value = emit.op("stablehlo.select", [chosen, word, value], [word.type])
    return value


def _converted(emit: Emitter, bits: Value, element: str) -> Value:
    """Random words as elements: the low bits of integers, or floats with the value of such an integer."""
    type_ = bits.type
    width = round(element_bytes(element) * 8)
    unsigned = emit.convert(bits, f"ui{width}")
    if element == f"i{width}":
        return emit.op("stablehlo.bitcast_convert", [unsigned], [TensorType(type_.shape, element)])
    return emit.convert(unsigned, element)


def rng_rule(info: OpInfo) -> OpShardingRule:
    """Every number is independent. Raises Unsupported for element types without random bits."""
    result = info.results[0]
    if _is_float(result.element) and result.element not in _MANTISSA_BITS:
        raise Unsupported(
            f"draws numbers of type {result.element}", hint="draw 'f32' and convert them", code=Code.OPERATION
        )
    builder = RuleBuilder([t.shape for t in info.operands], [result.shape])
    for dim, size in enumerate(result.shape):
        builder.factor([None] * len(info.operands), [dim], size)
    return builder.build()


def localize_rng(op: LocalOp) -> None:
    """The first device draws a seed, which all devices get and from which each computes the numbers of its shard.

    So replicas of a shard are equal, and shards differ.
    """
    emit, result, local = op.emit, op.info.results[0], op.local_result(0)
    sharding = op.result_shardings[0]
    if emit.mesh.size == 1:
        op.keep()
        return
    generator = _Generator(emit, "THREE_FRY", _seed(op), 1 if element_bytes(result.element) == 8 else 2)
    begins = tuple(
        emit.shard_offset(dim.axes, local.shape[d], "ui64") if dim.axes else None for d, dim in enumerate(sharding.dims)
    )
    bits = _bits(emit, generator, _Grid(result.shape, local.shape, begins)) if math.prod(local.shape) else None
    if bits is None:
        op.replace([emit.constant(local, 0)])
    elif not _is_float(result.element):
        op.replace([_whole_numbers(op, bits)])
    elif "NORMAL" in str(op.info.attributes["rng_distribution"]):
        op.replace([_normal(op, bits)])
    else:
        op.replace([_uniform(op, bits)])


def _seed(op: LocalOp) -> Value:
    """A state drawn by the first device and summed with zeros from all others."""
    emit, type_ = op.emit, TensorType((4,), "ui32")
    scalar = TensorType((), "ui32")
    shape = emit.op(
        "stablehlo.constant",
        [],
        [TensorType((1,), "i64")],
        value=ir.DenseElementsAttr.get(np.array([4], np.int64), context=emit.context),
    )
    bounds = [emit.constant(scalar, 0), emit.constant(scalar, "highest")]
    distribution = ir.Attribute.parse("#stablehlo<rng_distribution UNIFORM>", emit.context)
    drawn = emit.op("stablehlo.rng", [*bounds, shape], [type_], rng_distribution=distribution)
    axes = emit.mesh.all_axes()
    first = emit.compare(emit.shard_index(axes), "EQ", emit.constant(INDEX, 0))
    drawn = emit.op("stablehlo.select", [first, drawn, emit.constant(type_, 0)], [type_])
    cause = op.cause("'stablehlo.rng' gives other numbers on every device: all take the seed of the first")
    seed = emit.all_reduce(drawn, axes, "add", cause)
    pairs = emit.reshape(seed, (2, 2))
    return emit.op("stablehlo.bitcast_convert", [pairs], [TensorType((2,), "ui64")])


def _is_float(element: str) -> bool:
    return not element.lstrip("u").startswith("i")


_MANTISSA_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


def _fraction(emit: Emitter, bits: Value, element: str, wide: str) -> Value:
    """Evenly spaced numbers in [0, 1), each exact in `element`, computed in `wide`."""
    type_ = bits.type
    digits = _MANTISSA_BITS[element]
    shift = emit.constant(type_, round(element_bytes(type_.element) * 8) - digits)
    number = emit.convert(emit.binary("shift_right_logical", bits, shift), wide)
    return emit.binary("multiply", number, emit.constant(number.type, 2.0**-digits))


def _bounds(op: LocalOp, element: str) -> list[Value]:
    """The two parameters of the operation, broadcast to all elements."""
    type_ = TensorType(op.local_result(0).shape, element)
    return [
        op.emit.broadcast_scalar(op.emit.convert(value, element), type_) if type_.shape else value
        for value in op.operands[:2]
    ]


def _uniform(op: LocalOp, bits: Value) -> Value:
    """Uniform between the first and the second parameter, which must not be reached by rounding."""
    emit, element = op.emit, op.info.results[0].element
    low, high = _bounds(op, element)
    type_ = low.type
    value = emit.binary("multiply", _fraction(emit, bits, element, element), emit.binary("subtract", high, low))
    value = emit.binary("add", value, low)
    return emit.op("stablehlo.select", [emit.compare(value, "LT", high), value, low], [type_])


def _normal(op: LocalOp, bits: Value) -> Value:
    """Normal with the first parameter as mean and the second as standard deviation, by inversion."""
    emit, element = op.emit, op.info.results[0].element
    wide = "f64" if element == "f64" else "f32"
    mean, deviation = (emit.convert(value, wide) for value in _bounds(op, element))
    type_ = mean.type
    digits = _MANTISSA_BITS[wide]
    middle = emit.binary("add", _fraction(emit, bits, wide, wide), emit.constant(type_, 2.0 ** -(digits + 1)))
    doubled = emit.binary("multiply", middle, emit.constant(type_, 2.0))
    centered = emit.binary("subtract", doubled, emit.constant(type_, 1.0))
    value = emit.op("chlo.erf_inv", [centered], [type_])
    value = emit.binary("multiply", value, emit.constant(type_, math.sqrt(2.0)))
    value = emit.binary("add", emit.binary("multiply", value, deviation), mean)
    return emit.convert(value, element)


def _whole_numbers(op: LocalOp, bits: Value) -> Value:
    """Integers from the first parameter to below the second."""
    emit, element, wide = op.emit, op.info.results[0].element, bits.type.element
    low, high = _bounds(op, wide)
    span = emit.binary("subtract", high, low)
    return emit.convert(emit.binary("add", emit.binary("remainder", bits, span), low), element)


def random_flops(info: OpInfo) -> float:
    return float(math.prod(info.results[-1].shape))


_FLOPS = Flops("elementwise", random_flops)

OPS = op_table(
    [
        OpDef(
            "stablehlo.rng_bit_generator",
            rng_bit_generator_rule,
            localize_rng_bit_generator,
            traits=Traits(flops=_FLOPS),
        ),
        OpDef(
            "stablehlo.rng",
            rng_rule,
            localize_rng,
            replicable=False,
            traits=Traits(flops=_FLOPS, pure=False, diverges=True),
        ),
    ]
)

"""The block ciphers behind `rng_bit_generator`, on tensors of counters.

Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011): Threefry-2x32 with 20 rounds and
Philox-4x32 with 10.
"""

from __future__ import annotations

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.operations import Value

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def threefry(emit: Builder, key: tuple[Value, Value], block: tuple[Value, Value]) -> list[Value]:
    """Two words of random bits for every counter; words, low before high, are ui32 tensors of one shape."""
    type_ = block[0].type
    keys = [*key, emit.binary("xor", emit.binary("xor", *key), emit.constant(type_, _PARITY))]
    left, right = (emit.binary("add", word, k) for word, k in zip(block, key, strict=True))
    for turn in range(5):
        for bits in _ROTATIONS[turn % 2]:
            left = emit.binary("add", left, right)
            right = emit.binary("xor", _rotated(emit, right, bits), left)
        left = emit.binary("add", left, keys[(turn + 1) % 3])
        injected = emit.binary("add", keys[(turn + 2) % 3], emit.constant(type_, turn + 1))
        right = emit.binary("add", right, injected)
    return [left, right]


def _rotated(emit: Builder, word: Value, bits: int) -> Value:
    type_ = word.type
    high = emit.binary("shift_left", word, emit.constant(type_, bits))
    low = emit.binary("shift_right_logical", word, emit.constant(type_, 32 - bits))
    return emit.binary("or", high, low)


def philox(emit: Builder, key: tuple[Value, Value], block: tuple[Value, Value, Value, Value]) -> list[Value]:
    """Four words of random bits for every counter of four; words, lowest first, are ui32 tensors of one shape."""
    type_ = block[0].type
    words, keys = list(block), list(key)
    for _ in range(10):
        first, second = (_product(emit, words[2 * i], _MULTIPLIERS[i]) for i in range(2))
        words = [
            emit.binary("xor", emit.binary("xor", second[1], words[1]), keys[0]),
            second[0],
            emit.binary("xor", emit.binary("xor", first[1], words[3]), keys[1]),
            first[0],
        ]
        keys = [emit.binary("add", k, emit.constant(type_, w)) for k, w in zip(keys, _WEYL, strict=True)]
    return words


def _product(emit: Builder, word: Value, factor: int) -> tuple[Value, Value]:
    """The low and the high word of a product."""
    wide = emit.convert(word, "ui64")
    return halves(emit, emit.binary("multiply", wide, emit.constant(wide.type, factor)))


def halves(emit: Builder, value: Value) -> tuple[Value, Value]:
    """The low and the high words (ui32) of ui64 values."""
    high = emit.binary("shift_right_logical", value, emit.constant(value.type, 32))
    return emit.convert(value, "ui32"), emit.convert(high, "ui32")


def joined(emit: Builder, low: Value, high: Value) -> Value:
    """The inverse of `halves`."""
    wide = emit.convert(high, "ui64")
    wide = emit.binary("shift_left", wide, emit.constant(wide.type, 32))
    return emit.binary("or", wide, emit.convert(low, "ui64"))

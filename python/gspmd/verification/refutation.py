"""Finds an element that differs, by computing numbers."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

import numpy as np

from gspmd.verification import index_maps, numbers
from gspmd.verification.algebra import Algebra
from gspmd.verification.computing import Computing
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.equality import Mismatch
from gspmd.verification.index_maps import IndexMap, Integers, Label, TooLarge, digit, dim, set_map
from gspmd.verification.terms import SET
from gspmd.verification.values import SymbolicValue
from gspmd.verification.verdicts import WrongElement
from gspmd.verification.witness import Numbers, Undefined, Uninterpreted, Witness

_TRIES = 48
_MIN_DIFFERENCE = 1e-3  # for numbers around 1: constants may have been rounded to narrower types


def refuting(
    algebra: Algebra,
    computing: Computing,
    devices: DeviceDigits,
    promised: SymbolicValue,
    found: SymbolicValue,
    places: dict[Label, IndexMap],
    differs: Mismatch,
) -> WrongElement | None:
    """An element that differs from the promised one for some arguments; None if a few tries find none."""
    rng = random.Random(0)
    for number in range(_TRIES):
        at = differs.place if number < _TRIES // 2 else {}
        place = _completed(devices, promised, at, rng, known=bool(at))
        if any(_at(mask, place) != 1 for mask in (*promised.valid, *found.valid)):
            continue
        read, pair = functools.partial(drawn, number), (promised, found)
        try:
            first = [_numbers(algebra, Witness(read, algebra.terms.opaque, computing, False), v, place) for v in pair]
            if not differ(*first).any():
                continue
            second = [_numbers(algebra, Witness(read, algebra.terms.opaque, computing, True), v, place) for v in pair]
        except Undefined:
            continue
        except (Uninterpreted, TooLarge):
            return None
        if surely_differ(first, second).any():
            index = tuple(place[dim(d)] for d in range(len(promised.shape)))
            whole = tuple(_at(places[dim(d)], place) for d in range(len(promised.shape)))
            return WrongElement(int(devices.ids[devices.position(place)]), index, whole)
    return None


def _completed(
    devices: DeviceDigits, value: SymbolicValue, at: dict[Label, int], rng: random.Random, known: bool
) -> dict[Label, int]:
    """A place on a device; labels that are not given are 0 if `known`, else random."""
    place = {digit(i): 0 if known else rng.randrange(radix) for i, radix in enumerate(devices.radices)}
    place |= {dim(d): 0 if known else rng.randrange(max(size, 1)) for d, size in enumerate(value.shape)}
    return place | at


def _at(each: IndexMap, place: dict[Label, int]) -> int:
    return int(each.at(place))


def _numbers(algebra: Algebra, witness: Witness, value: SymbolicValue, place: dict[Label, int]) -> Numbers:
    if any(label.kind == "bound" for label in value.labels()):  # devices have shards of a whole operand
        value = algebra.moved(value, value.shape, {label: index_maps.constant(at) for label, at in place.items()})
    row = []
    for kind, each in zip(value.term.kinds, value.maps, strict=True):
        row.append(set_map((), each.at(place)).number if kind == SET else _at(each, place))
    return witness.values(value.term, np.array([row], np.int64).reshape(1, -1))


def drawn(seed: int, number: int, element: str, index: Integers) -> Numbers:
    """Pseudo-random elements of an argument: floats from 0.5 to 1.5 and integers from 0 to 4.

    For odd seeds, floats are from -4 to 4, and integers from -4 to 11.
    """
    mixed = np.full(len(index), 1 + 7919 * (number + 1) + 104729 * (seed // 2), np.uint64)
    for column in range(index.shape[1]):
        mixed = (mixed ^ index[:, column].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    if numbers.is_float(element):
        unit = (mixed % np.uint64(1 << 20)).astype(np.float64) / (1 << 20)
        return (unit - 0.5) * 8 if seed % 2 else unit + 0.5
    if element.startswith("complex<"):
        part = element.removeprefix("complex<").removesuffix(">")
        return drawn(seed, number, part, index) + 1j * drawn(seed, number + 1, part, index)
    if numbers.bits_of(element) is None:
        raise Uninterpreted
    if element == "i1":
        return (mixed % np.uint64(2)).astype(np.int64)
    whole = (mixed % np.uint64(16)).astype(np.int64) - 4 if seed % 2 else (mixed % np.uint64(5)).astype(np.int64)
    return numbers.wrapped(np.abs(whole) if element.startswith("u") else whole, element)


def differ(left: Numbers, right: Numbers) -> Numbers:
    """Where two numbers differ by more than rounding."""
    a, b = np.asarray(left), np.asarray(right)
    scale = np.maximum(1, np.minimum(np.abs(a), np.abs(b)))
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        near = np.abs(a - b) <= _MIN_DIFFERENCE * scale
    unlike: Numbers = (a != b) & ~near
    return np.where(np.isnan(a) | np.isnan(b), np.isnan(a) != np.isnan(b), unlike)


def surely_differ(first: Sequence[Numbers], second: Sequence[Numbers]) -> Numbers:
    """Where numbers differ from the wanted ones, whatever is chosen where both programs leave something open.

    Both pairs, of wanted and found numbers, are from one choice each. The wanted number must not depend on it.
    """
    found: Numbers = differ(*first) & differ(*second) & ~differ(first[0], second[0])
    return found

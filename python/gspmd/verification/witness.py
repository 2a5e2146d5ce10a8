"""Evaluates terms to numbers, to show that two terms that differ have different numbers.

Floats are computed in double precision, and integers wrap around as their types do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gspmd.runtime.dtypes import numpy_dtype
from gspmd.verification import numbers
from gspmd.verification.algebra import BITCAST, PIECE, PIECES
from gspmd.verification.blocks import ANY
from gspmd.verification.computing import Computing
from gspmd.verification.index_maps import IndexMap, Integers, Label, bound, set_numbers
from gspmd.verification.not_known import NotKnown
from gspmd.verification.ranges import limits_of_type
from gspmd.verification.terms import (
    ANY_ONE,
    ARGUMENT,
    CHOICE,
    CONSTANT,
    INTEGER,
    NOTHING,
    RANGE,
    SUM,
    BoundSlot,
    Opaque,
    Term,
)

Numbers = npt.NDArray[Any]
Read = Callable[[int, str, Integers], Numbers]
"""Gives the elements of an argument with this number and type, at indices [elements, dimensions]."""

MAX_ROWS = 1 << 17
_COST = 64  # of a term, in rows


class Uninterpreted(Exception):
    """A term cannot be evaluated: it has an unknown operation, or too many rows."""


class Undefined(Uninterpreted):
    """An element is not defined, such as a quotient of integers by zero, or does not matter."""


Places: TypeAlias = Mapping[Label, Integers]
"""The indices along whole operands, for each row."""


class Witness:
    """Evaluates terms for given arguments. Raises Uninterpreted for terms that it cannot evaluate.

    Opaque operations are those of `terms`; `computing` computes them. What is left open is chosen, and is chosen
    `otherwise` if that is true: the order of what may be done in any order, and whether floats are rounded towards 0
    or away from it where their bits are taken. Without a choice, only bits are computed that need no rounding.
    """

    def __init__(
        self,
        read: Read,
        opaque: Mapping[Any, Opaque] | None = None,
        computing: Computing | None = None,
        otherwise: bool | None = None,
    ) -> None:
        self._read = read
        self._opaque = opaque or {}
        self._computing = computing or Computing()
        self._otherwise = otherwise
        self._rows = 0
        self._known: dict[tuple[Term, tuple[Label, ...], bytes], Numbers] = {}

    def values(self, term: Term, rows: Integers, places: Places | None = None) -> Numbers:
        """The value of a term for each row of integers to which its slots are bound; sets by number."""
        labels = tuple(sorted(label for label in places or {} if label.number < term.free_label))
        columns = [places[label][:, None] for label in labels] if places else []
        unique, inverse = np.unique(np.concatenate([rows, *columns], axis=1), axis=0, return_inverse=True)
        key = (term, labels, unique.tobytes())
        if key not in self._known:
            self._rows += _COST + len(unique)
            if self._rows > MAX_ROWS:
                raise Uninterpreted
            count = rows.shape[1]
            there = {label: unique[:, count + number] for number, label in enumerate(labels)}
            self._known[key] = self._of(term, unique[:, :count], there)
        return self._known[key][inverse.reshape(-1)]

    def _of(self, term: Term, rows: Integers, places: Places) -> Numbers:
        kind = term.kind
        if kind == CONSTANT:
            return np.full(len(rows), _decoded(np.int64(int(term.operation[1])), term.element))  # type: ignore[call-overload]
        if kind == INTEGER:
            return np.asarray(_decoded(_defined(self._ref(term.own[0], rows, places)), term.element))
        if kind == ARGUMENT:
            index = [_defined(self._ref(ref, rows, places)) for ref in term.own]
            table = np.stack(index, axis=-1) if index else np.zeros((len(rows), 0), np.int64)
            return self._read(int(term.operation[1]), term.element, table)  # type: ignore[call-overload]
        if kind == CHOICE:
            return self._choice(term, rows, places)
        if kind == SUM:
            return self._sum(term, rows, places)
        if kind == RANGE:
            return self._range(term, rows, places)
        if (known := self._opaque.get(term.operation)) is not None:
            return self._of_whole_operands(term, known, rows, places)
        parts = [
            self.values(part, self._bound(refs, rows, places), places)
            for part, refs in zip(term.parts, term.refs, strict=True)
        ]
        return _computed(term, parts, len(rows), self._otherwise)

    def _ref(self, ref: Any, rows: Integers, places: Places) -> Integers:
        if isinstance(ref, int):
            return rows[:, ref]
        assert isinstance(ref, IndexMap)
        if any(label not in places for label in ref.labels):
            raise Uninterpreted  # of a loop
        table = (set_numbers(ref) if ref.is_set else ref).spread(ref.labels)
        return np.array(np.broadcast_to(table[tuple(places[label] for label in ref.labels)], len(rows)))

    def _bound(self, refs: tuple[Any, ...], rows: Integers, places: Places) -> Integers:
        columns = [self._ref(ref, rows, places) for ref in refs]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(rows), 0), np.int64)

    def _of_whole_operands(self, term: Term, opaque: Opaque, rows: Integers, places: Places) -> Numbers:
        """The results of an operation, which is computed for one row after another."""
        own = np.stack([self._ref(ref, rows, places) for ref in term.own], axis=-1) if term.own else rows[:, :0]
        found = []
        for number in range(len(rows)):
            row, here = rows[number : number + 1], {label: at[number : number + 1] for label, at in places.items()}
            begin, operands = opaque.first_label, []
            for part, refs, dims, given in zip(term.parts, term.refs, opaque.operands, opaque.op.operands, strict=True):
                sizes = [dim[1] for dim in dims if isinstance(dim, tuple)]
                count = math.prod(sizes)
                index = np.indices(sizes).reshape(len(sizes), count)
                there = {label: np.repeat(at, count) for label, at in here.items()}
                there |= {bound(begin + axis): at for axis, at in enumerate(index)}
                begin += len(sizes)
                table = self._bound(refs, np.repeat(row, count, axis=0), there)
                values = self.values(part, table, there) if count else np.zeros(0)
                shape = [dim[1] if isinstance(dim, tuple) else 1 for dim in dims]
                operands.append(np.broadcast_to(values.reshape(shape), given.type.shape).astype(dtype_of(part.element)))
            try:
                result = self._computing.results(opaque.op, operands, bool(self._otherwise))[opaque.number]
            except NotKnown:
                raise Uninterpreted from None
            at = dict(zip([d for d, _ in opaque.whole], own[number], strict=True))
            found.append(result[tuple(int(at.get(d, 0)) for d in range(result.ndim))])
        made = np.asarray(found)
        return made.astype(np.int64) if numbers.bits_of(term.element) is not None else made

    def _choice(self, term: Term, rows: Integers, places: Places) -> Numbers:
        which = _defined(self._ref(term.own[0], rows, places))
        found: Numbers | None = None
        for number, (part, refs) in enumerate(zip(term.parts, term.refs, strict=True)):
            here = which == number
            if here.any():
                there = {label: at[here] for label, at in places.items()}
                values = self.values(part, self._bound(refs, rows[here], there), there)
                found = np.zeros(len(rows), values.dtype) if found is None else found
                found[here] = values
        assert found is not None
        return found

    def _range(self, term: Term, rows: Integers, places: Places) -> Numbers:
        (part,), (refs,) = term.parts, term.refs
        values = self.values(part, self._bound(refs, rows, places), places)
        if part.element == "ui64" and (values < 0).any():
            raise Uninterpreted  # these are stored as negative ones
        low, high = (_defined(self._ref(ref, rows, places)) for ref in term.own)
        least, most = limits_of_type(part.element)
        return np.asarray(((low <= values) | (low == least)) & ((values <= high) | (high == most)), np.int64)

    def _sum(self, term: Term, rows: Integers, places: Places) -> Numbers:
        sets = [self._ref(ref, rows, places) for ref in term.own]
        neutral = _neutral(str(term.operation[1]), term.element)
        made = []
        for place, chosen in enumerate(np.stack(sets, axis=-1)):
            row, here = rows[place : place + 1], {label: at[place : place + 1] for label, at in places.items()}
            tables = [_members(int(number)) for number in chosen]
            counts = [len(table) for table in tables]
            total = int(np.prod(counts, dtype=np.int64))
            if total + self._rows > MAX_ROWS:
                raise Uninterpreted
            if not total:
                made.append(neutral)
                continue
            at = np.stack([g.reshape(-1) for g in np.meshgrid(*map(np.arange, counts), indexing="ij")], axis=-1)
            columns = []
            for ref in term.refs[0]:
                if isinstance(ref, BoundSlot):
                    columns.append(tables[ref.of][at[:, ref.of], ref.column])
                else:
                    columns.append(np.broadcast_to(self._ref(ref, row, here), (total,)))
            inner = np.stack(columns, axis=-1) if columns else np.zeros((total, 0), np.int64)
            times = np.prod([table[at[:, j], -1] for j, table in enumerate(tables)], axis=0)
            there = {label: np.repeat(at, total) for label, at in here.items()}
            values = self.values(term.parts[0], inner, there)
            with np.errstate(all="ignore"):
                made.append(_combined(str(term.operation[1]), term.element, values, times))
        return np.asarray(made)


def dtype_of(element: str) -> Any:
    if numbers.is_float(element):
        return np.float64
    if element.startswith("complex<"):
        return np.complex128
    if numbers.bits_of(element) not in (1, 8, 16, 32, 64):
        raise Uninterpreted
    return numpy_dtype(element)


def _defined(table: Integers) -> Integers:
    """Integers that are all defined, and all matter."""
    if (table == ANY).any():
        raise Undefined
    return table


def _members(number: int) -> Integers:
    """The rows of a set."""
    table = IndexMap._sets[number].table
    found: Integers = table[table[:, -1] != 0]
    return found


def _decoded(bits: Any, element: str) -> Any:
    if numbers.is_float(element):
        return np.asarray(bits, np.int64).view(np.float64)
    if numbers.bits_of(element) is None and bits:
        raise Uninterpreted
    return bits


def _neutral(monoid: str, element: str) -> Any:
    if monoid.startswith(ANY_ONE):
        return ANY
    bits = numbers.neutral(monoid, element)
    if bits is None:
        raise Uninterpreted
    return _decoded(np.int64(bits), element)


def _combined(monoid: str, element: str, values: Numbers, times: Integers) -> Any:
    if monoid.startswith(ANY_ONE):
        found = values[values != ANY]
        if len(found) > 1:
            raise Undefined
        return found[0] if len(found) else ANY
    if monoid == "add":
        return _kept(np.sum(values if (times == 1).all() else values * times), element)
    if monoid == "multiply":
        return _kept(np.prod(values**times), element)
    if monoid not in _REDUCE or (element == "ui64" and f"stablehlo.{monoid}" in numbers.OF_SIGNS and values.min() < 0):
        raise Uninterpreted
    return _REDUCE[monoid](values if monoid != "xor" else values * (times % 2))


def _kept(values: Any, element: str) -> Any:
    return numbers.wrapped(values, element) if numbers.bits_of(element) is not None else values


_REDUCE: dict[str, Callable[[Numbers], Any]] = {
    "maximum": np.max,
    "minimum": np.min,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


_OF_COMPLEX: dict[str, Callable[..., Numbers]] = {
    "stablehlo.complex": lambda real, imaginary: np.stack([real, imaginary], axis=-1).view(np.complex128)[..., 0],
    "stablehlo.real": np.real,
    "stablehlo.imag": np.imag,
    **{
        f"stablehlo.{name}": numbers.OF_FLOATS[f"stablehlo.{name}"]
        for name in ("add", "subtract", "multiply", "divide", "negate", "abs", "exponential", "tanh", "sine", "cosine")
    },
}


def _computed(term: Term, parts: list[Numbers], count: int, away: bool | None) -> Numbers:
    name, *rest = map(str, term.operation)
    source = term.parts[-1].element if term.parts else ""
    if source == "ui64" and name in numbers.OF_SIGNS and any((part < 0).any() for part in parts):
        raise Uninterpreted  # these are stored as negative ones
    with np.errstate(all="ignore"):
        if name == "stablehlo.compare" and "total" not in rest:
            return np.asarray(numbers.COMPARE[rest[0]](*parts)).astype(np.int64)
        if name == "stablehlo.select":
            return np.where(parts[0] == 1, parts[1], parts[2])
        if name in (BITCAST, PIECE, PIECES):
            return _of_bits(name, term, parts, away)
        if name == NOTHING:
            return np.full(count, ANY, np.float64 if numbers.is_float(term.element) else np.int64)
        if name.startswith(ANY_ONE):
            return np.where(parts[1] == ANY, *parts)
        if name == "stablehlo.convert":
            return _converted(parts[0], source, term.element)
        if numbers.bits_of(source) is not None:
            found = numbers.of_integers(term.operation, source, term.element, parts)
            if found is None:
                raise Uninterpreted
            return _defined(np.asarray(found))
        if name in _OF_COMPLEX and (source.startswith("complex<") or name == "stablehlo.complex"):
            return np.asarray(_OF_COMPLEX[name](*parts))
        if numbers.is_float(source) and name in numbers.OF_FLOATS:
            return np.asarray(numbers.OF_FLOATS[name](*parts))
    raise Uninterpreted


_ROUNDED = frozenset({"f32", "f64"})
_FLOATS = frozenset({"f16", "bf16", *_ROUNDED})
"""Types of floats whose bits are computed, and those whose rounding matters less than a difference of numbers."""


def _of_bits(name: str, term: Term, parts: list[Numbers], away: bool | None) -> Numbers:
    source, element = term.parts[0].element, term.element
    bits = [_bits(part, source, away) for part in (parts[:1] if name == PIECE else parts)]
    if name == PIECE:
        return _with_bits(bits[0] >> parts[1] * _width(element), element)
    width = _width(source)
    mask = np.int64(-1 if width == 64 else (1 << width) - 1)
    return _with_bits(sum(((each & mask) << number * width for number, each in enumerate(bits)), np.int64(0)), element)


def _width(element: str) -> int:
    width = numbers.bits_of(element) or (numpy_dtype(element).itemsize * 8 if element in _FLOATS else 0)
    if width < 8:
        raise Uninterpreted
    return width


def _bits(values: Numbers, element: str, away: bool | None) -> Integers:
    width = _width(element)
    if element not in _FLOATS:
        return np.asarray(values, np.int64)
    narrow = values.astype(numpy_dtype(element))
    bits: Integers = narrow.view(f"int{width}").astype(np.int64)
    if away is None or element not in _ROUNDED:
        if not (narrow == values).all():
            raise Uninterpreted  # its bits depend on rounding
        return bits
    rounded, exact = np.abs(narrow.astype(np.float64)), np.abs(values)
    nan = np.array(np.nan, narrow.dtype).view(f"int{width}").astype(np.int64) + away  # there are many
    return np.where(np.isnan(values), nan, bits + (rounded < exact if away else -1 * (rounded > exact)))


def _with_bits(bits: Any, element: str) -> Numbers:
    width = _width(element)
    if element not in _FLOATS:
        return np.asarray(numbers.wrapped(bits, element))
    return np.asarray(bits).astype(f"int{width}").view(numpy_dtype(element)).astype(np.float64)


def _converted(values: Numbers, source: str, element: str) -> Numbers:
    if numbers.is_float(element):
        return np.asarray(values, np.float64)
    if numbers.bits_of(element) is None:
        raise Uninterpreted
    if element == "i1":
        return np.asarray(values != 0, np.int64)
    whole = (
        np.trunc(np.nan_to_num(values)).clip(-(2**62), 2**62).astype(np.int64) if numbers.is_float(source) else values
    )
    return np.asarray(numbers.wrapped(whole, element))

"""Conditions on integers in normal form, for every integer of a narrow type, on four devices."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from gspmd.verification.conditions import Conditions
from gspmd.verification.index_maps import IndexMap, constant, counted, digit, dim, integer_map
from gspmd.verification.numbers import COMPARE, range_of_type, wrapped
from gspmd.verification.terms import RANGE, TermTable
from gspmd.verification.values import SymbolicValue
from gspmd.verification.witness import Undefined, Witness

_DEVICES = 4
Numbers = np.ndarray[Any, Any]
Made = tuple[SymbolicValue, Numbers]
"""A value, and its number on every device for every integer that the argument may be."""


class _Drawn:
    """Draws conditions on the only argument, an integer, and computes them with NumPy."""

    def __init__(self, element: str, seed: int) -> None:
        self.draw, self.element, (self.least, self.most) = random.Random(seed), element, range_of_type(element)
        self.algebra = Conditions(TermTable())
        self.all = np.broadcast_to(np.arange(self.least, self.most + 1), (_DEVICES, self.most + 1 - self.least))
        term = self.algebra.terms.argument(0, element, 1)
        self.argument = self.algebra.value(term, [counted(dim(0), self.all.shape[1])], self.all.shape[1:])

    def number(self) -> Made:
        """A known number, the same or another one on every device."""
        ends = [self.least, self.least + 1, -1, 0, 1, 5, self.most - 1, self.most]
        taken = [n for n in ends if self.least <= n <= self.most]
        draws = [self.draw.choice([*taken, self.draw.randint(self.least, self.most)]) for _ in range(_DEVICES)]
        numbers = np.array(draws if self.draw.random() < 0.5 else draws[:1] * _DEVICES)
        each = integer_map([digit(0)], numbers) if len(set(numbers)) > 1 else constant(int(numbers[0]))
        return self.algebra.number(each, self.element, self.argument.shape), np.broadcast_to(
            numbers[:, None], self.all.shape
        )

    def integer(self, depth: int) -> Made:
        kind = (
            self.draw.choice(["argument", "add", "subtract", "from", "clamp", "select", "negate"])
            if depth
            else "argument"
        )
        if kind == "argument":
            return self.argument, self.all
        (value, numbers), (known, other) = self.integer(depth - 1), self.number()
        if kind == "clamp":
            high, most = self.number()
            made = self.algebra.elementwise(("stablehlo.clamp",), self.element, [known, value, high])
            return made, np.minimum(np.maximum(numbers, other), most)
        if kind == "select":
            condition, holds = self.condition(depth - 1)
            other_value, others = self.draw.choice([(known, other), self.integer(depth - 1)])
            made = self.algebra.elementwise(("stablehlo.select",), self.element, [condition, value, other_value])
            return made, np.where(holds == 1, numbers, others)
        if kind == "negate":
            made = self.algebra.elementwise(("stablehlo.negate",), self.element, [value])
            return made, wrapped(-numbers, self.element)
        if kind == "from":
            made = self.algebra.elementwise(("stablehlo.subtract",), self.element, [known, value])
            return made, wrapped(other - numbers, self.element)
        made = self.algebra.elementwise((f"stablehlo.{kind}",), self.element, [value, known])
        return made, wrapped(numbers + other if kind == "add" else numbers - other, self.element)

    def condition(self, depth: int) -> Made:
        kind = self.draw.choice(["compare", "compare", "and", "and", "or", "not"]) if depth else "compare"
        if kind == "compare":
            (value, numbers), (known, other) = self.integer(depth), self.number()
            direction = self.draw.choice(list(COMPARE))
            made = self.algebra.elementwise(("stablehlo.compare", direction, self.element), "i1", [value, known])
            return made, COMPARE[direction](numbers, other) * 1
        first, holds = self.condition(depth - 1)
        if kind == "not":
            return self.algebra.elementwise(("stablehlo.not",), "i1", [first]), 1 - holds
        second, also = self.condition(depth - 1)
        made = self.algebra.elementwise((f"stablehlo.{kind}",), "i1", [first, second])
        return made, holds & also if kind == "and" else holds | also

    def computed(self, value: SymbolicValue) -> Numbers:
        """What the normal form of a value is on every device."""

        def read(number: int, element: str, index: Numbers) -> Numbers:
            return index[:, 0] + self.least

        def of(each: IndexMap, device: int) -> Numbers:
            return np.broadcast_to(each.spread([digit(0), dim(0)]), self.all.shape)[device]

        rows = [
            np.stack([of(each, device) for each in value.maps], axis=-1)
            if value.maps
            else np.zeros((self.all.shape[1], 0), int)
            for device in range(_DEVICES)
        ]
        witness = Witness(read)
        return np.stack([witness.values(value.term, each) for each in rows])


@pytest.mark.parametrize("element", ["i8", "ui8"])
def test_conditions_hold_for_the_same_integers_in_normal_form(element: str) -> None:
    undefined = ranges = 0
    for seed in range(400):
        drawn = _Drawn(element, seed)
        value, wanted = drawn.condition(3)
        try:
            found = drawn.computed(value)
        except Undefined:
            undefined += 1
            continue
        np.testing.assert_array_equal(found, wanted, err_msg=f"{seed}: {value.term.text(9)}")
        ranges += value.term.kind == RANGE
    assert undefined == 0
    assert ranges > 40


def _intervals(rng: random.Random, count: int) -> list[tuple[int, int]]:
    return [(low, rng.randint(low, 127)) for low in (rng.randint(-128, 127) for _ in range(count))]


@pytest.mark.parametrize("seed", range(40))
def test_equal_conjunctions_of_ranges_have_one_normal_form(seed: int) -> None:
    """Shifts, clamps and bounds in another order, which leave the same integers."""
    rng = random.Random(seed)
    drawn = _Drawn("i8", seed)
    algebra, shape = drawn.algebra, drawn.argument.shape
    given, offset = _intervals(rng, 3), rng.randint(-20, 20)

    def number(n: int) -> SymbolicValue:
        return algebra.number(constant(n), "i8", shape)

    def both(conditions: list[SymbolicValue]) -> SymbolicValue:
        made = conditions[0]
        for each in conditions[1:]:
            made = algebra.elementwise(("stablehlo.and",), "i1", [made, each])
        return made

    low, high = max(a for a, _ in given), min(b for _, b in given)
    clamped = algebra.elementwise(("stablehlo.clamp",), "i8", [number(-100), drawn.argument, number(100)])
    shifted = algebra.elementwise(("stablehlo.add",), "i8", [clamped, number(offset)])
    conditions = []
    for a, b in given:
        for direction, end in (("GE", a), ("LE", b)):
            value, at = rng.choice([(drawn.argument, end), (shifted, end + offset)])
            if value is shifted and not -100 < end < 100:
                value, at = drawn.argument, end
            if not -128 <= at <= 127:
                value, at = drawn.argument, end
            conditions.append(algebra.elementwise(("stablehlo.compare", direction, "i8"), "i1", [value, number(at)]))
    rng.shuffle(conditions)
    wanted = algebra.within(drawn.argument, constant(low), constant(high))
    assert both(conditions).instance == wanted.instance

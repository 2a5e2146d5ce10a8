"""The facts about results of elementwise operations, from those about their operands."""

from __future__ import annotations

import math
from collections.abc import Callable

from gspmd.transforms.analysis.least import ranges
from gspmd.transforms.analysis.least.image import Image
from gspmd.transforms.analysis.least.known import Result, Step, ValueFacts, is_float, is_number
from gspmd.transforms.analysis.least.ranges import ANY, EITHER, Range, sign
from gspmd.transforms.ir.program import Op


def unary(of_range: Callable[[Range], Range], slope: int, defined_from: float = -math.inf) -> Step:
    """A function of one number. `slope` is the sign of its derivative, 0 for one that is zero at single places."""

    def step(op: Op, operands: list[ValueFacts]) -> Result:
        (operand,) = operands
        if not is_number(op.info.operands[0]) or not operand.range[0] > defined_from:
            return [((), ANY)]
        return [([i.scaled(slope, operand.arguments) for i in operand.images.values()], of_range(operand.range))]

    return step


def square(op: Op, operands: list[ValueFacts]) -> Result:
    return unary(ranges.square, sign(operands[0].range))(op, operands)


def absolute(op: Op, operands: list[ValueFacts]) -> Result:
    slope = sign(operands[0].range)
    if not slope or not is_number(op.info.operands[0]):
        return [((), ANY)]
    range_ = operands[0].range if slope > 0 else ranges.negate(operands[0].range)
    return [([image.scaled(slope, 0) for image in operands[0].images.values()], range_)]


def convert(op: Op, operands: list[ValueFacts]) -> Result:
    (operand,) = operands
    before, after = op.info.operands[0], op.info.results[0]
    if not is_number(before) or not is_number(after) or (is_float(before) and not is_float(after)):
        return [((), ANY if not is_number(after) or is_number(before) else EITHER)]
    return [(operand.images.values(), operand.range)]


def add(op: Op, operands: list[ValueFacts]) -> Result:
    return _sum(op, operands, 1)


def subtract(op: Op, operands: list[ValueFacts]) -> Result:
    return _sum(op, operands, -1)


def _sum(op: Op, operands: list[ValueFacts], factor: int) -> Result:
    if not is_number(op.info.results[0]):
        return [((), ANY)]
    left, right = operands
    found = [*left.without(right), *(image.scaled(factor, 0) for image in right.without(left))]
    for number in left.images.keys() & right.images.keys():
        found += _together(left.images[number], right.images[number].scaled(factor, 0))
    return [(found, ranges.add(left.range, right.range if factor > 0 else ranges.negate(right.range)))]


def _together(left: Image, right: Image) -> list[Image]:
    """The sum of two images, if it is known that nothing cancels out."""
    if not left.same_matrix(right) or not left.slope or left.slope != right.slope:
        return []
    return [left.scaled(1, right.coefficients).narrowed(right.width)]


def multiply(op: Op, operands: list[ValueFacts]) -> Result:
    if not is_number(op.info.results[0]):
        return [((), ANY)]
    left, right = operands
    if op.operands[0] == op.operands[1]:
        return square(op, operands[:1])
    found = [*_times(left, right), *_times(right, left)]
    for number in left.images.keys() & right.images.keys():
        a = left.images[number].scaled(sign(right.range), right.arguments)
        b = right.images[number].scaled(sign(left.range), left.arguments)
        found += _together(a, b)
    return [(found, ranges.multiply(left.range, right.range))]


def _times(left: ValueFacts, right: ValueFacts) -> list[Image]:
    """Images of a value times numbers that are not zero."""
    if not sign(right.range) and not right.images:
        return []
    return [image.scaled(sign(right.range), right.arguments) for image in left.without(right)]


def divide(op: Op, operands: list[ValueFacts]) -> Result:
    left, right = operands
    if not is_float(op.info.results[0]) or not sign(right.range):
        return [((), ANY)]
    slope = sign(right.range)
    found = _times(left, right)
    if sign(left.range) or left.images:
        found += [i.scaled(-sign(left.range), right.arguments | left.arguments) for i in right.without(left)]
    for number in left.images.keys() & right.images.keys():
        a = left.images[number].scaled(slope, right.arguments)
        found += _together(a, right.images[number].scaled(-sign(left.range), left.arguments | right.arguments))
    return [(found, ranges.divide(left.range, right.range))]


def extreme(largest: bool) -> Step:
    """The larger or the smaller of two numbers, where it is known which is."""

    def step(op: Op, operands: list[ValueFacts]) -> Result:
        left, right = operands
        if not is_number(op.info.results[0]):
            return [((), ANY)]
        for a, b in ((left, right), (right, left)):
            if a.range[0] > b.range[1] if largest else a.range[1] < b.range[0]:
                return [(a.images.values(), a.range)]
        pick = max if largest else min
        return [((), (pick(left.range[0], right.range[0]), pick(left.range[1], right.range[1])))]

    return step


def compared(op: Op, operands: list[ValueFacts]) -> Result:
    if not is_number(op.info.operands[0]):
        return [((), EITHER)]
    direction = str(op.info.attributes["comparison_direction"]).split()[-1].rstrip(">")
    return [((), ranges.compared(direction, operands[0].range, operands[1].range))]


def chosen(op: Op, operands: list[ValueFacts]) -> Result:
    predicate, yes, no = operands
    if sign(predicate.range):
        return [(yes.images.values(), yes.range)]
    if predicate.range == ranges.FALSE:
        return [(no.images.values(), no.range)]
    return [((), ranges.either(yes.range, no.range))]

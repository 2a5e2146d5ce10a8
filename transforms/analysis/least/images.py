"""The images that values of a program are of its arguments: a walk over its operations, in order.

Ranks are those at almost all arguments between 1 and 2 (see `ranges`), where a rectifier lets through what it gets. An
image is there only where the argument reaches the value along one way, or along several that cannot cancel out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.analysis.least import elementwise, ranges
from gspmd.transforms.analysis.least.image import Factor, Image, contracted, of_argument, reshaped, spread, transposed
from gspmd.transforms.analysis.least.known import Result, Step, ValueFacts, is_number
from gspmd.transforms.analysis.least.ranges import ANY, ARGUMENT, Range, sign
from gspmd.transforms.ir.op_info import combiner
from gspmd.transforms.ir.program import Body, Op, Program
from gspmd.transforms.ir.types import element_bytes

_MAX_IMAGES = 8  # of a value; those by the largest arguments are kept


def images_of(program: Program) -> dict[int, ValueFacts]:
    """The facts about the values of the outermost block, by value."""
    return _Walk(program).known


class _Walk:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[int, ValueFacts] = {}
        for number, value in enumerate(program.body.arguments):
            type_ = program.value_type[value]
            image = of_argument(number, type_.shape, element_bytes(type_.element)) if type_.is_tensor else None
            numbers = is_number(type_)
            images = {number: image} if image is not None else {}
            self.known[value] = ValueFacts(1 << number, images, ARGUMENT if numbers else ANY)
        self._numbers = {value: number for number, value in enumerate(program.value_ir)}
        for op in program.body.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        operands = [self.known[value] for value in op.operands]
        arguments = 0
        for each in operands:
            arguments |= each.arguments
        for region in op.regions:
            arguments |= self._used_inside(region)
        if not op.regions and op.ir.regions:
            arguments |= self._captured(op)
        step = _STEPS.get(op.info.name)
        results: list[tuple[Iterable[Image | None], Range]] = []
        if step is not None and all(type_.is_tensor for type_ in (*op.info.operands, *op.info.results)):
            results = step(op, operands)
        for index, value in enumerate(op.results):
            found, range_ = results[index] if index < len(results) else ((), ANY)
            type_ = self.program.value_type[value]
            width = element_bytes(type_.element) if type_.is_tensor else 0.0
            images = [image.narrowed(width) for image in found if image is not None]
            images.sort(key=lambda image: -math.prod(image.sizes))
            self.known[value] = ValueFacts(arguments, {i.argument: i for i in images[:_MAX_IMAGES]}, range_)

    def _used_inside(self, body: Body) -> int:
        """The arguments that anything in a region depends on through values of outside."""
        found = 0
        for value in (*(v for op in body.ops for v in op.operands), *body.returned):
            found |= self.known[value].arguments if value in self.known else 0
        for op in body.ops:
            for region in op.regions:
                found |= self._used_inside(region)
        return found

    def _captured(self, op: Op) -> int:
        found = 0
        for inner in (inner for region in op.ir.regions for each in region for inner in each.walk()):
            for value in inner.operands:
                number = self._numbers.get(value)
                found |= self.known[number].arguments if number in self.known else 0
        return found


# ---- arrangement ----


def _same(op: Op, operands: list[ValueFacts]) -> Result:
    return [(operand.images.values(), operand.range) for operand in operands]


def _part(op: Op, operands: list[ValueFacts]) -> Result:
    """Some of the elements of the first operand, of which only the range is followed."""
    return [((), operands[0].range)]


def _broadcast(op: Op, operands: list[ValueFacts]) -> Result:
    dims, shape = op.info.ints("broadcast_dimensions"), op.info.results[0].shape
    return [([spread(image, dims, shape) for image in operands[0].images.values()], operands[0].range)]


def _reshape(op: Op, operands: list[ValueFacts]) -> Result:
    shape = op.info.results[0].shape
    return [([reshaped(image, shape) for image in operands[0].images.values()], operands[0].range)]


def _transpose(op: Op, operands: list[ValueFacts]) -> Result:
    order = op.info.ints("permutation")
    return [([transposed(image, order) for image in operands[0].images.values()], operands[0].range)]


def _constant(op: Op, operands: list[ValueFacts]) -> Result:
    return [((), ranges.of_constant(op.info.attributes["value"]))]


# ---- sums ----


def _reduce(op: Op, operands: list[ValueFacts]) -> Result:
    if len(operands) != 2 or combiner(op.info) != "add" or not is_number(op.info.results[0]):
        return []
    operand, start = operands
    dims = op.info.ints("dimensions")
    factor = Factor((), dims, (), True, 1, 0, 0, 0)
    found = [contracted(image, factor, op.index * 2) for image in operand.without(start)]
    count = math.prod(op.info.operands[0].shape[dim] for dim in dims)
    return [(found, ranges.add(ranges.total(operand.range, count), start.range))]


def _dot(op: Op, operands: list[ValueFacts]) -> Result:
    if not is_number(op.info.results[0]):
        return []
    numbers = stablehlo.DotDimensionNumbers(op.info.attributes["dot_dimension_numbers"])
    batches = tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)
    summed = tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)
    found: list[Image | None] = []
    for mine, other in ((0, 1), (1, 0)):
        image_of, factor_of = operands[mine], operands[other]
        shape = op.info.operands[other].shape
        left_over = [dim for dim in range(len(shape)) if dim not in (*batches[other], *summed[other])]
        rank = max((image.as_matrix(summed[other], left_over) for image in factor_of.images.values()), default=0)
        factor = Factor(
            *(batches[mine], summed[mine], tuple(shape[dim] for dim in left_over), mine == 0, sign(factor_of.range)),
            *(factor_of.free, rank, factor_of.arguments),
        )
        found += [contracted(image, factor, op.index * 2 + mine) for image in image_of.without(factor_of)]
    left = op.info.operands[0].shape
    product = ranges.multiply(operands[0].range, operands[1].range)
    return [(found, ranges.total(product, math.prod(left[dim] for dim in summed[0])))]


_STEPS: dict[str, Step] = {
    "stablehlo.negate": elementwise.unary(ranges.negate, -1),
    "stablehlo.exponential": elementwise.unary(ranges.monotone(math.exp), 1),
    "stablehlo.exponential_minus_one": elementwise.unary(ranges.monotone(math.expm1), 1),
    "stablehlo.tanh": elementwise.unary(ranges.monotone(math.tanh), 1),
    "stablehlo.logistic": elementwise.unary(ranges.monotone(ranges.logistic), 1),
    "stablehlo.log": elementwise.unary(ranges.monotone(math.log), 1, 0.0),
    "stablehlo.log_plus_one": elementwise.unary(ranges.monotone(math.log1p), 1, -1.0),
    "stablehlo.sqrt": elementwise.unary(ranges.monotone(math.sqrt), 1, 0.0),
    "stablehlo.cbrt": elementwise.unary(ranges.monotone(math.cbrt), 1, 0.0),
    "stablehlo.rsqrt": elementwise.unary(ranges.monotone(lambda x: x**-0.5, falling=True), -1, 0.0),
    "stablehlo.sine": elementwise.unary(lambda a: (-1.0, 1.0), 0),
    "stablehlo.cosine": elementwise.unary(lambda a: (-1.0, 1.0), 0),
    "chlo.erf": elementwise.unary(ranges.monotone(math.erf), 1),
    "chlo.square": elementwise.square,
    "stablehlo.abs": elementwise.absolute,
    "stablehlo.convert": elementwise.convert,
    "stablehlo.add": elementwise.add,
    "stablehlo.subtract": elementwise.subtract,
    "stablehlo.multiply": elementwise.multiply,
    "stablehlo.divide": elementwise.divide,
    "stablehlo.maximum": elementwise.extreme(True),
    "stablehlo.minimum": elementwise.extreme(False),
    "stablehlo.compare": elementwise.compared,
    "stablehlo.select": elementwise.chosen,
    "stablehlo.optimization_barrier": _same,
    "sdy.sharding_constraint": _same,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.constant": _constant,
    "stablehlo.slice": _part,
    "stablehlo.reverse": _part,
    "stablehlo.reduce": _reduce,
    "stablehlo.dot_general": _dot,
}
"""By operation, the function from the facts about its operands to those about its results; others lead to none."""

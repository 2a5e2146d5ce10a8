"""The images that values of a program are of its arguments: a walk over its operations, in order.

Ranks are those at almost all arguments between 1 and 2 (see `ranges`), where a rectifier lets through what it gets. An
image is there only where the argument reaches the value along one way, or along several that cannot cancel out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.analysis.least import ranges
from gspmd.transforms.analysis.least.image import Factor, Image, contracted, of_argument, reshaped, spread, transposed
from gspmd.transforms.analysis.least.ranges import ANY, ARGUMENT, EITHER, Range, sign
from gspmd.transforms.ir.op_info import combiner
from gspmd.transforms.ir.program import Body, Op, Program
from gspmd.transforms.ir.types import TensorType, element_bytes

_MOST_IMAGES = 8  # of a value; those by the largest arguments are kept
Images = Mapping[int, Image]


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value: the `arguments` that it depends on, as bits, its `images` by argument, its `range`."""

    arguments: int
    images: Images
    range: Range

    @property
    def free(self) -> int:
        """The arguments, as bits, each of which can make the value any value at all, near the one that it has."""
        return sum(1 << number for number, image in self.images.items() if image.reaches_all)

    def without(self, other: Known) -> list[Image]:
        """The images by arguments that another value does not depend on."""
        return [image for number, image in self.images.items() if not other.arguments >> number & 1]


def images_of(program: Program) -> dict[int, Known]:
    """What is known of the values of the outermost block, by value."""
    return _Walk(program).known


class _Walk:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.known: dict[int, Known] = {}
        for number, value in enumerate(program.body.arguments):
            type_ = program.value_type[value]
            image = of_argument(number, type_.shape, element_bytes(type_.element)) if type_.is_tensor else None
            numbers = _is_number(type_)
            images = {number: image} if image is not None else {}
            self.known[value] = Known(1 << number, images, ARGUMENT if numbers else ANY)
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
            self.known[value] = Known(arguments, {i.argument: i for i in images[:_MOST_IMAGES]}, range_)

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


def _is_number(type_: TensorType) -> bool:
    return type_.is_tensor and type_.element != "i1" and not type_.element.startswith(("complex", "!"))


def _is_float(type_: TensorType) -> bool:
    return type_.is_tensor and type_.element.startswith(("f", "bf"))


Result = list[tuple[Iterable["Image | None"], Range]]
_Step = Callable[[Op, list[Known]], Result]


# ---- elementwise ----


def _unary(of_range: Callable[[Range], Range], slope: int, defined_from: float = -math.inf) -> _Step:
    """A function of one number. `slope` is the sign of its derivative, 0 for one that is zero at single places."""

    def step(op: Op, operands: list[Known]) -> Result:
        (operand,) = operands
        if not _is_number(op.info.operands[0]) or not operand.range[0] > defined_from:
            return [((), ANY)]
        return [([i.scaled(slope, operand.arguments) for i in operand.images.values()], of_range(operand.range))]

    return step


def _square(op: Op, operands: list[Known]) -> Result:
    return _unary(ranges.square, sign(operands[0].range))(op, operands)


def _abs(op: Op, operands: list[Known]) -> Result:
    slope = sign(operands[0].range)
    if not slope or not _is_number(op.info.operands[0]):
        return [((), ANY)]
    range_ = operands[0].range if slope > 0 else ranges.negate(operands[0].range)
    return [([image.scaled(slope, 0) for image in operands[0].images.values()], range_)]


def _convert(op: Op, operands: list[Known]) -> Result:
    (operand,) = operands
    before, after = op.info.operands[0], op.info.results[0]
    if not _is_number(before) or not _is_number(after) or (_is_float(before) and not _is_float(after)):
        return [((), ANY if not _is_number(after) or _is_number(before) else EITHER)]
    return [(operand.images.values(), operand.range)]


def _add(op: Op, operands: list[Known]) -> Result:
    return _sum(op, operands, 1)


def _subtract(op: Op, operands: list[Known]) -> Result:
    return _sum(op, operands, -1)


def _sum(op: Op, operands: list[Known], factor: int) -> Result:
    if not _is_number(op.info.results[0]):
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


def _multiply(op: Op, operands: list[Known]) -> Result:
    if not _is_number(op.info.results[0]):
        return [((), ANY)]
    left, right = operands
    if op.operands[0] == op.operands[1]:
        return _square(op, operands[:1])
    found = [*_times(left, right), *_times(right, left)]
    for number in left.images.keys() & right.images.keys():
        a = left.images[number].scaled(sign(right.range), right.arguments)
        b = right.images[number].scaled(sign(left.range), left.arguments)
        found += _together(a, b)
    return [(found, ranges.multiply(left.range, right.range))]


def _times(left: Known, right: Known) -> list[Image]:
    """Images of a value times numbers that are not zero."""
    if not sign(right.range) and not right.images:
        return []
    return [image.scaled(sign(right.range), right.arguments) for image in left.without(right)]


def _divide(op: Op, operands: list[Known]) -> Result:
    left, right = operands
    if not _is_float(op.info.results[0]) or not sign(right.range):
        return [((), ANY)]
    slope = sign(right.range)
    found = _times(left, right)
    if sign(left.range) or left.images:
        found += [i.scaled(-sign(left.range), right.arguments | left.arguments) for i in right.without(left)]
    for number in left.images.keys() & right.images.keys():
        a = left.images[number].scaled(slope, right.arguments)
        found += _together(a, right.images[number].scaled(-sign(left.range), left.arguments | right.arguments))
    return [(found, ranges.divide(left.range, right.range))]


def _extreme(largest: bool) -> _Step:
    """The larger or the smaller of two numbers, where it is known which is."""

    def step(op: Op, operands: list[Known]) -> Result:
        left, right = operands
        if not _is_number(op.info.results[0]):
            return [((), ANY)]
        for a, b in ((left, right), (right, left)):
            if a.range[0] > b.range[1] if largest else a.range[1] < b.range[0]:
                return [(a.images.values(), a.range)]
        pick = max if largest else min
        return [((), (pick(left.range[0], right.range[0]), pick(left.range[1], right.range[1])))]

    return step


def _compare(op: Op, operands: list[Known]) -> Result:
    if not _is_number(op.info.operands[0]):
        return [((), EITHER)]
    direction = str(op.info.attributes["comparison_direction"]).split()[-1].rstrip(">")
    return [((), ranges.compared(direction, operands[0].range, operands[1].range))]


def _select(op: Op, operands: list[Known]) -> Result:
    chosen, yes, no = operands
    if sign(chosen.range):
        return [(yes.images.values(), yes.range)]
    if chosen.range == ranges.FALSE:
        return [(no.images.values(), no.range)]
    return [((), ranges.either(yes.range, no.range))]


# ---- arrangement ----


def _same(op: Op, operands: list[Known]) -> Result:
    return [(operand.images.values(), operand.range) for operand in operands]


def _part(op: Op, operands: list[Known]) -> Result:
    """Some of the elements of the first operand, of which only the range is followed."""
    return [((), operands[0].range)]


def _broadcast(op: Op, operands: list[Known]) -> Result:
    dims, shape = op.info.ints("broadcast_dimensions"), op.info.results[0].shape
    return [([spread(image, dims, shape) for image in operands[0].images.values()], operands[0].range)]


def _reshape(op: Op, operands: list[Known]) -> Result:
    shape = op.info.results[0].shape
    return [([reshaped(image, shape) for image in operands[0].images.values()], operands[0].range)]


def _transpose(op: Op, operands: list[Known]) -> Result:
    order = op.info.ints("permutation")
    return [([transposed(image, order) for image in operands[0].images.values()], operands[0].range)]


def _constant(op: Op, operands: list[Known]) -> Result:
    return [((), ranges.of_constant(op.info.attributes["value"]))]


# ---- sums ----


def _reduce(op: Op, operands: list[Known]) -> Result:
    if len(operands) != 2 or combiner(op.info) != "add" or not _is_number(op.info.results[0]):
        return []
    operand, start = operands
    dims = op.info.ints("dimensions")
    factor = Factor((), dims, (), True, 1, 0, 0, 0)
    found = [contracted(image, factor, op.index * 2) for image in operand.without(start)]
    count = math.prod(op.info.operands[0].shape[dim] for dim in dims)
    return [(found, ranges.add(ranges.total(operand.range, count), start.range))]


def _dot(op: Op, operands: list[Known]) -> Result:
    if not _is_number(op.info.results[0]):
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


_STEPS: dict[str, _Step] = {
    "stablehlo.negate": _unary(ranges.negate, -1),
    "stablehlo.exponential": _unary(ranges.monotone(math.exp), 1),
    "stablehlo.exponential_minus_one": _unary(ranges.monotone(math.expm1), 1),
    "stablehlo.tanh": _unary(ranges.monotone(math.tanh), 1),
    "stablehlo.logistic": _unary(ranges.monotone(ranges.logistic), 1),
    "stablehlo.log": _unary(ranges.monotone(math.log), 1, 0.0),
    "stablehlo.log_plus_one": _unary(ranges.monotone(math.log1p), 1, -1.0),
    "stablehlo.sqrt": _unary(ranges.monotone(math.sqrt), 1, 0.0),
    "stablehlo.cbrt": _unary(ranges.monotone(math.cbrt), 1, 0.0),
    "stablehlo.rsqrt": _unary(ranges.monotone(lambda x: x**-0.5, falling=True), -1, 0.0),
    "stablehlo.sine": _unary(lambda a: (-1.0, 1.0), 0),
    "stablehlo.cosine": _unary(lambda a: (-1.0, 1.0), 0),
    "chlo.erf": _unary(ranges.monotone(math.erf), 1),
    "chlo.square": _square,
    "stablehlo.abs": _abs,
    "stablehlo.convert": _convert,
    "stablehlo.add": _add,
    "stablehlo.subtract": _subtract,
    "stablehlo.multiply": _multiply,
    "stablehlo.divide": _divide,
    "stablehlo.maximum": _extreme(True),
    "stablehlo.minimum": _extreme(False),
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
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
"""What operations make of what is known of their operands; of results of others nothing is known."""

"""The facts about a value that the analysis derives along a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from gspmd.transforms.analysis.least.image import Image
from gspmd.transforms.analysis.least.ranges import Range
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType

Images = Mapping[int, Image]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueFacts:
    """The facts about a value: the `arguments` that it depends on, as bits, its `images` by argument, its `range`."""

    arguments: int
    images: Images
    range: Range

    @property
    def free(self) -> int:
        """The arguments, as bits, each of which can make the value any value at all, near the one that it has."""
        return sum(1 << number for number, image in self.images.items() if image.reaches_all)

    def without(self, other: ValueFacts) -> list[Image]:
        """The images by arguments that another value does not depend on."""
        return [image for number, image in self.images.items() if not other.arguments >> number & 1]


def is_number(type_: TensorType) -> bool:
    return type_.is_tensor and type_.element != "i1" and not type_.element.startswith(("complex", "!"))


def is_float(type_: TensorType) -> bool:
    return type_.is_tensor and type_.element.startswith(("f", "bf"))


Result = list[tuple[Iterable["Image | None"], Range]]
Step = Callable[[Op, list[ValueFacts]], Result]

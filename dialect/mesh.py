"""The device mesh: named axes in major-to-minor order over a list of device ids."""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.limits import MAX_DEVICES


@dataclasses.dataclass(frozen=True, slots=True)
class Mesh:
    """A logical mesh of devices.

    `axes` are (name, size) pairs, first most major. `device_ids` lists the device at each position in row-major order,
    and is empty for 0, 1, 2, ...; no axes and one id is the mesh of a value on that device only (maximal). `name` is
    the symbol of the mesh in the module ("" for an inline one) and is ignored in comparisons.

    Errors: AnnotationError for repeated names, sizes below 1, ids that are not a permutation.
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] = ()
    name: str = dataclasses.field(default="mesh", compare=False)
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mesh):
            return NotImplemented
        return self.axes == other.axes and self.device_ids == other.device_ids

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "_hash", hash((self.axes, self.device_ids)))

    def _check(self) -> None:
        names = [name for name, _ in self.axes]
        for name, size in self.axes:
            if size < 1:
                raise AnnotationError(f'mesh axis "{name}" has size {size}; expected at least 1', code=Code.MESH)
            if names.count(name) > 1:
                raise AnnotationError(f'mesh axis "{name}" occurs twice; give every axis its own name', code=Code.MESH)
        if not self.axes and len(self.device_ids) <= 1:
            if self.device_ids and self.device_ids[0] < 0:
                raise AnnotationError(f"device id {self.device_ids[0]} is negative", code=Code.MESH)
            return
        if self.device_ids:
            if len(self.device_ids) != self.size or sorted(self.device_ids) != list(range(self.size)):
                raise AnnotationError(
                    f"device_ids of a mesh of {self.size} devices must be a permutation of 0..{self.size - 1}",
                    code=Code.MESH,
                )
            if self.device_ids == tuple(range(self.size)):
                object.__setattr__(self, "device_ids", ())

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(size for _, size in self.axes)

    @property
    def is_maximal(self) -> bool:
        """Whether this is the mesh of one single device."""
        return not self.axes and len(self.device_ids) == 1

    def check_devices(self) -> None:
        """Raise AnnotationError for more devices than gspmd supports."""
        if self.size > MAX_DEVICES:
            bits = ((size, size.bit_length()) for _, size in self.axes)
            sizes = " x ".join(str(size) if count <= 64 else f"2^{count - 1}" for size, count in bits)
            raise AnnotationError(
                f"{self._words} has {sizes} devices, expected at most {MAX_DEVICES}",
                hint="use smaller axes",
                code=Code.LIMIT,
            )

    @property
    def _words(self) -> str:
        """The name of the mesh in errors; meshes of Python functions have none."""
        return f'mesh "@{self.name}"' if self.name else "the mesh"

    def axis_size(self, name: str) -> int:
        """The size of the named axis. Raises AnnotationError if the mesh has no such axis."""
        for axis, size in self.axes:
            if axis == name:
                return size
        known = ", ".join(f'"{axis}"' for axis, _ in self.axes) or "none"
        raise AnnotationError(f'{self._words} has no axis "{name}"; its axes are {known}', code=Code.AXIS_UNKNOWN)

    def axis(self, name: str, pre: int = 1, size: int | None = None) -> Axis:
        """The axis, or the sub-axis `:(pre)size` of it, checked against the mesh."""
        full = self.axis_size(name)
        if size is None:
            return Axis(name, 1, full)
        if pre < 1 or size < 1 or full % (pre * size):
            raise AnnotationError(
                f'sub-axis "{name}":({pre}){size} does not divide axis "{name}" of size {full}', code=Code.AXIS_PART
            )
        return Axis(name, pre, size)

    def all_axes(self) -> Axes:
        """Every axis of size above 1, in mesh order."""
        return tuple(Axis(name, 1, size) for name, size in self.axes if size > 1)

    def order(self, axis: Axis) -> tuple[int, int]:
        """Sort key: position in the mesh, then position within the axis."""
        for index, (name, _) in enumerate(self.axes):
            if name == axis.name:
                return index, axis.pre
        raise AnnotationError(f'{self._words} has no axis "{axis.name}"', code=Code.AXIS_UNKNOWN)

    def sorted(self, axes: tuple[Axis, ...]) -> Axes:
        """The axes in mesh order."""
        return tuple(sorted(axes, key=self.order))

    def is_full(self, axis: Axis) -> bool:
        return axis.pre == 1 and axis.size == self.axis_size(axis.name)

    def stride(self, axis: Axis) -> int:
        """The distance, in mesh positions, between neighbors along this axis."""
        after = 1
        for name, size in reversed(self.axes):
            if name == axis.name:
                return after * (size // axis.end)
            after *= size
        raise AnnotationError(f'{self._words} has no axis "{axis.name}"', code=Code.AXIS_UNKNOWN)

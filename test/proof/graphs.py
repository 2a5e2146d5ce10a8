"""Made-up programs of many operations of all families, with annotations here and there."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from support.random_shardings import random_sharding

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_sharding
from proof.operations import FAMILIES
from proof.program import Program, Shape, Statement, Value
from proof.writer import MAX_ELEMENTS, Writer

_MESHES = ((8,), (4, 2), (2, 4), (2, 2, 2), (2, 3), (3, 2), (6,), (4, 1, 2), (2, 1, 2, 2), (1, 2, 1, 4), (3,), (2, 2),
           (4,), (1, 1), (2,), (5,), (7,))  # fmt: skip
_WEIGHTS = {"elementwise": 4, "contraction": 2, "layout": 2, "slicing": 2, "reduction": 2, "random": 0.3}
_MAX_ARGUMENTS = 6


def random_mesh(rng: random.Random, devices: int) -> Mesh:
    """Of 4 axes and at most 8 devices, some of size 1, or of three axes, where there are more devices.

    One in three has its devices in another order.
    """
    sizes = rng.choice(_MESHES if devices <= 8 else _of_three_axes(devices))
    mesh = Mesh(tuple(zip("xyzw", sizes, strict=False)))
    if rng.random() < 1 / 3 and mesh.size > 2:
        ids = list(range(mesh.size))
        rng.shuffle(ids)
        if ids != sorted(ids):
            return Mesh(mesh.axes, tuple(ids))
    return mesh


def _of_three_axes(devices: int) -> Sequence[tuple[int, ...]]:
    """The sizes of all meshes of so many devices with three axes of at least two."""
    factors = [k for k in range(2, devices) if devices % k == 0]
    return [(a, b, devices // (a * b)) for a in factors for b in factors if devices % (a * b) == 0 and a * b < devices]


class Graph(Writer):
    """Operands are values that the program has already, cut or padded to the shape that is asked for."""

    def __init__(self, seed: int, devices: int = 8) -> None:
        super().__init__(random.Random(seed))
        self.mesh = random_mesh(self.rng, devices)
        self._wanted = self.rng.randint(5, 30)

    def program(self) -> Program:
        """The whole of it."""
        rng = self.rng
        families = list(FAMILIES)
        weights = [_WEIGHTS.get(family, 1) for family in families]
        while sum(bool(s.operands) for s in self.statements) < self._wanted:
            (family,) = rng.choices(families, weights)
            rng.choice(FAMILIES[family])(self)
        used = {v.name for s in self.statements for v in s.operands}
        outputs = [v for s in self.statements for v in s.results if v.name not in used]
        return Program(
            self.mesh,
            tuple(dataclasses.replace(a, sharding=self._sharding(a.value, 0.6)) for a in self.arguments),
            tuple(self._annotated(s) for s in self.statements),
            tuple((value, self._sharding(value, 0.3)) for value in outputs),
            tuple(self.functions),
        )

    def _sharding(self, value: Value, likely: float) -> str:
        if self.rng.random() >= likely:
            return ""
        text = print_sharding(random_sharding(self.rng, self.mesh, len(value.shape)))
        return text.replace("{}", "{?}") if self.rng.random() < 0.5 else text

    def _annotated(self, statement: Statement) -> Statement:
        """With a sharding, one time in six; a constant has none."""
        if "{s}" not in statement.text or "func.call" in statement.text or self.rng.random() > 1 / 6:
            return statement
        return dataclasses.replace(statement, shardings=tuple(self._sharding(v, 1.0) for v in statement.results))

    # ---- operands ----

    def tensor(
        self, elements: Sequence[str] = ("f32",), least: int = 0, most: int = 3, content: str = "numbers",
        exact: bool = False,
    ) -> Value:  # fmt: skip
        found = [v for v in self._values() if least <= len(v.shape) <= most and (v.exact or not exact)]
        fitting = [v for v in found if v.element in elements]
        if fitting and self.rng.random() < 0.85:
            return self.rng.choice(fitting[-8:])
        if len(self.arguments) < _MAX_ARGUMENTS or not found:
            return self.argument(self.shape(least, most), self.rng.choice(elements), "numbers")
        return self._converted(self.rng.choice(found[-8:]), self.rng.choice(elements))

    def of(self, shape: Shape, element: str = "f32", content: str = "numbers", exact: bool = False) -> Value:
        if content not in ("numbers", "hostile", "extreme") or element == "i1":
            return self._special(shape, element, content)
        found = [v for v in self._values() if len(v.shape) == len(shape) and (v.exact or not exact)]
        found = [v for v in found if v.element == element] or found
        if self.rng.random() < 0.7:
            found = [v for v in found if v.shape == shape] or found
        if not found or self.rng.random() < 0.05:
            return self.argument(shape, element, "numbers")
        return self._fitted(self._converted(self.rng.choice(found[-8:]), element), shape)

    def _special(self, shape: Shape, element: str, content: str) -> Value:
        """An argument with such content, one that there is already if it fits."""
        for argument in self.arguments:
            if (argument.value.shape, argument.value.element, argument.content) == (shape, element, content):
                return argument.value
        return self.argument(shape, element, content)

    def _values(self) -> list[Value]:
        """Everything that operations may read, and of which there is not too much."""
        special = {"definite", "solvable", "bits"}
        given = [a.value for a in self.arguments if a.content not in special]
        return given + [v for s in self.statements for v in s.results if v.size <= MAX_ELEMENTS and v.name]

    def _converted(self, value: Value, element: str) -> Value:
        """What is not exact is not converted: its error would count as one of the other type."""
        if value.element == element:
            return value
        if not value.exact:
            return self.argument(value.shape, element, "numbers")
        if value.element.startswith("complex"):
            part = value.element[len("complex<") : -1]
            (value,) = self.op("stablehlo.real", (value,), [(value.shape, part)])
        if value.element == element:
            return value
        (made,) = self.op("stablehlo.convert", (value,), [(value.shape, element)])
        return made

    def _fitted(self, value: Value, shape: Shape) -> Value:
        """Cut or padded; of the same rank."""
        if value.shape == shape:
            return value
        number = "false" if value.element == "i1" else "0" if value.element[0] in "iu" else "0.0"
        zero = self.constant(value.element, f"({number}, 0.0)" if value.element.startswith("complex") else number)
        high = ", ".join(str(b - a) for a, b in zip(value.shape, shape, strict=True))
        zeros = ", ".join(["0"] * len(shape))
        attributes = (
            f"edge_padding_low = array<i64: {zeros}>, edge_padding_high = array<i64: {high}>, "
            f"interior_padding = array<i64: {zeros}>"
        )
        return self.op("stablehlo.pad", (value, zero), [(shape, value.element)], attributes, bound=value.bound)[0]

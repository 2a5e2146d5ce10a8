"""All ways to split one operation: operations by number, meshes, and shardings of every operand and result."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence

from gspmd.dialect.axes import Axis, canonical
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_sharding
from gspmd.dialect.sharding import DimSharding, TensorSharding
from proof.operations import FAMILIES
from proof.program import Argument, Program, Value
from proof.writer import Alone

_SHAPES = ((1,), (2,), (3,), (4,), (6,), (8,), (2, 2), (2, 3), (3, 2), (4, 2), (2, 4))


def _mesh(sizes: tuple[int, ...], permuted: bool) -> Mesh:
    ids = list(range(math.prod(sizes)))
    if permuted:
        random.Random(0).shuffle(ids)
    return Mesh(tuple(zip("xy", sizes, strict=False)), tuple(ids) if permuted else ())


MESHES = tuple(
    _mesh(sizes, permuted) for sizes in _SHAPES for permuted in (False, True) if not permuted or math.prod(sizes) > 2
)
"""Of 1, 2, 3, 4, 6 and 8 devices, with one axis or two, in order and out of order."""


@functools.cache
def shardings(mesh: Mesh, rank: int) -> tuple[str, ...]:
    """Texts of all shardings: none first, then axes, and each axis cut in two, on any dimension in any order."""
    found = dict.fromkeys([""])
    if rank:
        for parts in _cuts(mesh):
            for homes in itertools.product(range(rank + 1), repeat=len(parts)):
                for order in itertools.permutations(range(len(parts))):
                    dims = [[parts[i] for i in order if homes[i] == d] for d in range(rank)]
                    try:
                        sharding = TensorSharding(mesh, tuple(DimSharding(canonical(tuple(d))) for d in dims))
                    except AnnotationError:  # parts in an order that has no canonical form
                        continue
                    found[print_sharding(sharding)] = None
    return tuple(found)


def _cuts(mesh: Mesh) -> Iterator[list[Axis]]:
    """The axes whole, then one of them cut in two."""
    whole = [Axis(name, 1, size) for name, size in mesh.axes if size > 1]
    yield whole
    for axis in whole:
        for k in range(2, axis.size):
            if axis.size % k == 0:
                others = [a for a in whole if a != axis]
                yield [Axis(axis.name, 1, k), Axis(axis.name, k, axis.size // k), *others]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a family, alone in a program; the number names one."""

    family: str
    number: int

    def program(self, mesh: Mesh, prefix: str = "") -> Program:
        """Without annotations."""
        rng = random.Random(f"{self.family} {self.number}")
        while True:
            writer = Alone(rng, prefix)
            rng.choice(FAMILIES[self.family])(writer)
            if writer.statements:
                break
        results = tuple((value, "") for value in writer.statements[-1].results)
        return Program(mesh, tuple(writer.arguments), tuple(writer.statements), results, tuple(writer.functions))


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """An operation, split: indices into `shardings` of its arguments and results, in order."""

    operation: Operation
    mesh: int
    chosen: tuple[int, ...]

    def program(self, prefix: str = "") -> Program:
        """With annotations."""
        mesh = MESHES[self.mesh]
        plain = self.operation.program(mesh, prefix)
        texts = [shardings(mesh, len(v.shape))[i] for v, i in zip(_tensors(plain), self.chosen, strict=True)]
        arguments = tuple(Argument(a.value, a.content, text) for a, text in zip(plain.arguments, texts, strict=False))
        results = tuple((value, text) for (value, _), text in zip(plain.results, texts[len(arguments) :], strict=True))
        return dataclasses.replace(plain, arguments=arguments, results=results)


def _tensors(program: Program) -> list[Value]:
    return [a.value for a in program.arguments] + [value for value, _ in program.results]


def _ranges(operation: Operation, mesh: Mesh) -> list[int]:
    return [len(shardings(mesh, len(v.shape))) for v in _tensors(operation.program(mesh))]


def count(family: str, operations: int) -> int:
    """The number of cases of the first operations of a family."""
    return sum(math.prod(_ranges(Operation(family, number), mesh)) for number in range(operations) for mesh in MESHES)


def every(family: str, operations: int) -> Iterator[Case]:
    """All cases of the first operations of a family, in a fixed order."""
    for number in range(operations):
        for index, mesh in enumerate(MESHES):
            operation = Operation(family, number)
            for chosen in itertools.product(*map(range, _ranges(operation, mesh))):
                yield Case(operation, index, chosen)


def sample(family: str, operations: int, seed: int, number: int) -> Iterator[Case]:
    """As many random cases, each mesh several times in a row."""
    rng = random.Random(f"{family} {seed}")
    while number > 0:
        index = rng.choices(range(len(MESHES)), [_weight(mesh) for mesh in MESHES])[0]
        for _ in range(min(PACK, number)):
            operation = Operation(family, rng.randrange(operations))
            ranges = _ranges(operation, MESHES[index])
            yield Case(operation, index, tuple(rng.randrange(n) for n in ranges))
        number -= PACK


def _weight(mesh: Mesh) -> int:
    return 1 if mesh.size == 1 else 2 if mesh.size < 4 else 4


PACK = 24
"""Cases that are compiled in one module, which is many times faster than each alone."""


def packs(cases: Iterator[Case]) -> Iterator[list[Case]]:
    """Neighbours of the same mesh."""
    for _, group in itertools.groupby(cases, key=lambda case: case.mesh):
        while pack := list(itertools.islice(group, PACK)):
            yield pack


def joined(programs: Sequence[Program]) -> Program:
    """One program that computes them all; their names must differ."""
    return Program(
        programs[0].mesh,
        tuple(a for p in programs for a in p.arguments),
        tuple(s for p in programs for s in p.statements),
        tuple(r for p in programs for r in p.results),
        tuple(f for p in programs for f in p.functions),
    )

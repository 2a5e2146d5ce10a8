"""What the generators of operations write to: a program that is being made up.

A generator asks for operands and appends operations. Who answers decides where operands come from: `Alone` makes
every operand an argument, so that the program is one operation; the fuzzer hands out what the program has already.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence

from proof.program import INEXACT, Argument, Shape, Statement, Value

SIZES = (0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)
MAX_ELEMENTS = 4096
EXACT_BOUND = 2**20  # sums and products of f32 up to here are exact, with some room
FLOATS = ("f32", "f32", "f32", "f64", "bf16", "f16")
INTEGERS = ("i32", "i32", "i8", "ui8", "i64", "ui32")
COMPLEX = ("complex<f32>",)
ANY = ("f32", "f32", "f32", "i32", "i1", "bf16", "ui8", "f64", "complex<f32>", "i64")
_EXACT_TO = {"bf16": 2**7, "f16": 2**10}


class Writer(abc.ABC):
    """A program that is being made up by seeded choices. All its names begin with `prefix`."""

    def __init__(self, rng: random.Random, prefix: str = "") -> None:
        self.rng = rng
        self.prefix = prefix
        self.arguments: list[Argument] = []
        self.statements: list[Statement] = []
        self.functions: list[str] = []
        self._names = 0

    # ---- operands ----

    @abc.abstractmethod
    def tensor(
        self, elements: Sequence[str] = ("f32",), least: int = 0, most: int = 3, content: str = "numbers",
        exact: bool = False,
    ) -> Value:  # fmt: skip
        """Any tensor with one of these element types and `least` to `most` dimensions."""

    @abc.abstractmethod
    def of(self, shape: Shape, element: str = "f32", content: str = "numbers", exact: bool = False) -> Value:
        """A tensor of this shape."""

    def argument(self, shape: Shape, element: str, content: str) -> Value:
        """A new argument."""
        inexact = content in ("hostile", "extreme", "bits", "definite", "solvable") or "f8" in element
        value = Value(f"%{self.prefix}a{len(self.arguments)}", shape, element, INEXACT if inexact else 4)
        self.arguments.append(Argument(value, content))
        return value

    def shape(self, least: int = 0, most: int = 3, sizes: Sequence[int] = SIZES) -> Shape:
        """A random shape of few elements."""
        while True:
            shape = tuple(self.rng.choice(sizes) for _ in range(self.rng.randint(least, most)))
            if Value("", shape).size <= MAX_ELEMENTS:
                return shape

    # ---- operations ----

    def constant(self, element: str, text: str, shape: Shape = (), bound: float = 4) -> Value:
        """A constant; `text` stands between `dense<` and `>`."""
        value = Value(self._name(), shape, element, bound)
        self.statements.append(
            Statement((value,), (), f"{value.name} = stablehlo.constant dense<{text}> : {value.type}")
        )
        return value

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, str]],
        attributes: str = "",
        regions: str = "",
        *,
        captured: Sequence[Value] = (),
        bound: float | None = None,
    ) -> tuple[Value, ...]:
        """Append an operation in its generic form.

        Results are bounded by `bound`, else as operands are; `captured` is what `regions` read from outside.
        """
        if bound is None:
            bound = max((v.bound for v in operands), default=4)
        base = self._name()
        names = [base] if len(results) == 1 else [f"{base}#{i}" for i in range(len(results))]
        made = tuple(
            Value(n, shape, element, self._bound(bound, element))
            for n, (shape, element) in zip(names, results, strict=True)
        )
        defined = base if len(results) == 1 else f"{base}:{len(results)}"
        text = (
            f'{defined} = "{name}"({", ".join(v.name for v in operands)})'
            f"{f' ({regions})' if regions else ''} {{{attributes}{{s}}}}"
            f" : ({', '.join(v.type for v in operands)}) -> ({', '.join(v.type for v in made)})"
        )
        self.statements.append(Statement(made, (*operands, *captured), text))
        return made

    def _bound(self, bound: float, element: str) -> float:
        return bound if bound <= _EXACT_TO.get(element, EXACT_BOUND) else INEXACT

    def _name(self) -> str:
        self._names += 1
        return f"%{self.prefix}v{self._names - 1}"


class Alone(Writer):
    """Every operand is an argument."""

    def tensor(
        self, elements: Sequence[str] = ("f32",), least: int = 0, most: int = 3, content: str = "numbers",
        exact: bool = False,
    ) -> Value:  # fmt: skip
        return self.argument(self.shape(least, most), self.rng.choice(elements), content)

    def of(self, shape: Shape, element: str = "f32", content: str = "numbers", exact: bool = False) -> Value:
        return self.argument(shape, element, content)

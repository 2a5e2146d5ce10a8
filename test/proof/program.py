"""Programs as plain values that can be printed, cut down and run: a mesh, arguments, statements and results."""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh

Shape = tuple[int, ...]
INEXACT = math.inf


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """An SSA value. Every element is an integer of at most `bound`, or anything if that is `INEXACT`."""

    name: str
    shape: Shape
    element: str = "f32"
    bound: float = 4

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    @property
    def exact(self) -> bool:
        return self.bound < INEXACT

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def tensor_type(shape: Shape, element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the program; `content` says what it is filled with (`contents.fill`), `sharding` is text or ""."""

    value: Value
    content: str = "numbers"
    sharding: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """One operation: what it defines, what it and its regions read, and its text.

    In the text, `{s}` stands behind the attributes, where the entry for shardings goes, which names one a result.
    """

    results: tuple[Value, ...]
    operands: tuple[Value, ...]
    text: str
    shardings: tuple[str, ...] = ()

    def __str__(self) -> str:
        given = f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(self.shardings)}]>" if any(self.shardings) else ""
        comma = ", " if given and "{{s}}" not in self.text else ""
        return self.text.replace("{s}", comma + given)


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A module with one public function and the private ones that it calls."""

    mesh: Mesh
    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    results: tuple[tuple[Value, str], ...]
    functions: tuple[str, ...] = ()

    def __str__(self) -> str:
        mesh = f"sdy.mesh @{self.mesh.name} = {print_mesh(self.mesh)}\n"
        return mesh + function_text(self.arguments, self.statements, self.results, self.functions)


def function_text(
    arguments: tuple[Argument, ...],
    statements: tuple[Statement, ...],
    results: tuple[tuple[Value, str], ...],
    functions: tuple[str, ...] = (),
) -> str:
    """`@main` and the functions beside it."""
    taken = ", ".join(f"{a.value.name}: {a.value.type}{_attribute(a.sharding)}" for a in arguments)
    given = ", ".join(f"{v.type}{_attribute(s)}" for v, s in results)
    names, types = ", ".join(v.name for v, _ in results), ", ".join(v.type for v, _ in results)
    body = "\n".join(f"  {line}" for s in statements for line in str(s).splitlines())
    main = f"func.func public @main({taken}) -> ({given}) {{\n{body}\n  return {names} : {types}\n}}\n"
    return main + "".join(text for text in functions if f"@{function_name(text)}" in body)


def function_name(text: str) -> str:
    """`callee` of `func.func private @callee(...`."""
    return text.partition("@")[2].partition("(")[0]


def _attribute(sharding: str) -> str:
    return f" {{sdy.sharding = #sdy.sharding{sharding}}}" if sharding else ""

"""An operation that is split only along dimensions that are independent in it sends nothing."""

from __future__ import annotations

import re

import pytest
from op_examples import EXAMPLES, function, operation_of, types_of

import gspmd
from gspmd.transforms.ops.communication import OPS as COMMUNICATION
from gspmd.transforms.ops.refused import OPS as REFUSED

# These have no dimensions, or are tuples, which the signature of a partitioned program does not have.
NO_DIMENSIONS = {"stablehlo.after_all", "stablehlo.create_token", "stablehlo.tuple", "stablehlo.get_tuple_element",
                 "stablehlo.custom_call (of an unknown target)"}  # fmt: skip
_LETTERS = "ijk"
_SIZES = re.compile(r"tensor<((?:\d+x)*)")


def _is_run(name: str) -> bool:
    return operation_of(name) not in REFUSED.keys() | COMMUNICATION.keys() and name not in NO_DIMENSIONS


def dimensions_of(name: str) -> tuple[list[str], list[str]]:
    """A letter a dimension, for each operand and each result of an example."""
    example = EXAMPLES[name]
    if example.independent:
        operands, results = example.independent.split("->")
        return _listed(operands), _listed(results)
    found = [[_SIZES.match(type_) for type_ in types] for types in types_of(example)]
    shapes = [[match[1] if match else "" for match in matches] for matches in found]
    assert len({shape for part in shapes for shape in part if shape}) == 1, f"say what is independent in '{name}'"
    given, made = ([_LETTERS[: shape.count("x")] for shape in part] for part in shapes)
    return given, made


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def letters_of(name: str) -> list[str]:
    """The letters of the independent dimensions of an example."""
    return sorted({letter for part in dimensions_of(name) for dims in part for letter in dims} - {"."})


NAMES = [name for name in EXAMPLES if _is_run(name)]
CASES = [(name, letter) for name in NAMES for letter in letters_of(name)]


def annotated(name: str, axes: dict[str, str], mesh: str) -> str:
    """The example with these axes on the dimensions of these letters, in operands and results."""
    operands, results = dimensions_of(name)
    types = types_of(EXAMPLES[name])
    assert [len(part) for part in types] == [len(operands), len(results)]

    def attribute(letters: str) -> str:
        dims = ", ".join(f'{{"{axes[letter]}"}}' if letter in axes else "{}" for letter in letters)
        return f" {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}" if letters else ""

    given = iter(operands)
    text = function(name, lambda type_: attribute(next(given)))
    listed = ", ".join(types[1])
    marked = ", ".join(f"{t}{attribute(d)}" for t, d in zip(types[1], results, strict=True))
    return f"sdy.mesh @mesh = <[{mesh}]>\n" + text.replace(f"-> ({listed}) {{", f"-> ({marked}) {{", 1)


@pytest.mark.parametrize(("name", "letter"), CASES)
@pytest.mark.parametrize("size", [2, 3])
def test_a_split_of_one_independent_dimension_sends_nothing(name: str, letter: str, size: int) -> None:
    """Three parts do not divide most of them; capital letters stand for two parts."""
    if letter.isupper() and size == 3:
        size = 2
    partitioned = gspmd.partition(annotated(name, {letter: "x"}, f'"x"={size}'))
    assert partitioned.collectives == ()
    assert any("x" in str(s) for s in (*partitioned.in_shardings, *partitioned.out_shardings))


@pytest.mark.parametrize("name", [name for name in NAMES if len(letters_of(name)) > 1])
def test_splits_of_all_independent_dimensions_send_nothing(name: str) -> None:
    letters = letters_of(name)
    axes = dict(zip(letters, "xyz", strict=False))
    partitioned = gspmd.partition(annotated(name, axes, '"x"=2, "y"=2, "z"=2'))
    assert partitioned.collectives == ()

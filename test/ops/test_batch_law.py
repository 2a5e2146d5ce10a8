"""An operation that is split only along dimensions that are independent in it sends nothing."""

from __future__ import annotations

import pytest
from independent_dims import INDEPENDENT, dimensions_of, letters_of
from op_examples import EXAMPLES, operation_of

import gspmd
from gspmd.transforms.ops.communication import OPS as COMMUNICATION
from gspmd.transforms.ops.refused import OPS as REFUSED

# These have no dimensions, or are tuples, which the signature of a partitioned program does not have.
NO_DIMENSIONS = {"stablehlo.after_all", "stablehlo.create_token", "stablehlo.tuple", "stablehlo.get_tuple_element",
                 "stablehlo.custom_call (of an unknown target)"}  # fmt: skip
CASES = [(name, letter) for name in INDEPENDENT for letter in letters_of(name)]


def test_every_example_is_in_the_table() -> None:
    refused = {name for name in EXAMPLES if operation_of(name) in REFUSED.keys() | COMMUNICATION.keys()}
    assert EXAMPLES.keys() - refused - NO_DIMENSIONS == INDEPENDENT.keys()


def annotated(name: str, axes: dict[str, str], mesh: str) -> str:
    """The example with these axes on the dimensions of these letters, in operands and results."""
    from op_examples import _types, function

    example = EXAMPLES[name]
    operands, results = dimensions_of(name)
    types = [_types(part) for part in example.types.split("->")]
    assert [len(part) for part in types] == [len(part) for part in (operands if types[0] else [], results)]

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


@pytest.mark.parametrize("name", [name for name in INDEPENDENT if len(letters_of(name)) > 1])
def test_splits_of_all_independent_dimensions_send_nothing(name: str) -> None:
    letters = letters_of(name)
    axes = dict(zip(letters, "xyz", strict=False))
    partitioned = gspmd.partition(annotated(name, axes, '"x"=2, "y"=2, "z"=2'))
    assert partitioned.collectives == ()

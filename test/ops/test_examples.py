"""Every example of an operation, however it is split, computes what it does on one device, and sends what is said."""

from __future__ import annotations

import random
import re

import pytest
from op_examples import EXAMPLES, function, operation_of, types_of
from proof.contents import fill
from support.examples_of_operations import COMPUTED
from support.local_sent import check_sent
from support.single_op import MESHES, check

from gspmd.transforms.ops import OPS, traits_of

_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*)>")


_NOT_ON_CPU = {"chlo.ragged_dot"}


def _is_function(name: str) -> bool:
    """Whether the result follows from the operands, and has elements."""
    return traits_of(operation_of(name)).pure and "callback" not in name and "x" in EXAMPLES[name].types


NAMES = [name for name in COMPUTED if _is_function(name)]
LOCALIZED = [name for name in NAMES if OPS[operation_of(name)].localize and types_of(EXAMPLES[name])[0]]


@pytest.mark.parametrize("name", [name for name in NAMES if operation_of(name) not in _NOT_ON_CPU])
def test_every_part_of_the_result_is_that_of_one_device(name: str) -> None:
    inputs = []
    for number, type_ in enumerate(types_of(EXAMPLES[name])[0]):
        found = _TENSOR.fullmatch(type_)
        assert found, type_
        sizes, element = found.groups()
        matrix = "triangular_solve" in name and number == 0
        content = "solvable" if matrix else "below 3" if element[0] in "iu" else "numbers"
        inputs.append(fill(tuple(map(int, sizes.split("x")[:-1])), element, content, number))
    check(function(name), inputs, MESHES["3x2"], count=1, tolerance=1e-5)


@pytest.mark.parametrize("name", LOCALIZED)
def test_what_is_sent_is_what_is_said(name: str) -> None:
    check_sent(function(name), random.Random(name))

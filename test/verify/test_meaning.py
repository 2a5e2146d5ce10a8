"""What the verifier takes operations to mean: terms of random programs as numbers, and what XLA makes of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from proof.contents import fill
from proof.enumeration import MESHES, Operation
from proof.execution import on_one_device
from proof.operations import FAMILIES

from gspmd.reading import read_program
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.reading import model_of
from gspmd.verification.computing import Computing
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.evaluation import Evaluation, Unknown
from gspmd.verification.index_maps import TooLarge, counted, dim, set_map
from gspmd.verification.meaning.meaning import GivenLoops
from gspmd.verification.numeric_run import NumericRun, spread
from gspmd.verification.terms import SET, TermTable
from gspmd.verification.values import SymbolicValue
from gspmd.verification.witness import Uninterpreted, Witness

_SAMPLES = 24
_ALONE = MESHES[0]
_COMPUTING = Computing()


def _read(arrays: list[np.ndarray[Any, Any]]) -> Any:
    def read(number: int, element: str, index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        array = np.asarray(arrays[number])
        taken = array[tuple(np.clip(index[:, d], 0, n - 1) for d, n in enumerate(array.shape))]
        wide = np.complex128 if element.startswith("complex") else np.float64
        return taken.reshape(-1).astype(np.int64 if element.startswith(("i", "ui")) else wide)

    return read


def _computed(algebra: Conditions, value: SymbolicValue, arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """All elements of a value, in numbers."""
    places = list(np.ndindex(*value.shape))
    rows = np.zeros((len(places), len(value.maps)), np.int64)
    for slot, (kind, each) in enumerate(zip(value.term.kinds, value.maps, strict=True)):
        for row, place in enumerate(places):
            at = each.at({label: place[label.number] for label in each.labels})
            rows[row, slot] = set_map((), at).number if kind == SET else int(at)
    witness = Witness(_read(arrays), algebra.terms.opaque, _COMPUTING)
    return witness.values(value.term, rows).reshape(value.shape)


def _compare(wanted: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(wanted.astype(np.int64), found.astype(np.int64))
        return
    error = 1e-4 if wanted.dtype.itemsize >= 4 else 0.05
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(wanted.astype(wide), found.astype(wide), rtol=error, atol=error)


@pytest.mark.parametrize("family", FAMILIES)
def test_terms_are_the_numbers_that_operations_make(family: str) -> None:
    compared = 0
    for number in range(_SAMPLES):
        program = Operation(family, number).program(_ALONE)
        arrays = [fill(a.value.shape, a.value.element, a.content, number) for a in program.arguments]
        text = str(program)
        wanted = on_one_device(text, arrays)
        try:
            module = read_program(text)
            algebra, devices = Conditions(TermTable()), DeviceDigits(_ALONE)
            given = model_of(module)
            block = main_function(given).regions[0]
            values = [
                algebra.value(
                    algebra.terms.argument(i, a.type.element, a.type.rank),
                    [counted(dim(d), n) for d, n in enumerate(a.type.shape)],
                    a.type.shape,
                )
                for i, a in enumerate(block.arguments)
            ]
            found = Evaluation(given, algebra, devices, GivenLoops(), False).block(block, values)
            made = [_computed(algebra, value, arrays) for value in found]
        except (Unknown, Uninterpreted, TooLarge):
            continue
        compared += 1
        for left, right in zip(wanted, made, strict=True):
            assert left.shape == right.shape
            _compare(left, right)
    if family in _COMPUTED:
        assert compared > _SAMPLES // 6


@pytest.mark.parametrize("family", FAMILIES)
def test_runs_on_numbers_are_runs_of_xla(family: str) -> None:
    for number in range(_SAMPLES):
        program = Operation(family, number).program(_ALONE)
        arrays = [fill(a.value.shape, a.value.element, a.content, number) for a in program.arguments]
        text = str(program)
        wanted = on_one_device(text, arrays)
        module = read_program(text)
        given = model_of(module)
        block = main_function(given).regions[0]
        run = NumericRun(given, DeviceDigits(_ALONE), 1, _COMPUTING, False)
        values = []
        for argument, array in zip(block.arguments, arrays, strict=True):
            wide = np.complex128 if array.dtype.kind == "c" else np.int64 if array.dtype.kind in "iub" else np.float64
            labels = [dim(d) for d in range(array.ndim)]
            values.append(run.known(argument.type.element, labels, np.asarray(array).astype(wide), argument.type.shape))
        for value, left in zip(run.block(block, values), wanted, strict=True):
            try:
                labels, table = run.table(value)
            except (Uninterpreted, TooLarge):
                continue
            made = spread(labels, table, [dim(d) for d in range(left.ndim)])
            _compare(left, np.broadcast_to(made, left.shape))


_COMPUTED = {"contraction", "dynamic_slicing", "elementwise", "gather", "layout", "reduction", "slicing", "structure"}

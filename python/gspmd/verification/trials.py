"""Finds elements that differ by running both programs on numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from gspmd.runtime.dtypes import numpy_dtype
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import Signature, ValueSignature
from gspmd.verification.computing import Computing
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.index_maps import Integers, TooLarge, dim
from gspmd.verification.numeric_run import NumericRun
from gspmd.verification.placement import parts
from gspmd.verification.refutation import differ, drawn, surely_differ
from gspmd.verification.values import SymbolicValue
from gspmd.verification.verdicts import WrongElement
from gspmd.verification.witness import Numbers, Uninterpreted

_TRIALS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """The numbers of a result: those that devices should have, and those that they have.

    There is an axis for each digit of the device and for each dimension of the shard. Both are 0 in padding. `places`
    are the indices in the whole result, one for each dimension.
    """

    wanted: Numbers
    found: Numbers
    places: list[Integers]


class Trials:
    """Runs of a program and of its partitioned form on the same pseudo-random arguments."""

    def __init__(self, given: Operation, partitioned: Operation, signature: Signature, devices: DeviceDigits) -> None:
        self._given = given
        self._partitioned = partitioned
        self._signature = signature
        self._devices = devices
        self._computing = Computing()

    def differing(self, results: Iterable[int]) -> dict[int, WrongElement]:
        """For each of these results an element that differs, if a few trials find one."""
        found: dict[int, WrongElement] = {}
        for seed in range(_TRIALS):
            left = [index for index in results if index not in found]
            if left:
                found.update(self._differing(left, seed))
        return found

    def _differing(self, results: list[int], seed: int) -> Iterator[tuple[int, WrongElement]]:
        """Elements that differ however both programs choose, and for which the given program has but one number."""
        first = self._results(results, seed, otherwise=False)
        differing = [index for index, result in first.items() if differ(result.wanted, result.found).any()]
        second = self._results(differing, seed, otherwise=True) if differing else {}
        for index, again in second.items():
            result = first[index]
            where = surely_differ((result.wanted, result.found), (again.wanted, again.found))
            if where.any():
                yield index, self._element(tuple(np.argwhere(where)[0]), result.places)

    def _element(self, at: tuple[int, ...], places: list[Integers]) -> WrongElement:
        count = len(self._devices.radices)
        position = int(np.ravel_multi_index(at[:count], self._devices.radices)) if count else 0
        whole = tuple(int(place[at]) for place in places)
        return WrongElement(int(self._devices.ids[position]), tuple(map(int, at[count:])), whole)

    def _results(self, results: list[int], seed: int, otherwise: bool) -> dict[int, _Result]:
        """Those of the results that both programs compute."""
        given, wanted = self._run(self._given, False, seed, otherwise)
        partitioned, found = self._run(self._partitioned, True, seed, otherwise)
        made = {}
        for index in results:
            signature = self._signature.outputs[index]
            places = self._places(signature)
            try:
                whole = self._spread(given, wanted[index])
                local = self._spread(partitioned, found[index])
            except (Uninterpreted, TooLarge):
                continue
            inside = np.full(local.shape, True)
            for place, size in zip(places, signature.shape, strict=True):
                inside &= place < size
            on_devices = tuple(np.indices(local.shape)[: len(self._devices.radices)])
            limits = zip(places, signature.shape, strict=True)
            at = (*on_devices, *(np.minimum(place, size - 1) for place, size in limits))
            made[index] = _Result(np.where(inside, whole[at], 0), np.where(inside, local, 0), places)
        return made

    def _run(
        self, module: Operation, is_partitioned: bool, seed: int, otherwise: bool
    ) -> tuple[NumericRun, list[SymbolicValue]]:
        run = NumericRun(module, self._devices, self._computing, otherwise)
        arguments = [self._drawn(run, seed, n, v, is_partitioned) for n, v in enumerate(self._signature.inputs)]
        return run, run.block(main_function(module).regions[0], arguments)

    def _drawn(
        self, run: NumericRun, seed: int, number: int, signature: ValueSignature, is_partitioned: bool
    ) -> SymbolicValue:
        """A pseudo-random argument or its shards, whose padding has numbers, too."""
        element, digits = signature.element_type, self._devices.digits
        shape = signature.local_shape if is_partitioned else signature.shape
        labels = [*(digits if is_partitioned else ()), *(dim(d) for d in range(len(shape)))]
        places = self._places(signature) if is_partitioned else list(np.indices(shape))
        rows = np.stack([place.reshape(-1) for place in places], axis=-1) if places else np.zeros((1, 0), np.int64)
        try:
            made = drawn(seed, number, element, rows)
        except Uninterpreted:
            return run.unknown(element, shape)
        if made.dtype.kind != "i":
            made = made.astype(numpy_dtype(element)).astype(made.dtype)
        if not places:
            return run.known(element, [], made.reshape(()), shape)
        return run.known(element, labels, made.reshape(places[0].shape), shape)

    def _places(self, signature: ValueSignature) -> list[Integers]:
        """For each dimension, the index in the whole value, with an axis for each digit and dimension."""
        labels = [*self._devices.digits, *(dim(d) for d in range(len(signature.shape)))]
        sizes = (*self._devices.radices, *signature.local_shape)
        found = parts(self._devices, signature)
        return [np.broadcast_to(found[dim(d)].spread(labels), sizes) for d in range(len(signature.shape))]

    def _spread(self, run: NumericRun, value: SymbolicValue) -> Numbers:
        """The numbers of a value, with an axis for each digit and dimension."""
        labels, table = run.table(value)
        sizes = dict(zip(labels, table.shape, strict=True))
        every = [*self._devices.digits, *(dim(d) for d in range(len(value.shape)))]
        whole = (*self._devices.radices, *value.shape)
        return np.broadcast_to(table.reshape([sizes.get(label, 1) for label in every]), whole)

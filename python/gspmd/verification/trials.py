"""Finds elements that differ by running both programs on numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from gspmd.runtime.dtypes import numpy_dtype
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import Signature, ValueSignature
from gspmd.verification.computing import Computing
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.index_maps import Integers, TooLarge, dim
from gspmd.verification.numeric_run import TRIAL, NumericRun, dims, spread
from gspmd.verification.placement import parts
from gspmd.verification.refutation import differ, drawn, surely_differ
from gspmd.verification.values import SymbolicValue
from gspmd.verification.verdicts import WrongElement
from gspmd.verification.witness import MAX_ROWS, Numbers, Uninterpreted

_TRIALS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """The numbers of a result: those that devices should have, and those that they have.

    There is an axis for each digit of the device, for each dimension of the shard, and for trials. Both are 0 in
    padding. `places` are the indices in the whole result, one for each dimension.
    """

    wanted: Numbers
    found: Numbers
    places: list[Integers]


class Trials:
    """Runs of a program and of its partitioned form on the same pseudo-random arguments, several trials at once."""

    def __init__(self, given: Operation, partitioned: Operation, signature: Signature, devices: DeviceDigits) -> None:
        self._given = given
        self._partitioned = partitioned
        self._signature = signature
        self._devices = devices
        self._computing = Computing()
        sizes = [math.prod(v.type.shape) for op in partitioned.walk() for v in op.results if v.type.is_tensor]
        most = max(sizes, default=1) * devices.count
        self._trials = min(_TRIALS, MAX_ROWS // max(most, 1))

    def elements(self, results: Sequence[int]) -> dict[int, WrongElement | None]:
        """For each of these results that both programs can compute, an element that differs; None if there is none."""
        first = self._results(results, otherwise=False) if self._trials else {}
        found: dict[int, WrongElement | None] = dict.fromkeys(first)
        differing = [index for index, result in first.items() if differ(result.wanted, result.found).any()]
        second = self._results(differing, otherwise=True) if differing else {}
        for index, again in second.items():
            result = first[index]
            where = surely_differ((result.wanted, result.found), (again.wanted, again.found))
            if where.any():
                found[index] = self._element(tuple(np.argwhere(where)[0][:-1]), result.places)
        return found

    def _element(self, at: tuple[int, ...], places: list[Integers]) -> WrongElement:
        count = len(self._devices.radices)
        position = int(np.ravel_multi_index(at[:count], self._devices.radices)) if count else 0
        whole = tuple(int(place[at]) for place in places)
        return WrongElement(int(self._devices.ids[position]), tuple(map(int, at[count:])), whole)

    def _results(self, results: Sequence[int], otherwise: bool) -> dict[int, _Result]:
        """Those of the results that both programs compute."""
        given, wanted = self._run(self._given, False, otherwise)
        partitioned, found = self._run(self._partitioned, True, otherwise)
        made = {}
        for index in results:
            signature = self._signature.outputs[index]
            try:
                whole = self._numbers(given, wanted[index])
                local = self._numbers(partitioned, found[index])
            except (Uninterpreted, TooLarge):
                continue
            places = self._places(signature)
            inside = np.full(local.shape, True)
            for place, size in zip(places, signature.shape, strict=True):
                inside &= (place < size)[..., None]
            limits = zip(places, signature.shape, strict=True)
            on_devices = np.indices(local.shape[:-1])[: len(self._devices.radices)]
            at = (*on_devices, *(np.minimum(place, size - 1) for place, size in limits))
            made[index] = _Result(np.where(inside, whole[at], 0), np.where(inside, local, 0), places)
        return made

    def _run(self, module: Operation, is_partitioned: bool, otherwise: bool) -> tuple[NumericRun, list[SymbolicValue]]:
        run = NumericRun(module, self._devices, self._trials, self._computing, otherwise)
        arguments = [self._drawn(run, n, v, is_partitioned) for n, v in enumerate(self._signature.inputs)]
        return run, run.block(main_function(module).regions[0], arguments)

    def _drawn(self, run: NumericRun, number: int, signature: ValueSignature, is_partitioned: bool) -> SymbolicValue:
        """A pseudo-random argument or its shards, whose padding has numbers, too."""
        element, shape = signature.element_type, signature.local_shape if is_partitioned else signature.shape
        labels = [*(self._devices.digits if is_partitioned else ()), *dims(shape), TRIAL]
        outer = self._devices.radices if is_partitioned else ()
        places = self._places(signature) if is_partitioned else list(np.indices(shape))
        rows = np.zeros((math.prod(outer), 0), np.int64)
        if places:
            rows = np.stack([place.reshape(-1) for place in places], axis=-1)
        try:
            made = np.stack([drawn(seed, number, element, rows) for seed in range(self._trials)], axis=-1)
        except Uninterpreted:
            return run.unknown(element, shape)
        if made.dtype.kind != "i":
            made = made.astype(numpy_dtype(element)).astype(made.dtype)
        return run.known(element, labels, made.reshape((*outer, *shape, self._trials)), shape)

    def _places(self, signature: ValueSignature) -> list[Integers]:
        """For each dimension, the index in the whole value, with an axis for each digit and dimension."""
        found, labels = parts(self._devices, signature), [*self._devices.digits, *dims(signature.shape)]
        sizes = (*self._devices.radices, *signature.local_shape)
        return [np.broadcast_to(found[dim(d)].spread(labels), sizes) for d in range(len(signature.shape))]

    def _numbers(self, run: NumericRun, value: SymbolicValue) -> Numbers:
        """The numbers of a value, with an axis for each digit, for each dimension, and for trials."""
        made = spread(*run.table(value), [*self._devices.digits, *dims(value.shape), TRIAL])
        return np.broadcast_to(made, (*self._devices.radices, *value.shape, self._trials))

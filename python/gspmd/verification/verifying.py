"""Verifies that a partitioned program computes the results of the unpartitioned program, for all inputs."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, Unsupported, UsageError
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.transforms.ir.modules import functions, main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, ValueSignature, arrays, read_signature
from gspmd.transforms.parsing.mlir import source_location
from gspmd.verification import index_maps
from gspmd.verification.blame import first_difference
from gspmd.verification.computing import Computing
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.equality import Mismatch, difference
from gspmd.verification.evaluation import Evaluation, Unknown
from gspmd.verification.index_maps import TooLarge, counted, dim
from gspmd.verification.meaning.loops import LOOP
from gspmd.verification.meaning.meaning import GivenLoops
from gspmd.verification.placement import parts
from gspmd.verification.refutation import refuting
from gspmd.verification.terms import Term, TermTable
from gspmd.verification.trials import Trials
from gspmd.verification.values import SymbolicValue
from gspmd.verification.verdicts import Presence, ResultVerdict, Verdict, Verification, WrongElement

_one_at_a_time = threading.Lock()


class NotProved(Unsupported):
    """A partitioned program could not be proved; `verification` has the verdicts."""

    usual_code = Code.NOT_PROVED

    def __init__(self, verification: Verification) -> None:
        first = min(
            (result for result in verification.results if result.verdict is not Verdict.PROVED),
            key=lambda result: result.verdict is not Verdict.REFUTED,
        )
        name = f" {first.name}" if first.name else ""
        super().__init__(
            f"result {first.index}{name} of the partitioned program is {first.verdict.value}: {first.reason}",
            op=first.operation or None,
            hint="see gspmd verify, or leave verify out",
        )
        self.verification = verification


def check_proved(given: ir.Module, partitioned: ir.Module) -> None:
    """Raise NotProved if the partitioned program is not proved."""
    found = verified(given, partitioned)
    if not found.proved:
        raise NotProved(found)


def verified(given: ir.Module, partitioned: ir.Module) -> Verification:
    """Verify a partitioned module against the given one. Errors: UsageError if their arguments or results differ."""
    with _one_at_a_time:
        try:
            return _Verifying(model_of(given), model_of(partitioned)).verification()
        finally:
            index_maps.forget()


def verified_by_value(given: ir.Module, partitioned: ir.Module) -> tuple[Verification, list[tuple[Presence, ...]]]:
    """The verification, and the presence of the results of every operation in the functions of the given program.

    Operations are in program order, an operation before those in its regions. For a function or body that runs several
    times, the last run counts.
    """
    with _one_at_a_time:
        try:
            verifying = _Verifying(model_of(given), model_of(partitioned))
            return verifying.verification(), verifying.presence()
        finally:
            index_maps.forget()


class _Verifying:
    """Two programs, run on the same arguments."""

    def __init__(self, given: Operation, partitioned: Operation) -> None:
        self.signature: Signature = read_signature(partitioned)
        self.algebra, self._computing = Conditions(TermTable()), Computing()
        self.devices = DeviceDigits(self.signature.mesh)
        self.given_module, self.partitioned_module = given, partitioned
        self.given_main, self.main = main_function(given), main_function(partitioned)
        self._run_loops(not _has_loops(partitioned))
        values = (*self.signature.inputs, *self.signature.outputs)
        self._has_summands = any(value.sharding.unreduced for value in values)
        self._check_boundary()

    def _check_boundary(self) -> None:
        """Raise UsageError for programs whose arguments or results differ in type or number."""
        block = self.given_main.regions[0]
        for what, values, signatures in (
            ("arguments", block.arguments, self.signature.inputs),
            ("results", block.terminator.operands, self.signature.outputs),
        ):
            types = [(v.type.shape, v.type.element) for v in values if v.type.is_tensor]
            if types != [(v.shape, v.element_type) for v in arrays(signatures)] and not self._has_summands:
                raise UsageError(
                    f"the partitioned program has other {what} than the given program",
                    hint="give the program from which it was partitioned",
                )

    def verification(self) -> Verification:
        if self._has_summands:
            return self._verification(self._unknown("an argument or a result is unreduced"))
        wholes = [self._argument(i, v) for i, v in enumerate(self.signature.inputs)]
        locals_ = [
            self.algebra.moved(whole, v.local_shape, parts(self.devices, v))
            for whole, v in zip(wholes, self.signature.inputs, strict=True)
        ]
        results, values = self._results(wholes, locals_)
        if not _all_proved(results) and self.given.loops.are_kept and _has_loops(self.given_module):
            self._run_loops(True)
            others, values = self._results(wholes, locals_)
            results = [b if b.verdict is Verdict.PROVED else a for a, b in zip(results, others, strict=True)]
        open_ = [result.index for result in results if result.verdict is not Verdict.PROVED]
        if not open_:
            return self._verification(results)
        tried = Trials(self.given_module, self.partitioned_module, self.signature, self.devices).elements(open_)
        results = [_refuted_at(result, tried.get(result.index)) for result in results]
        if values is not None and any(index not in tried for index in open_):
            wanted, found = values
            found = self._with_padding() or found
            rows = zip(results, wanted, found, strict=True)
            results = [row[0] if row[0].index in tried else self._refuted(*row) for row in rows]
        return self._verification(results)

    def _run_loops(self, are_run: bool) -> None:
        """Begin anew; loops that can be run are run, or else those of the given program are terms."""
        loops = GivenLoops(not are_run)
        self.given = Evaluation(self.given_module, self.algebra, self.devices, loops, False)
        self.partitioned = Evaluation(self.partitioned_module, self.algebra, self.devices, loops, True)

    def _results(
        self, wholes: Sequence[SymbolicValue], locals_: Sequence[SymbolicValue]
    ) -> tuple[list[ResultVerdict], tuple[list[SymbolicValue], list[SymbolicValue]] | None]:
        """The verdicts before any is refuted, and the results of both programs, None if they are not known."""
        wanted = self._run(self.given, self.given_main, wholes)
        if isinstance(wanted, Unknown):
            return self._unknown_at("given", wanted), None
        found = self._run(self.partitioned, self.main, locals_)
        if isinstance(found, Unknown):
            return self._unknown_at("partitioned", found), None
        return list(map(self._verdict, self._descriptions(), wanted, found)), (wanted, found)

    def _with_padding(self) -> list[SymbolicValue] | None:
        """The results of the partitioned program if the padding of arguments has numbers, too; None if not known."""
        padded = []
        for number, signature in enumerate(self.signature.inputs):
            places = parts(self.devices, signature)
            maps = [places[dim(d)] for d in range(len(signature.shape))]
            term = self.algebra.terms.argument(number, signature.element_type, len(maps))
            padded.append(self.algebra.value(term, maps, signature.local_shape))
        machine = Evaluation(self.partitioned_module, self.algebra, self.devices, self.given.loops, True)
        found = self._run(machine, self.main, padded)
        return None if isinstance(found, Unknown) else found

    def _refuted(self, result: ResultVerdict, whole: SymbolicValue, value: SymbolicValue) -> ResultVerdict:
        """The verdict, refuted if the numbers of an element differ for some arguments."""
        if result.verdict is Verdict.PROVED:
            return result
        signature = self.signature.outputs[result.index]
        promised, differs = self._compared(signature, whole, value)
        if promised is None or differs is None:
            return result
        places = parts(self.devices, signature)
        element = refuting(self.algebra, self._computing, self.devices, promised, value, places, differs)
        return _refuted_at(result, element)

    def _verification(self, results: Sequence[ResultVerdict]) -> Verification:
        names = [op.name for op in self.main.walk()]
        sums = names.count("stablehlo.all_reduce") + names.count("stablehlo.reduce_scatter")
        return Verification(
            print_mesh(self.signature.mesh), self.signature.num_partitions, tuple(results), sums, len(names)
        )

    def presence(self) -> list[tuple[Presence, ...]]:
        """The presence of the results of every operation of the given program."""
        on_devices: dict[Term, bool] = {}
        for value in self.partitioned.values.values():
            on_devices[value.term] = on_devices.get(value.term, False) or not value.is_partial
        known = self.given.values

        def of(name: Name) -> Presence:
            if name not in known or known[name].term not in on_devices:
                return Presence.UNKNOWN
            return Presence.PARTS if on_devices[known[name].term] else Presence.SUMMANDS

        ops = (op for function in functions(self.given_module) for op in function.walk())
        return [tuple(map(of, op.results)) for op in ops]

    def _unknown_at(self, which: str, error: Unknown) -> list[ResultVerdict]:
        return self._unknown(f"in the {which} program: {error.reason}", error.op.name, _location(error.op))

    def _unknown(self, reason: str, operation: str = "", location: str = "") -> list[ResultVerdict]:
        return [ResultVerdict(*known, Verdict.NOT_KNOWN, reason, operation, location) for known in self._descriptions()]

    def _descriptions(self) -> list[tuple[int, str | None, str, str]]:
        """The index, name, type and sharding of every result."""
        return [
            (index, v.name, v.type_text(), print_sharding(v.sharding)) for index, v in enumerate(self.signature.outputs)
        ]

    def _run(
        self, evaluation: Evaluation, main: Operation, arguments: Sequence[SymbolicValue]
    ) -> list[SymbolicValue] | Unknown:
        try:
            return evaluation.block(main.regions[0], arguments)
        except Unknown as error:
            return error

    def _argument(self, number: int, signature: ValueSignature) -> SymbolicValue:
        term = self.algebra.terms.argument(number, signature.element_type, len(signature.shape))
        maps = [counted(dim(d), size) for d, size in enumerate(signature.shape)]
        return self.algebra.value(term, maps, signature.shape)

    def _verdict(
        self,
        described: tuple[int, str | None, str, str],
        whole: SymbolicValue,
        value: SymbolicValue,
    ) -> ResultVerdict:
        index = described[0]
        signature = self.signature.outputs[index]
        if signature.is_token:
            return ResultVerdict(*described, Verdict.PROVED)
        _, differs = self._compared(signature, whole, value)
        if differs is None:
            return ResultVerdict(*described, Verdict.PROVED)
        name = self.main.regions[0].terminator.operands[index]
        op = first_difference(self.given.values.values(), self.partitioned.values, name)
        where = (op.name, _location(op)) if op is not None else ("", "")
        return ResultVerdict(*described, Verdict.NOT_KNOWN, differs.reason, *where)

    def _compared(
        self, signature: ValueSignature, whole: SymbolicValue, value: SymbolicValue
    ) -> tuple[SymbolicValue | None, Mismatch | None]:
        """What each device should have of a result, None if that is too large to compare, and how a value differs."""
        try:
            promised = self.algebra.moved(whole, signature.local_shape, parts(self.devices, signature))
            return promised, difference(self.algebra, promised, value)
        except TooLarge:
            return None, Mismatch("the table of its elements' indices would be too large", {})


def _all_proved(results: Sequence[ResultVerdict]) -> bool:
    return all(result.verdict is Verdict.PROVED for result in results)


def _refuted_at(result: ResultVerdict, element: WrongElement | None) -> ResultVerdict:
    """The verdict, refuted if an element is known that differs."""
    return result if element is None else dataclasses.replace(result, verdict=Verdict.REFUTED, element=element)


def _has_loops(module: Operation) -> bool:
    return any(op.name == LOOP for op in module.walk())


def _location(op: Operation) -> str:
    try:
        location = source_location(op.location)
    except Error:
        return ""
    return "" if location is None else str(location)

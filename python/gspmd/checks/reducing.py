"""Reduce a program that is partitioned wrongly: fewer operations, results and annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from gspmd.checks.bisection import CANNOT_RUN, FaultCandidate, symptom_of
from gspmd.checks.evaluation import CheckSettings, judged
from gspmd.checks.programs import SAID, changed, main_of, operations, read, returning, shardings_in, used_by
from gspmd.checks.stages import after_pipeline
from gspmd.dialect.location_marks import GIVEN
from gspmd.dialect.sharding import TensorSharding
from gspmd.isolation import Worker
from gspmd.pass_manager.manager import After
from gspmd.reduction import reduced
from gspmd.transforms.ir.modules import codec_of, declare_types, main_function
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries
from gspmd.transforms.passes import Pass

_AROUND = ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (4, 4), (8, 8))
_TRIES, _SECONDS = 150, 90.0


def reduced_program(
    worker: Worker,
    lead: FaultCandidate,
    passes: Sequence[Pass],
    attach: After,
    judging: CheckSettings,
    seconds: float = _SECONDS,
) -> str:
    """The text of a reduced program with the fault on random inputs, or else of the program as it is.

    Its operations keep the propagated shardings as far as the fault needs them.
    """
    random = dataclasses.replace(judging, inputs=None)
    cannot_run = lead.fault.symptom.startswith(CANNOT_RUN) or lead.fault.problem.startswith("cannot be")

    def is_wrong(program: str) -> bool:
        try:
            worker.call(judged, program, program, random)
        except Exception:  # noqa: BLE001 - the reduced program cannot run unpartitioned
            return False
        try:
            runs, _ = worker.call(judged, program, after_pipeline(program, passes, attach), random)
        except Exception:  # noqa: BLE001 - whatever passes and XLA raise
            return cannot_run
        return bool(symptom_of(runs)) and not cannot_run

    start = next((text for text in lead.programs if is_wrong(text)), None)
    if start is None:
        return plain(lead.programs[-1])
    return plain(reduced(start, lambda text: _smaller(text, lead.mark), is_wrong, tries=_TRIES, seconds=seconds))


def plain(program: str) -> str:
    """The text of a program without locations."""
    return str(read(program))


# ---- what is smaller ------------------------------------------------------------------------------


def _smaller(program: str, mark: int | None) -> Iterator[str]:
    """Reduced programs, the most reduced first; the operation with this mark stays."""
    function = main_of(program)
    ops = list(operations(function))
    number = len(ops)
    centre = next((i for i, op in enumerate(ops) if mark is not None and mark in _marks(op)), None)
    for up, down in _AROUND if centre is not None else ():
        kept = _near(ops, centre, up, down)  # type: ignore[arg-type]
        if len(kept) < number:
            yield _with_operations(program, kept)
    results = len(function.regions[0].terminator.operands)
    for index in range(results) if results > 1 else ():
        yield _with_results(program, (index,))
    for index in reversed(range(number)):
        if index != centre:
            yield _with_operations(program, [i for i in range(number) if i != index])
    yield from _less_said(program, number)


def _near(ops: Sequence[Operation], centre: int, up: int, down: int) -> list[int]:
    """The numbers of operations within so many uses of one of them."""
    found = {ops[centre]}
    front = found
    for _ in range(up):
        front = {value.op for op in front for value in used_by(op) if value.op is not None} - found
        found = found | front
    front = {ops[centre]}
    for _ in range(down):
        users = {(user, result.block) for op in front for result in op.results for user in result.users}
        front = {user.within(block) for user, block in users} - found
        found = found | front
    return [i for i, op in enumerate(ops) if op in found]


def _with_operations(program: str, kept: Sequence[int]) -> str:
    """The program with only these operations and the constants that they use; other operands become arguments."""

    def change(top: Operation) -> None:
        function = main_function(top)
        shardings, block = shardings_in(top), function.regions[0]
        ops = list(operations(function))
        inside = {ops[index] for index in kept}
        inside |= {v.op for op in inside for v in used_by(op) if v.op is not None and _is_constant(v.op)}
        alive = [v for op in ops if op in inside for v in op.results if _leaves(v, inside)]
        returning(top, [value for value in alive if value.type.is_tensor])
        entries = dictionaries(function, "arg_attrs", len(block.arguments))
        for op in reversed(ops):
            if op not in inside:
                for value in op.results:
                    if value.is_used:
                        entries.append(_entry(top, shardings.get(value)))
                        value.replace_all_uses_with(block.add_argument(value.type, op.location))
                op.erase()
        set_dictionaries(function, "arg_attrs", entries)
        _drop_unused_arguments(function)

    return changed(program, change)


def _with_results(program: str, indices: Sequence[int]) -> str:
    """The program with only these results and the operations that they need."""

    def change(top: Operation) -> None:
        function = main_function(top)
        end = function.regions[0].terminator
        entries = dictionaries(function, "res_attrs", len(end.operands))
        returning(top, [end.operands[index] for index in indices])
        set_dictionaries(function, "res_attrs", [entries[index] for index in indices])
        for op in reversed(list(operations(function))):
            if not any(result.is_used for result in op.results):
                op.erase()
        _drop_unused_arguments(function)

    return changed(program, change)


def _less_said(program: str, number: int) -> Iterator[str]:
    """The program without one of the annotations."""

    def without(key: str) -> str:
        def change(top: Operation) -> None:
            function = main_function(top)
            if key in ("arg_attrs", "res_attrs"):
                entries = dictionaries(function, key, len(_values(function, key)))
                set_dictionaries(function, key, [{k: v for k, v in entry.items() if k != SAID} for entry in entries])
                return
            op = list(operations(function))[int(key)]
            op.attributes.pop(SAID, None)
            if op.name == CONSTRAINT:
                op.replace(op.operands)

        return changed(program, change)

    for key in (*map(str, reversed(range(number))), "res_attrs", "arg_attrs"):
        yield without(key)


# ---- pieces ---------------------------------------------------------------------------------------


def _values(function: Operation, key: str) -> Sequence[Value]:
    block = function.regions[0]
    return block.arguments if key == "arg_attrs" else block.terminator.operands


def _marks(op: Operation) -> tuple[int, ...]:
    return GIVEN.numbers(op.location)


def _is_constant(op: Operation) -> bool:
    return not op.operands and not op.regions


def _leaves(value: Value, inside: set[Operation]) -> bool:
    """Whether the results of an operation are used outside the set, or not at all."""
    users = value.users
    block = value.block
    return not users or any(user.within(block) not in inside for user in users)


def _entry(top: Operation, sharding: TensorSharding | None) -> dict[str, ir.Attribute]:
    return {} if sharding is None else {SAID: codec_of(top).write(sharding)}


def _drop_unused_arguments(function: Operation) -> None:
    block = function.regions[0]
    entries = dictionaries(function, "arg_attrs", len(block.arguments))
    kept = [i for i, argument in enumerate(block.arguments) if argument.is_used]
    block.arguments = [block.arguments[i] for i in kept]
    block.locations = [block.locations[i] for i in kept]
    for index, argument in enumerate(block.arguments):
        argument.index = index
    declare_types(function)
    set_dictionaries(function, "arg_attrs", [entries[i] for i in kept])

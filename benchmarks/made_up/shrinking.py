"""Make a made-up program smaller, as long as something holds of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from gspmd.reduction import reduced
from made_up.program import Program
from made_up.step import Dims, Step

Holds = Callable[[Program], bool]
_MIN_SIZE = 8  # numbers below are dimensions, strides and the like


def shrunk(program: Program, holds: Holds, seconds: float = 240.0) -> Program:
    """The smallest program found in this time. What made it smaller once is tried again."""
    return reduced(program, _smaller, lambda candidate: _fits(candidate) and holds(candidate), seconds=seconds)


def types_of(program: Program) -> list[Any]:
    """The types of all values. Raises what JAX does for operands that do not fit."""
    import jax

    from made_up.operations import OPERATIONS, argument_type

    types: list[Any] = []
    for step in program.steps:
        if step.is_argument:
            types.append(argument_type(step))
            continue
        given = [types[o] for o in step.operands]
        types.append(jax.eval_shape(lambda *a, s=step: OPERATIONS[s.kind](s.numbers, *a), *given))
    return types


def _fits(program: Program) -> bool:
    """Whether it can be traced and lowered."""
    try:
        types_of(program)
        program.lowered()
    except Exception:  # noqa: BLE001 - JAX raises errors of many classes
        return False
    return True


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, those with most less first."""
    if len(program.results) > 1:
        for result in program.results:
            yield dataclasses.replace(program, results=(result,)).without_unused()
    if program.trained:
        yield dataclasses.replace(program, trained=False)
    yield from _ending_earlier(program)
    yield from _cut(program)
    yield from _bypassed(program)
    if len(program.results) > 1:
        for i in range(len(program.results)):
            results = program.results[:i] + program.results[i + 1 :]
            yield dataclasses.replace(program, results=results).without_unused()
    yield from _on_smaller_meshes(program)
    yield from _less_said(program)
    yield from _of_smaller_sizes(program)


def _ending_earlier(program: Program) -> Iterator[Program]:
    """An operand in place of a result."""
    for i, (number, _) in enumerate(program.results):
        for operand in program.steps[number].operands:
            if not program.steps[operand].is_argument:
                results = (*program.results[:i], (operand, None), *program.results[i + 1 :])
                yield dataclasses.replace(program, results=results).without_unused()


def _cut(program: Program) -> Iterator[Program]:
    """An argument in place of a value, last values first, with its annotation."""
    types = types_of(program)
    for number in reversed(range(len(program.steps))):
        step = program.steps[number]
        if not step.is_argument and types[number].dtype.kind == "f" and step.operands:
            yield _with_step(program, number, Step("argument", (), tuple(types[number].shape), step.dims))


def _bypassed(program: Program) -> Iterator[Program]:
    """An operand of the same type in place of a value."""
    types = types_of(program)
    for number, step in enumerate(program.steps):
        for operand in step.operands:
            same = (types[operand].shape, types[operand].dtype) == (types[number].shape, types[number].dtype)
            if same and all(operand != n for n, _ in program.results):
                steps = tuple(
                    dataclasses.replace(s, operands=tuple(operand if o == number else o for o in s.operands))
                    for s in program.steps
                )
                results = tuple((operand if n == number else n, dims) for n, dims in program.results)
                if all(not steps[n].is_argument for n, _ in results):
                    yield dataclasses.replace(program, steps=steps, results=results).without_unused()


def _less_said(program: Program) -> Iterator[Program]:
    """An annotation less, or an axis of one."""
    for number, step in enumerate(program.steps):
        if step.dims is not None:
            yield _with_step(program, number, dataclasses.replace(step, dims=None))
            for dims in _with_fewer_axes(step.dims):
                yield _with_step(program, number, dataclasses.replace(step, dims=dims))
    for i, (number, given) in enumerate(program.results):
        for dims in (None, *_with_fewer_axes(given)) if given is not None else ():
            results = (*program.results[:i], (number, dims), *program.results[i + 1 :])
            yield dataclasses.replace(program, results=results)


def _with_fewer_axes(dims: Dims) -> Iterator[Dims]:
    for place, axes in enumerate(dims):
        for name in axes or ():
            rest = tuple(other for other in axes or () if other != name)
            yield (*dims[:place], rest, *dims[place + 1 :])


def _on_smaller_meshes(program: Program) -> Iterator[Program]:
    """Without an axis, or with one of half the size."""
    for i, (name, size) in enumerate(program.mesh):
        others = (*program.mesh[:i], *program.mesh[i + 1 :])
        if others:
            yield _without_axis(dataclasses.replace(program, mesh=others), name)
        if size % 2 == 0 and size > 2:
            yield dataclasses.replace(program, mesh=(*program.mesh[:i], (name, size // 2), *program.mesh[i + 1 :]))


def _without_axis(program: Program, name: str) -> Program:
    def without(dims: Dims | None) -> Dims | None:
        if dims is None:
            return None
        return tuple(None if axes is None else tuple(each for each in axes if each != name) for axes in dims)

    steps = tuple(dataclasses.replace(step, dims=without(step.dims)) for step in program.steps)
    results = tuple((number, without(dims)) for number, dims in program.results)
    return dataclasses.replace(program, steps=steps, results=results)


def _of_smaller_sizes(program: Program) -> Iterator[Program]:
    """Every size that occurs, halved wherever it does."""
    sizes = {n for step in program.steps for n in step.numbers if step.is_argument and n >= 2 * _MIN_SIZE}
    for size in sorted(sizes, reverse=True):
        if size % 2 == 0:
            steps = tuple(
                dataclasses.replace(step, numbers=tuple(_halved(n, size) for n in step.numbers))
                for step in program.steps
            )
            yield dataclasses.replace(program, steps=steps)


def _halved(number: Any, size: int) -> Any:
    return size // 2 if isinstance(number, int) and number == size else number


def _with_step(program: Program, number: int, step: Step) -> Program:
    steps = (*program.steps[:number], step, *program.steps[number + 1 :])
    if step.is_argument and any(n == number for n, _ in program.results):
        return program
    return dataclasses.replace(program, steps=steps).without_unused()

"""Make a failing program smaller, as long as it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from gspmd.dialect.mesh import Mesh
from gspmd.reduction import reduced
from proof.program import Argument, Program, Statement, Value

Fails = Callable[[Program], bool]


def shrunk(program: Program, fails: Fails, tries: int = 80) -> Program:
    """The smallest program found. First the operations just before the failing result, then less of each."""
    for result in program.results if len(program.results) > 1 else ():
        alone = unused_left_out(dataclasses.replace(program, results=(result,)))
        tries -= 1
        if fails(alone):
            program = alone
            break
    for depth in range(1, 5):
        near = cut(program, depth)
        if len(near.statements) == len(program.statements):
            break
        tries -= 1
        if fails(near):
            program = near
            break
    return reduced(program, _smaller, fails, tries=tries)


def _makers(program: Program) -> dict[str, Statement]:
    return {value.name: s for s in program.statements for value in s.results}


def cut(program: Program, depth: int) -> Program:
    """What is more than `depth` operations before a result becomes an argument; constants stay."""
    makers = _makers(program)
    kept: dict[int, Statement] = {}
    front = [value.name for value, _ in program.results]
    for _ in range(depth):
        made = [makers[name] for name in front if name in makers]
        kept.update({id(s): s for s in made})
        front = [v.name for s in made for v in s.operands]
    for name in front:
        if name in makers and not makers[name].operands:
            kept[id(makers[name])] = makers[name]
    return _with_statements(program, tuple(s for s in program.statements if id(s) in kept))


def _with_statements(program: Program, statements: tuple[Statement, ...]) -> Program:
    """With only these operations; what they read from others becomes arguments."""
    defined = {v.name for s in statements for v in s.results} | {a.value.name for a in program.arguments}
    read = [v for s in statements for v in s.operands] + [v for v, _ in program.results]
    shardings = {v.name: t for s in program.statements for v, t in zip(s.results, s.shardings, strict=False)}
    missing = {v.name: v for v in read if v.name not in defined}
    # Results of several are written with `#`, which no argument's name may have.
    renamed = {name: name.replace("#", "_") for name in missing}
    made = tuple(Argument(_renamed(v, renamed), "numbers", shardings.get(v.name, "")) for v in missing.values())
    cut_down = dataclasses.replace(
        program,
        arguments=(*program.arguments, *made),
        statements=tuple(_reading(s, renamed) for s in statements),
        results=tuple((_renamed(v, renamed), t) for v, t in program.results),
    )
    return unused_left_out(cut_down)


def _renamed(value: Value, names: dict[str, str]) -> Value:
    return dataclasses.replace(value, name=names.get(value.name, value.name))


def _reading(statement: Statement, names: dict[str, str]) -> Statement:
    text = statement.text
    for old, new in names.items():
        if old != new:
            text = text.replace(f"{old},", f"{new},").replace(f"{old})", f"{new})").replace(f"{old} ", f"{new} ")
    return dataclasses.replace(statement, operands=tuple(_renamed(v, names) for v in statement.operands), text=text)


def unused_left_out(program: Program) -> Program:
    """Without operations and arguments that no result needs."""
    needed = {value.name for value, _ in program.results}
    kept: list[Statement] = []
    for statement in reversed(program.statements):
        if any(v.name in needed for v in statement.results):
            kept.insert(0, statement)
            needed |= {v.name for v in statement.operands}
    arguments = tuple(a for a in program.arguments if a.value.name in needed)
    return dataclasses.replace(program, statements=tuple(kept), arguments=arguments)


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less: a result, an operation, an annotation, an order of devices."""
    if len(program.results) > 1:
        for i in range(len(program.results)):
            yield unused_left_out(dataclasses.replace(program, results=program.results[:i] + program.results[i + 1 :]))
    if len(program.statements) > 1:
        for statement in program.statements:
            if statement.operands:
                others = tuple(s for s in program.statements if s is not statement)
                yield _with_statements(program, others)
    yield from _less_said(program)


def _less_said(program: Program) -> Iterator[Program]:
    if program.mesh.device_ids:
        yield dataclasses.replace(program, mesh=Mesh(program.mesh.axes))
    for i, argument in enumerate(program.arguments):
        if argument.sharding:
            plain = dataclasses.replace(argument, sharding="")
            yield dataclasses.replace(program, arguments=(*program.arguments[:i], plain, *program.arguments[i + 1 :]))
    for i, (value, sharding) in enumerate(program.results):
        if sharding:
            yield dataclasses.replace(program, results=(*program.results[:i], (value, ""), *program.results[i + 1 :]))
    for i, statement in enumerate(program.statements):
        if any(statement.shardings):
            plain_statement = dataclasses.replace(statement, shardings=())
            yield dataclasses.replace(
                program, statements=(*program.statements[:i], plain_statement, *program.statements[i + 1 :])
            )

"""Which case a number of a seed is."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from random import Random

from hostile import compiled_files, places, seed_inputs, side_files, word_cases
from hostile.attribute_texts import attribute_program, notation
from hostile.case import Case
from hostile.command_lines import OPTIONS, READERS, RUNNERS, WITH_OUTPUT, command_line, hostile_value
from hostile.generated import generated
from hostile.grammar import mutated_program
from hostile.mutations import mutated_bytes, mutated_words
from hostile.wanted import Unfit, Wanted

_MAX_BYTES = 1_500_000


def made(seed: int, number: int, formats: Sequence[str] = (), wanted: Wanted = Wanted()) -> Case:  # noqa: B008 - frozen
    """The case of a number: the same on every machine, whatever the other numbers are."""
    rng = Random(f"{seed}/{number}")
    names = list(formats or FORMATS)
    while names:
        (name,) = rng.choices(names, [FORMATS[name][0] for name in names])
        try:
            case = FORMATS[name][1](rng, wanted)
        except Unfit:
            names.remove(name)
            continue
        return dataclasses.replace(_in_terminal(rng, case, wanted), format=name)
    raise Unfit


def _in_terminal(rng: Random, case: Case, wanted: Wanted) -> Case:
    """One case in some hundred runs as a user runs it, in a process of its own."""
    if not wanted.terminals or case.terminal or "." in case.command or rng.random() > 0.008:
        return case
    if any("\0" in word for word in case.words):
        return case
    return dataclasses.replace(case, terminal="a process")


# ---- programs ----


def _text(rng: Random) -> str:
    """A program with up to four changes."""
    other = rng.choice(seed_inputs.programs())
    text = generated(rng) if rng.random() < 0.25 else rng.choice(seed_inputs.programs())
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 4))):
        text = (mutated_program if rng.random() < 0.6 else mutated_words)(rng, text, other)[:_MAX_BYTES]
    return text


def _mlir(rng: Random, wanted: Wanted) -> Case:
    return program_case(rng, wanted, "p.mlir", _text(rng).encode("utf-8", "surrogatepass"))


def _raw(rng: Random, wanted: Wanted) -> Case:
    """MLIR text with changes to its bytes."""
    data = rng.choice(seed_inputs.programs()).encode()
    for _ in range(rng.choice((1, 1, 2))):
        data = mutated_bytes(rng, data, rng.choice(seed_inputs.programs()).encode())
    return program_case(rng, wanted, "p.mlir", data)


def _small(rng: Random, wanted: Wanted) -> Case:
    """A short program with a change or two, for what compiles and runs."""
    commands = wanted.among(RUNNERS)
    text = rng.choice(seed_inputs.small_programs())
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        text = mutated_program(rng, text, "") if rng.random() < 0.7 else mutated_words(rng, text, text)
    command = rng.choice(commands)
    if len(text) > 20_000 or _is_large(text):  # its arrays may be, and a process should not be
        command = rng.choice(wanted.among(READERS))
    return Case(command, command_line(rng, command, "p.mlir"), (("p.mlir", text.encode("utf-8", "surrogatepass")),))


def _is_large(text: str) -> bool:
    """Whether a program says that it needs more than some 100 MB, which then nobody should wonder at."""
    shapes = re.findall(r"tensor<((?:\d+x)*)", text)
    dims = [[n for n in shape.split("x") if n] for shape in shapes]
    return (
        any(len(n) > 9 for ns in dims for n in ns)
        or any(math.prod(map(int, ns)) > 2**22 for ns in dims)
        or "dense<" in text
    )


def program_case(rng: Random, wanted: Wanted, name: str, data: bytes) -> Case:
    """The case of a program that a command reads, from a file or from stdin."""
    command = rng.choice(wanted.among(READERS))
    if "." not in command and rng.random() < 0.05:
        words = ("-", *command_line(rng, command, name)[1:])
        return Case(command, words, (), data)
    return Case(command, command_line(rng, command, name), ((name, data),))


def _attributes(rng: Random, wanted: Wanted) -> Case:
    return program_case(rng, wanted, "p.mlir", attribute_program(rng).encode("utf-8", "surrogatepass"))


def _notation(rng: Random, wanted: Wanted) -> Case:
    wanted.among(("api.notation",))
    kind, text = notation(rng)
    return Case("api.notation", (kind,), (("text", text.encode("utf-8", "surrogatepass")),))


def _of_bytes(name: str) -> Callable[[Random, Wanted], Case]:
    """Cases of a format that is no text."""

    def make(rng: Random, wanted: Wanted) -> Case:
        found = seed_inputs.kept(name.removeprefix("p"))
        data = rng.choice(found)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            data = mutated_bytes(rng, data, rng.choice(found))[:_MAX_BYTES]
        return program_case(rng, wanted, name, data)

    return make


def _hlo(rng: Random, wanted: Wanted) -> Case:
    found = seed_inputs.kept(".hlo")
    text = rng.choice(found).decode()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = mutated_words(rng, text, rng.choice(found).decode())[:_MAX_BYTES]
    return program_case(rng, wanted, "p.hlo", text.encode("utf-8", "surrogatepass"))


# ---- command lines ----


def _option(rng: Random, wanted: Wanted) -> Case:
    """A good program and a hostile value."""
    fitting = [o for o in OPTIONS if not wanted.commands or {*wanted.commands} & {*o.commands}]
    if not fitting:
        raise Unfit
    option = rng.choice(fitting)
    command = rng.choice(wanted.among(option.commands))
    value, refused = hostile_value(rng, option)
    words = ["p.mlir"] if "--original" not in option.flag else ["q.mlir"]
    if command == "compile" and option.flag != "--target":
        words += ["--target", "cpu"]
    words += [f"{option.flag}={value}"] if option.prefix or rng.random() < 0.3 else [option.flag, value]
    program = seed_inputs.CALLING if "custom-rule" in option.flag else seed_inputs.GOOD
    files = [("p.mlir", program.encode())]
    if words[0] == "q.mlir":
        files.append(("q.mlir", seed_inputs.partitioned()[-1].encode()))
    if option.flag == "--tolerance":
        refused = True  # there is no budget
    return Case(command, tuple(words), tuple(files), expects="refusal" if refused else "")


def _place(rng: Random, wanted: Wanted) -> Case:
    """A good program or a bad one, with output somewhere odd, or input from there."""
    command = rng.choice(wanted.among(("opt", "opt", "partition", "partition", "cost", "report", "run", "compile")))
    good = rng.random() < 0.7
    program = seed_inputs.GOOD if good else rng.choice((seed_inputs.GOOD[:-3], seed_inputs.CALLING, ""))
    name = (
        "p.mlir" if rng.random() < 0.8 else rng.choice(("p{1}.mlir", "a\nb.mlir", "é.mlir", "-", "-p.mlir", "a\udcff"))
    )
    inlet = (
        ""
        if rng.random() < 0.85 or name == "-"
        else rng.choice(("missing", "a directory", "a fifo", "a null device", "a link to itself"))
    )
    kind = rng.choice(sorted(places.KINDS))
    words = ["--" if name.startswith("-p") else "", name]
    words = [word for word in words if word]
    options = ["--gspmd-partition"] if command == "opt" else ["--target", "cpu"] if command == "compile" else []
    output = places.KINDS[kind]
    flag = rng.choice(WITH_OUTPUT[command])
    given = [f"{flag}={output}"] if flag.startswith("--") or output.startswith("-") else [flag, output]
    if flag == "-o" and output.startswith("-") and output != "-":
        given = ["--output=" + output] if command != "opt" else ["-o", output]
    elif output == "-":
        given = [flag, output]
    files = () if name == "-" else ((name, program.encode()),)
    stdin = program.encode() if name == "-" else b""
    case = Case(command, (*options, *given, *words), files, stdin, kind, output, inlet if files else "")
    if inlet in ("missing", "a directory", "a link to itself"):
        return dataclasses.replace(case, expects="refusal")
    can = good and not places.refuses(kind) and inlet in ("", "a fifo") and kind not in places.REFUSED_TO_USERS
    can &= inlet != "a fifo" or output != name  # then nobody reads from it
    return dataclasses.replace(case, expects="success" if can else "")


# Weights, and how a case is made.
FORMATS: dict[str, tuple[float, Callable[[Random, Wanted], Case]]] = {
    "mlir": (42, _mlir),
    "raw": (4, _raw),
    "attribute": (14, _attributes),
    "notation": (6, _notation),
    "bytecode": (6, _of_bytes("p.mlirbc")),
    "artifact": (4, _of_bytes("p.artifact")),
    "hlo": (4, _hlo),
    "proto": (4, _of_bytes("p.pb")),
    "small": (4, _small),
    "option": (5, _option),
    "place": (4, _place),
    "budget": (2, side_files.budget),
    "target": (2, side_files.target),
    "npz": (1.5, side_files.npz),
    "compiled": (1, compiled_files.compiled),
    "rule": (1, word_cases.rule),
    "pipeline": (2, word_cases.pipeline),
    "call": (1.5, word_cases.call),
    "demo": (0.5, word_cases.demo),
    "page": (0.3, word_cases.page),
    "terminal": (0.5, word_cases.terminal),
}

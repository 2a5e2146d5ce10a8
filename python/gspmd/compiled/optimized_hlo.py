"""Parser of optimized HLO as XLA prints it: instructions, their numbers of runs, and collectives."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gspmd.dialect.location_marks import LINE
from gspmd.runtime.hlo_groups import first_group

COLLECTIVES = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "collective_permute",
    "collective-broadcast": "collective_permute",
}
_LINE = re.compile(rf'op_name="[^"]*{re.escape(LINE)}(\d+)\b')
_HEAD = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = ")
_SHAPE = re.compile(r"\b(pred|bf16|[a-z]+?(?P<bits>\d+)\w*|token)\[(?P<dims>[\d,]*)\]")
_CALLED: re.Pattern[str] = re.compile(
    r"\b(body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_NO_CYCLES = 2**63 - 1
_IN_FUSION = re.compile(r'custom_call_target="AsyncCollective(Start|Done)"')
_FLAG = re.compile(r"u32\[\]\{:S\(2\)\}")  # memory of the synchronization flags of TPUs
_ONE_OPERAND_FIRST = ("all-gather-start", "collective-permute-start")  # these have a tuple of operand and result
_PARTITIONS = re.compile(r"^HloModule [^\n]*\bnum_partitions=(\d+)")


# How libtpu 0.0.42 says what is sent between slices, for devices 0 to 7 of two: "{1,2}x{0:7}", or their numbers.
_BETWEEN = re.compile(r'_xla_megascale_transfer_type="([A-Z_]+)"')
_BETWEEN_WHICH = re.compile(r'_xla_megascale_target="?\{\{?([^}]*)\}')
_BETWEEN_KINDS = {
    "ALL_GATHER": "all_gather",
    "ALL_REDUCE": "all_reduce",
    "ALL_TO_ALL": "all_to_all",
    "ONE_TO_ONE": "collective_permute",
    "REDUCE_SCATTER": "reduce_scatter",
}


class SliceTransfer(NamedTuple):
    """A collective between so many slices, with the operand bytes of each device."""

    kind: str
    slices: int
    bytes: float


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `type` is the text of its result type, `attributes` the text after the operands."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    is_root: bool

    @property
    def cycles(self) -> int | None:
        """The compiler's estimate of cycles on TPUs.

        None if there is none, which may be written as the largest number.
        """
        found = _CYCLES.search(self.attributes)
        return int(found[1]) if found and int(found[1]) < _NO_CYCLES else None

    @property
    def collective(self) -> str | None:
        """The kind of collective that the instruction is or starts, by its StableHLO name."""
        return COLLECTIVES.get(self.opcode.removesuffix("-start"))

    @property
    def between_slices(self) -> SliceTransfer | None:
        """The transfer between slices of TPUs that the instruction completes; None for other instructions.

        The runtime library of TPUs leaves these transfers to the hosts, as a pair of send and receive.
        """
        found = _BETWEEN.search(self.attributes) if self.opcode == "recv" else None
        target = _BETWEEN_WHICH.search(self.attributes)
        kind = None if found is None else _BETWEEN_KINDS.get(found[1])
        if kind is None or target is None:
            return None
        slices = 2 if kind == "collective_permute" else target[1].count(",") + 1
        received = bytes_of_type(_members(self.type)[0])
        given = {"all_gather": received / slices, "reduce_scatter": received * slices}.get(kind, received)
        return SliceTransfer(kind, slices, given)

    @property
    def result_bytes(self) -> float:
        """The bytes of the result; for the start of a collective, of the results in its tuple."""
        if self.collective is None or not self.opcode.endswith("-start") or not self.type.startswith("("):
            return bytes_of_type(self.type)
        members = _members(self.type)
        if members[0].startswith("(") or self.opcode in _ONE_OPERAND_FIRST:
            return bytes_of_type(members[1])
        return bytes_of_type(self.type)  # a tuple of results, as older compilers have it

    def operand_bytes(self, devices: int) -> float:
        """The operand bytes of a collective of so many devices."""
        if self.collective == "all_gather":
            return self.result_bytes / devices
        return self.result_bytes * (devices if self.collective == "reduce_scatter" else 1)


class Phase(enum.Enum):
    """What a fusion of libtpu 0.0.42 does for an asynchronous collective, which is printed in all of these fusions.

    A collective is started by one fusion, proceeds beside the work of any number of others, and is awaited by the last.
    """

    START = "Start"
    STEP = "Step"
    DONE = "Done"


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionRun:
    """An instruction that runs `times` in a call of the program; `known` if all enclosing trip counts are known."""

    instruction: Instruction
    computation: str
    times: int
    known: bool


class OptimizedModule:
    """The computations of a module, by name.

    `lines` are the source lines of the program, if operations were named after them (`LINE`) before compilation.
    """

    def __init__(self, text: str, lines: Sequence[str] = ()) -> None:
        self._lines = lines
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        self._frames = _frames(text)
        self._partitions = int(found[1]) if (found := _PARTITIONS.match(text)) else 1
        current: dict[str, Instruction] = {}
        for line in text.splitlines():
            if head := _HEAD.match(line):
                current = self.computations[head["name"]] = {}
                self.entry = head["name"] if head["entry"] else self.entry
            elif found := _INSTRUCTION.match(line):
                instruction = _parsed(found, line)
                current[instruction.name] = instruction

    def source(self, instruction: Instruction) -> str:
        """The source `file:line` of an instruction, if it has one."""
        if self._lines and (named := _LINE.search(instruction.attributes)):
            return self._lines[int(named[1])]
        file = re.search(r'source_file="([^"]*)"', instruction.attributes)
        line = re.search(r"source_line=(\d+)", instruction.attributes)
        if file and line:
            return f"{file[1]}:{line[1]}"
        frame = re.search(r"stack_frame_id=(\d+)", instruction.attributes)
        return self._frames.get(frame[1], "") if frame else ""

    def group(self, collective: Instruction) -> tuple[int, ...]:
        """The partitions in the group of the first partition, for a collective other than a permute.

        Errors: InputError for groups in a form that is not known.
        """
        return first_group(collective.attributes, self._partitions)

    def collective_in(self, instruction: Instruction) -> Instruction | None:
        """The collective that an instruction is, starts, or is fused with. None if it is only in progress meanwhile."""
        if instruction.collective is not None:
            return instruction
        inner = next((each for each in self._fused(instruction).values() if each.collective), None)
        if inner is None or self.phase(instruction) in (Phase.STEP, Phase.DONE):
            return None
        # An all-reduce and a slice in one fusion are a reduce-scatter.
        group = len(self.group(inner)) if inner.collective == "all_reduce" else 1
        if group > 1 and bytes_of_type(instruction.type) * group <= bytes_of_type(inner.type):
            return dataclasses.replace(inner, opcode="reduce-scatter", type=instruction.type)
        return inner

    def phase(self, instruction: Instruction) -> Phase | None:
        """What a fusion does for an asynchronous collective; None for other instructions."""
        inner = self._fused(instruction).values()
        for each in inner:
            if each.opcode == "custom-call" and (found := _IN_FUSION.search(each.attributes)):
                return Phase(found[1])
        takes_part = any(each.collective for each in inner)
        if takes_part and any(each.opcode == "parameter" and _FLAG.match(each.type) for each in inner):
            return Phase.STEP
        return None

    def is_start(self, instruction: Instruction) -> bool:
        """Whether an instruction starts something that a later one waits for."""
        return instruction.opcode.endswith("-start") or self.phase(instruction) is Phase.START

    def is_done(self, instruction: Instruction) -> bool:
        """Whether an instruction only waits."""
        return instruction.opcode.endswith("-done") or self.phase(instruction) is Phase.DONE

    def started(self, computation: str, done: Instruction) -> str:
        """The name of the instruction that starts what this one waits for."""
        if self.phase(done) is None:
            return done.operands[0]
        values, at = self.computations[computation], done
        while self.phase(at) is not Phase.START:
            flag = next(name for name in at.operands if name in values and _FLAG.match(values[name].type))
            at = values[values[flag].operands[0]]
        return at.name

    def _fused(self, instruction: Instruction) -> dict[str, Instruction]:
        """The instructions of a fusion; of any other instruction none."""
        if instruction.opcode != "fusion":
            return {}
        _, _, name = instruction.attributes.partition("calls=%")
        return self.computations.get(name.split(",")[0], {})

    def visits(self, fused: bool = False) -> Iterator[InstructionRun]:
        """Every instruction, optionally with those inside fusions; of all branches."""
        stack = [(self.entry, 1, True)]
        while stack:
            name, times, known = stack.pop()
            for instruction in self.computations.get(name, {}).values():
                yield InstructionRun(instruction, name, times, known)
                if instruction.opcode == "while":
                    trips = self.trips(name, instruction)
                    known_too = known and trips is not None
                    stack.append((self.body(instruction), times * (1 if trips is None else trips), known_too))
                stack += [(other, times, known) for other in self.called(instruction, fused)]

    @staticmethod
    def body(loop: Instruction) -> str:
        """The body of a loop."""
        return str(dict(_CALLED.findall(loop.attributes))["body"])

    def called(self, instruction: Instruction, fused: bool = False) -> list[str]:
        """The computations that a call, a branch, an asynchronous operation, or also a fusion, runs."""
        if instruction.opcode not in ("call", "conditional", "async-start", *(("fusion",) if fused else ())):
            return []
        names = [name for _, name in _CALLED.findall(instruction.attributes)]
        for branches in _BRANCHES.findall(instruction.attributes):
            names += [branch.strip().lstrip("%") for branch in branches.split(",")]
        return [name for name in names if name in self.computations]

    def trips(self, computation: str, loop: Instruction) -> int | None:
        """The trip count of a loop with constant start, step and limit; None for other loops."""
        if found := _TRIPS.search(loop.attributes):
            return int(found[1])
        called = dict(_CALLED.findall(loop.attributes))
        condition, body = (self.computations[called[key]] for key in ("condition", "body"))
        test = next((i for i in condition.values() if i.is_root), None)
        if test is None or test.opcode != "compare" or "direction=LT" not in test.attributes:
            return None
        index, limit = _element(condition, test.operands[0]), _number(condition, test.operands[1])
        start = _number(self.computations[computation], self._operand(computation, loop, index))
        result = next(i for i in body.values() if i.is_root)
        if index is None or limit is None or start is None or result.opcode != "tuple":
            return None
        step = body.get(result.operands[index])
        while step is not None and step.opcode in ("copy", "bitcast"):
            step = body.get(step.operands[0])
        if step is None or step.opcode != "add" or _element(body, step.operands[0]) != index:
            return None
        by = _number(body, step.operands[1])
        return max(0, -(-(limit - start) // by)) if by else None

    def _operand(self, computation: str, loop: Instruction, index: int | None) -> str:
        initial = self.computations[computation].get(loop.operands[0])
        if index is None or initial is None or initial.opcode != "tuple":
            return ""
        return initial.operands[index]


def _frames(text: str) -> dict[str, str]:
    """The innermost `file:line` of each stack frame in the tables of the module, by number."""
    files = dict(re.findall(r'^(\d+) "([^"]*)"$', _table(text, "FileNames"), re.MULTILINE))
    places = {
        number: f"{files.get(file, '')}:{line}"
        for number, file, line in re.findall(
            r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", _table(text, "FileLocations"), re.MULTILINE
        )
    }
    stacks = re.findall(r"^(\d+) \{file_location_id=(\d+)", _table(text, "StackFrames"), re.MULTILINE)
    return {number: places.get(place, "") for number, place in stacks}


def _table(text: str, name: str) -> str:
    """The lines of one of the tables between a module's head and its computations."""
    found = re.search(rf"^{name}\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def _parsed(found: re.Match[str], line: str) -> Instruction:
    end = _end_of_type(line, found.end())
    type_, rest = line[found.end() : end], line[end:].lstrip()
    opcode, _, rest = rest.partition("(")
    close = _closing(rest)
    inside = rest[:close]
    names = tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(found["name"], type_, opcode, names, inside, rest[close + 1 :], bool(found["root"]))


def _end_of_type(line: str, start: int) -> int:
    if line[start] != "(":
        return line.index(" ", start)
    return start + 1 + _closing(line[start + 1 :]) + 1


def _members(type_: str) -> list[str]:
    """The types in a tuple's, which may be tuples and have layouts such as `{1,0:T(8,128)}`."""
    found, depth = [""], 0
    for each in type_[1:-1]:
        depth += (each in "([{") - (each in ")]}")
        if each == "," and not depth:
            found.append("")
        else:
            found[-1] += each
    return [member.strip() for member in found]


def _closing(text: str) -> int:
    """Where the parenthesis closes that is open at the beginning."""
    depth = 1
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    return len(text)


def _element(computation: dict[str, Instruction], name: str) -> int | None:
    """Which element of the computation's parameter a value is."""
    value = computation.get(name)
    while value is not None and value.opcode in ("copy", "bitcast"):
        value = computation.get(value.operands[0])
    if value is None or value.opcode != "get-tuple-element":
        return None
    found = re.search(r"index=(\d+)", value.attributes)
    return int(found[1]) if found else None


def _number(computation: dict[str, Instruction], name: str) -> int | None:
    value = computation.get(name)
    while value is not None and value.opcode in ("copy", "bitcast"):
        value = computation.get(value.operands[0])
    if value is None or value.opcode != "constant" or not re.fullmatch(r"-?\d+", value.literal):
        return None
    return int(value.literal)


@functools.lru_cache(maxsize=65536)
def bytes_of_type(text: str) -> float:
    """Bytes of an HLO type such as `f32[16,128]{1,0}`, or of all elements of a tuple."""
    total = 0.0
    for found in _SHAPE.finditer(text):
        bits = 8 if found[1] == "pred" else 16 if found[1] == "bf16" else int(found["bits"] or 0)
        total += bits / 8 * math.prod(int(d) for d in found["dims"].split(",") if d)
    return total

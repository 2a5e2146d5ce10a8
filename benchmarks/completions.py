"""The shardings that gspmd, Shardy and XLA GSPMD complete for one annotated program, value by value.

All three start from the same ingested module. Values are named by `mark`, through an attribute and a location that
survive the passes of all of them.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import xla
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager as MlirPassManager

from gspmd.comparisons.gspmd_annotations import free_values, use_gspmd_annotations
from gspmd.dialect.errors import Error
from gspmd.dialect.hlo_convert import to_hlo_sharding, to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding, TupleOf
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.pass_manager import PassManager
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.modules import FUNCTION, function_types, main_function
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

ARGUMENT, RESULT = "argument", "result"


class Name(NamedTuple):
    """One value: result `index` of operation `op`, or with `op` ARGUMENT or RESULT one of @main's."""

    op: int | str
    index: int


Completion = dict[Name, TensorSharding]
"""Closed shardings; what a partitioner says nothing of is replicated and left out."""

_MARK = "gspmd.value"
_LOCATION = re.compile(r'op_name="[^"]*?gspmd\.value\.(\d+)\b')
# What Shardy alone has words for; XLA's propagation cannot be given such programs.
_SDY_ONLY = ("sdy.manual_computation", "sdy.sharding_group", "sdy.propagation_barrier", "}p", "replicated={")


def annotated(text: str) -> ir.Module:
    """The ingested program, without CHLO, which the peers do not know, and with its values named."""
    module = parse_module(text, new_context())
    PassManager(["gspmd-ingest", "chlo-legalize-to-stablehlo"]).run(module)
    with in_memory(module) as top:
        number = ir.IntegerType.get_signless(64)
        for index, op in enumerate(operations(top)):
            op.attributes[_MARK] = ir.IntegerAttr.get(number, index)
            op.location = ir.Location.name(f"gspmd.value.{index}", op.location)
    return module


def operations(top: Operation) -> Iterator[Operation]:
    """The operations with results in @main, in order, with those of nested control flow, but not of reducers."""
    yield from _operations(main_function(top).regions[0])


def _operations(block: Block) -> Iterator[Operation]:
    for op in block:
        if op.results:
            yield op
        if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
            for region in op.regions:
                yield from _operations(region)


def number_of(op: Operation) -> int:
    """The number that `annotated` gave an operation."""
    return int(ir.IntegerAttr(op.attributes[_MARK]).value)


def copy_of(module: ir.Module) -> ir.Module:
    """The module again, locations and all."""
    return ir.Module.parse(module.operation.get_asm(enable_debug_info=True), module.context)


# ---- gspmd and Shardy -----------------------------------------------------------------------------


def of_gspmd(module: ir.Module) -> Completion:
    """Completed by `gspmd-propagate`."""
    module = copy_of(module)
    PassManager(["gspmd-propagate"]).run(module)
    return read(module)


def of_shardy(module: ir.Module) -> Completion:
    """Completed by the Shardy inside jaxlib."""
    module = copy_of(module)
    manager = MlirPassManager.parse("builtin.module(sdy-propagation-pipeline)", module.context)
    manager.run(module.operation)
    return read(module)


def read(module: ir.Module) -> Completion:
    """What is written on a completed module."""
    top = model_of(module)
    whole = AnnotatedModule(top)
    found: Completion = {}
    for kind, shardings in ((ARGUMENT, whole.arguments), (RESULT, whole.results)):
        found.update({Name(kind, i): s.closed() for i, s in enumerate(shardings) if s is not None})
    for op in operations(top):
        attributes = op.attributes
        if _MARK not in attributes:
            continue
        number = number_of(op)
        if op.name in (CONSTRAINT, "sdy.reshard"):
            found[Name(number, 0)] = whole.codec.read(attributes["sharding"]).closed()
        elif "sdy.sharding" in attributes:
            shardings = whole.codec.read_list(attributes["sdy.sharding"])
            found.update({Name(number, i): s.closed() for i, s in enumerate(shardings)})
    return {name: sharding for name, sharding in found.items() if not sharding.is_replicated()}


def write(module: ir.Module, completion: Completion) -> None:
    """Put a completion on a completed module in place of its own; constants, made anew for every use, keep theirs."""
    with in_memory(module) as top:
        whole = AnnotatedModule(top)
        codec = whole.codec

        def of(name: Name, rank: int) -> TensorSharding:
            return completion.get(name) or TensorSharding(whole.mesh, ()).with_axes(((),) * rank)

        def signature(kind: str, types: Sequence[TensorType]) -> list[TensorSharding]:
            return [of(Name(kind, i), type_.rank) for i, type_ in enumerate(types)]

        for op in operations(top):
            if _MARK not in op.attributes:
                continue
            number = number_of(op)
            if op.name == CONSTRAINT:
                op.attributes["sharding"] = codec.write(of(Name(number, 0), op.result.type.rank))
            elif not is_constant(op):
                made = tuple(of(Name(number, i), result.type.rank) for i, result in enumerate(op.results))
                op.attributes["sdy.sharding"] = codec.write_list(made)
        inputs, results = function_types(whole.function)
        whole.set_signature(signature(ARGUMENT, inputs), signature(RESULT, results))


def is_constant(op: Operation) -> bool:
    """Whether every use of the operation gets its own part made where it is needed."""
    if op.name == "stablehlo.broadcast_in_dim":
        source = op.operands[0]
        return not source.type.rank and source.op is not None and is_constant(source.op)
    return op.name in ("stablehlo.constant", "stablehlo.iota")


# ---- XLA ------------------------------------------------------------------------------------------


def of_xla(module: ir.Module) -> Completion | None:
    """Completed by XLA's `sharding-propagation`, None for what GSPMD has no annotation for."""
    if any(word in str(module) for word in _SDY_ONLY):
        return None
    given = copy_of(module)
    mesh = AnnotatedModule(model_of(given)).mesh
    free = free_values(given)
    use_gspmd_annotations(given, mesh)
    with tempfile.TemporaryDirectory() as directory:
        xla.partition(given, mesh.size, free, dump_to=directory, dump_pass="sharding-propagation")
        (path,) = Path(directory).glob("*after_sharding-propagation*.txt")
        return _read_hlo(path.read_text(), module, mesh)


_INSTRUCTION = re.compile(r"^ *(?P<root>ROOT )?%(?P<name>[\w.\-]+) = .*? (?P<kind>[\w\-]+)\((?P<operands>[^()]*)\)")
_SHARDING = re.compile(r"sharding=(\{.*?\})(?:, [a-z_]+=|$)")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%(?P<name>[\w.\-]+) \(")
_BODY = re.compile(r"body=%([\w.\-]+)")


@dataclasses.dataclass(frozen=True, slots=True)
class _Instruction:
    """One line of HLO text: `mark` is the number of the operation it came from, `leaves` one sharding a result."""

    kind: str
    operands: tuple[str, ...]
    mark: int | None
    leaves: tuple[HloSharding, ...]
    body: str | None


class _Hlo:
    """A module's instructions by name, and the root of every computation."""

    def __init__(self, text: str) -> None:
        self.instructions: dict[str, _Instruction] = {}
        self.roots: dict[str, _Instruction] = {}
        self.parameters: dict[int, _Instruction] = {}
        computation = self.entry = ""
        for line in text.splitlines():
            if head := _COMPUTATION.match(line):
                computation = head["name"]
                self.entry = computation if head["entry"] else self.entry
            elif match := _INSTRUCTION.match(line):
                made = self.instructions[match["name"]] = _instruction(line, match)
                if match["root"]:
                    self.roots[computation] = made
                if computation == self.entry and made.kind == "parameter":
                    self.parameters[int(match["operands"])] = made


def _instruction(line: str, match: re.Match[str]) -> _Instruction:
    mark, written, body = _LOCATION.search(line), _SHARDING.search(line), _BODY.search(line)
    leaves: tuple[HloSharding, ...] = ()
    if written:
        sharding = parse_hlo_sharding(written[1])
        leaves = sharding.body.leaves if isinstance(sharding.body, TupleOf) else (sharding,)
    operands = tuple(re.findall(r"%([\w.\-]+)", match["operands"]))
    return _Instruction(match["kind"], operands, int(mark[1]) if mark else None, leaves, body[1] if body else None)


def _read_hlo(text: str, module: ir.Module, mesh: Mesh) -> Completion:
    """The shardings of an HLO module that was made from the marked one."""
    hlo, found = _Hlo(text), Completion()
    for index, parameter in hlo.parameters.items():
        found.update(_shardings(ARGUMENT, ((index, leaf) for leaf in parameter.leaves), mesh))
    found.update(_shardings(RESULT, enumerate(hlo.roots[hlo.entry].leaves), mesh))
    for made in hlo.instructions.values():
        if made.mark is not None and made.kind not in ("get-tuple-element", "tuple", "parameter", "while"):
            found.update(_shardings(made.mark, enumerate(made.leaves), mesh))
    whiles = {made.mark: made for made in hlo.instructions.values() if made.kind == "while"}
    for index, op in enumerate(operations(model_of(module))):
        if op.name == "stablehlo.while" and index in whiles:
            found.update(_shardings(index, _carried(op, whiles[index], hlo, found), mesh))
    return found


def _carried(op: Operation, made: _Instruction, hlo: _Hlo, found: Completion) -> Iterator[tuple[int, HloSharding]]:
    """The shardings of a loop's results in the program that XLA has optimised.

    XLA reorders the carry and leaves out what stays as it is: a result is known by what the body returns for it, or has
    the sharding of what it starts with.
    """
    root = hlo.roots[made.body or ""]
    leaves = {hlo.instructions[operand].mark: leaf for operand, leaf in zip(root.operands, made.leaves, strict=True)}
    for index, returned in enumerate(op.regions[1].terminator.operands):
        mark = _mark_of(returned)
        if mark is not None and mark in leaves:
            yield index, leaves[mark]
        elif (name := _name_of(op.operands[index])) in found:
            yield index, to_hlo_sharding(found[name])


def _name_of(value: Value) -> Name | None:
    """None for the arguments of loops."""
    if value.op is not None:
        return Name(_mark_of(value) or 0, value.index)
    around = value.block.owner
    return Name(ARGUMENT, value.index) if around is not None and around.name == FUNCTION else None


def _mark_of(value: Value) -> int | None:
    """The number of the operation that makes the value, None for arguments."""
    return None if value.op is None else number_of(value.op)


def _shardings(
    op: int | str, leaves: Iterable[tuple[int, HloSharding]], mesh: Mesh
) -> Iterator[tuple[Name, TensorSharding]]:
    for index, leaf in leaves:
        rank = getattr(leaf.body, "rank", 0)
        try:
            sharding = to_tensor_sharding(leaf, rank, mesh).closed()
        except Error:  # a device order that is none of the mesh's: what XLA found by splitting devices anew
            continue
        if not sharding.is_replicated():
            yield Name(op, index), sharding

"""Find the operation that a compiler refuses, from its message or by compiling parts of the program.

MLIR's diagnostics start with a location. XLA prints instructions with the location in their metadata; libtpu prints
"Suspected Python Code Location". Without any of these, as for a custom call that the platform lacks, operations are
removed from the start of the program until the error disappears: the last one removed was refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, SourceLocation, UsageError
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import CONTROL_FLOW, ENDS
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import source_location

REFUSED = (JaxRuntimeError, ValueError, ir.MLIRError)
"""The exceptions of jaxlib for a refused program."""
Compile = Callable[[ir.Module], Any]

_PATIENCE_S = 30.0
_AROUND = CONTROL_FLOW | {"builtin.module", "func.func", "sdy.manual_computation"}
_ALWAYS = ENDS | {"sdy.mesh"}
_NO_OPERATION = re.compile("RESOURCE_EXHAUSTED|UNAVAILABLE|DEADLINE_EXCEEDED|CANCELLED|ABORTED")
_NO_OPTION = re.compile(r"(No such compile option: .*|Failed to parse .* into flag .*|While setting option .*)")
_STATUS = re.compile(r"^(?:[A-Z]+(?:_[A-Z]+)*: )+")
_DIAGNOSTIC = re.compile(
    r"^(?P<file>\S.*?):(?P<line>\d+):(?P<column>\d+): error: (?:'(?P<op>[\w.]+)' op )?(?P<said>.*)"
)
_INSTRUCTION = re.compile(r"%\S+ = (?:\([^=]*?\)|\S+) (?P<op>[a-z][\w-]*)\(")
_METADATA = re.compile(r'source_file="(?P<file>[^"]+)" source_line=(?P<line>\d+)(?:.*?source_column=(?P<column>\d+))?')
_TRACEBACK = "Traceback (most recent call last):"
_SUSPECTED = re.compile(r"Suspected Python Code Location:\s*(?P<file>\S+?):(?P<line>\d+):(?P<column>\d+)")


def refused_option(error: Exception) -> UsageError | None:
    """The error for wrong compiler options, if the message is about these."""
    found = _NO_OPTION.search(" ".join(str(error).split()))
    return None if found is None else UsageError(f"the compiler does not take its options: {found[1]}")


def refusal(error: Exception, module: ir.Module, compile_: Compile, compiler: str = "PJRT") -> Error:
    """The error for an exception of `compile_` on a module, with the operation and its location if found.

    The module is the compiled one, unchanged.
    """
    if (wrong := refused_option(error)) is not None:
        return wrong
    text, first = _text(error), _said(error)
    if found := _DIAGNOSTIC.match(first):
        return _error(compiler, found["op"], found["said"], _place(found))
    if found := _SUSPECTED.search(text):
        return _error(compiler, None, first, _place(found))
    instruction = _INSTRUCTION.search(text)
    if instruction and (found := _METADATA.search(text, instruction.end())):
        said = first[: instruction.end("op")]  # without operands, layouts and other details
        return _error(compiler, instruction["op"], said, _place(found))
    narrowed = (
        not _NO_OPERATION.match(str(error)) and jax.process_count() == 1
    )  # other processes would wait for this one
    last = _last_refused(module, compile_, first) if narrowed else None
    if last is None:
        return _error(compiler, None, first, None)
    return _error(compiler, last.name, first, source_location(last.location))


def _error(compiler: str, op: str | None, said: str, location: SourceLocation | None) -> ExecutionError:
    what = f"'{op}'" if op else "the module"
    return ExecutionError(
        f"{compiler} does not take {what}: {' '.join(said.split())[:500]}", location=location, code=Code.COMPILER
    )


def _place(found: re.Match[str]) -> SourceLocation:
    return SourceLocation(found["file"], int(found["line"]), int(found["column"] or 0))


def _last_refused(module: ir.Module, compile_: Compile, said: str) -> Any:
    """The operation, at any depth, that causes the error; None if the search takes too long or finds none."""
    until = time.monotonic() + _PATIENCE_S
    with module.context, ir.Location.unknown():
        source, top = module.operation.get_asm(enable_debug_info=True), model_of(module)
        refused, taken = 0, len(_candidates(top))
        if _is_refused(source, taken, compile_, said):
            return None
        while taken - refused > 1:
            middle = (refused + taken) // 2
            if time.monotonic() > until:
                return None
            if _is_refused(source, middle, compile_, said):
                refused = middle
            else:
                taken = middle
        return _candidates(top)[refused] if taken else None


def _is_refused(source: str, count: int, compile_: Compile, said: str) -> bool:
    """Whether a module without the first `count` candidates causes the same error."""
    try:
        compile_(_without(source, count))
    except REFUSED as error:
        return _words(_said(error)) == _words(said)
    return False


def _said(error: Exception) -> str:
    """The first line of a message, with the exception of a traceback in it."""
    first, *others = _text(error).splitlines()
    if _TRACEBACK in first:
        raised = next((line for line in others if line and not line[0].isspace()), "an exception in Python")
        first = first.replace(_TRACEBACK, raised)
    return first.strip()


def _text(error: Exception) -> str:
    return _STATUS.sub("", str(error).strip()) or type(error).__name__


def _words(text: str) -> str:
    """The message without XLA's instruction numbers."""
    return re.sub(r"\d+", "", text)


def _candidates(module: Operation) -> list[Operation]:
    """The removable operations: those that define tensors, also inside loops and branches, but not these themselves."""
    found: list[Operation] = []

    def visit(op: Operation) -> None:
        for region in op.regions:
            for inner in region:
                if inner.name in _AROUND:
                    visit(inner)
                elif inner.name not in _ALWAYS and all(value.type.is_tensor for value in inner.results):
                    found.append(inner)

    visit(module)
    return found


def _without(source: str, count: int) -> ir.Module:
    """The module with opaque ones in place of the results of its first `count` candidates."""
    module = ir.Module.parse(source)
    build = Builder(module.context)
    with in_memory(module) as top:
        for op in _candidates(top)[:count]:
            build.point, build.location = Point.at(op), op.location
            for value in op.results:
                value.replace_all_uses_with(build.kept_apart(build.constant(value.type, 1)))
            op.erase()
    return module

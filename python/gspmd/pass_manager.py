"""Pipelines of passes, ours and MLIR's, on MLIR's own pass manager."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager as MlirPassManager

from gspmd.dialect.errors import Error, InternalError, Unsupported, UsageError
from gspmd.native_passes import check_native
from gspmd.pipeline_text import Element, parse_option_texts, parse_pipeline
from gspmd.transforms.pipeline import PASSES, PIPELINE, default_pipeline, pipeline_options
from gspmd.transforms.support import diagnostics
from gspmd.transforms.support.diagnostics import Diagnostic, Severity, Sink
from gspmd.transforms.support.passes import Pass, make_pass, parse_options

_OURS = {declaration.argument: declaration for declaration in PASSES}


@dataclasses.dataclass(frozen=True, slots=True)
class IrPrinting:
    """What to print to stderr while a pipeline runs: everything, or around the passes with the names given."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure: bool = False
    module_scope: bool = False
    debug_info: bool = False
    generic: bool = False
    max_elements: int | None = None  # constants with more are elided

    @property
    def by_mlir(self) -> bool:
        return self.before_all or self.after_all or self.after_change or self.after_failure


class PassManager:
    """Passes in the order in which they run on a module.

    A pass is an instance of a class of ours, or the name of one of ours or MLIR's; `str()` of a manager is text that
    `parse` reads back.
    """

    def __init__(
        self,
        passes: Iterable[Pass | str] = (),
        *,
        verify_each: bool = True,
        timing: bool = False,
        printing: IrPrinting | None = None,
    ) -> None:
        self.verify_each = verify_each
        self.timing = timing
        self.printing = printing or IrPrinting()
        self._elements: list[Pass | Element] = []
        for element in passes:
            self.add(element)

    @classmethod
    def parse(cls, text: str) -> PassManager:
        """The manager for a pipeline such as `builtin.module(gspmd-propagate{max-rounds=8},cse)`. Raises UsageError."""
        return cls([text])

    def add(self, element: Pass | str) -> PassManager:
        """Append a pass, or whatever a pipeline text names. Raises UsageError for what nobody knows."""
        if isinstance(element, Pass):
            self._elements.append(element)
        else:
            for parsed in parse_pipeline(element):
                self._elements += _resolve(parsed)
        return self

    def __str__(self) -> str:
        return f"builtin.module({','.join(map(str, self._elements))})"

    def names(self) -> tuple[str, ...]:
        """The names of all passes, in order."""
        found: list[str] = []
        for element in self._elements:
            found += [element.argument] if isinstance(element, Pass) else [p.name for p in element.passes()]
        return tuple(found)

    def run(self, module: ir.Module, on_diagnostic: Sink | None = None) -> None:
        """Run all passes on `module`, in place. Raises the first error, located.

        `on_diagnostic` gets every diagnostic in order, errors included; without it remarks and warnings go to stderr.
        A module whose run failed is in an undefined state.
        """
        run = _Run(module, on_diagnostic)
        manager = self._build(module, run)
        try:
            with diagnostics.listening(run.hear, module.context):
                manager.run(module.operation)
        except Error as error:
            if on_diagnostic:
                on_diagnostic(diagnostics.of_error(error))
            raise
        except ir.MLIRError as error:
            raise run.failure(error) from None

    def _build(self, module: ir.Module, run: _Run) -> MlirPassManager:
        manager = MlirPassManager("builtin.module", module.context)
        manager.enable_verifier(self.verify_each)
        self._check_printed_names()
        for element in self._elements:
            if isinstance(element, Pass):
                self._add_printed(manager, module, element.argument, run.pass_callable(element), element)
            elif self._prints_around(p.name for p in element.passes()):
                for part in _split(element):
                    name = next(part.passes()).name
                    self._add_printed(manager, module, name, None, part)
            else:
                manager.add(str(element))
        printing = self.printing
        if printing.by_mlir:
            manager.enable_ir_printing(
                print_before_all=printing.before_all,
                print_after_all=printing.after_all,
                print_after_change=printing.after_change,
                print_after_failure=printing.after_failure,
                print_module_scope=printing.module_scope,
                enable_debug_info=printing.debug_info,
                print_generic_op_form=printing.generic,
                large_elements_limit=printing.max_elements,
            )
        if self.timing:
            manager.enable_timing()
        return manager

    def _add_printed(
        self,
        manager: MlirPassManager,
        module: ir.Module,
        name: str,
        run: Callable[..., None] | None,
        element: Pass | Element,
    ) -> None:
        """Add one pass, with printing before or after it if that was asked for."""
        if name in self.printing.before:
            manager.add(self._printer(module, f"Before {name}"), name="PrintIr", argument="print-ir")
        if run is None:
            manager.add(str(element))
        else:
            summary = element.summary if isinstance(element, Pass) else ""
            manager.add(run, name=type(element).__name__, argument=str(element), description=summary)
        if name in self.printing.after:
            manager.add(self._printer(module, f"After {name}"), name="PrintIr", argument="print-ir")

    def _printer(self, module: ir.Module, moment: str) -> Callable[..., None]:
        def print_ir(operation: Any, handle: Any) -> None:
            text = module.operation.get_asm(
                enable_debug_info=self.printing.debug_info,
                print_generic_op_form=self.printing.generic,
                large_elements_limit=self.printing.max_elements,
            )
            print(f"// -----// IR Dump {moment} //----- //\n{text}\n", file=sys.stderr, flush=True)

        return print_ir

    def _prints_around(self, names: Iterable[str]) -> bool:
        return not {*self.printing.before, *self.printing.after}.isdisjoint(names)

    def _check_printed_names(self) -> None:
        for name in (*self.printing.before, *self.printing.after):
            if name not in self.names():
                raise UsageError(f"cannot print around pass '{name}', which is not in '{self}'", hint="add the pass")


class _Run:
    """One run of a pipeline: what was said, and which pass of ours was at work last."""

    def __init__(self, module: ir.Module, on_diagnostic: Sink | None) -> None:
        self._module = module
        self._on_diagnostic = on_diagnostic
        self._errors: list[Diagnostic] = []
        self._finished: str | None = None  # the last pass of ours that came to its end

    def hear(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity is Severity.ERROR:
            self._errors.append(diagnostic)
        if self._on_diagnostic:
            self._on_diagnostic(diagnostic)
        elif diagnostic.severity is not Severity.ERROR:
            print(diagnostic, file=sys.stderr)

    def pass_callable(self, transformation: Pass) -> Callable[..., None]:
        def run(operation: Any, handle: Any) -> None:
            self._finished = None
            said = len(self._errors)
            transformation.run(self._module)
            if len(self._errors) > said:
                handle.signal_pass_failure()
            else:
                self._finished = transformation.argument

        return run

    def failure(self, error: ir.MLIRError) -> Error:
        """A failed run as one error: a pass refused the program, or left a module that does not verify."""
        kind = InternalError if self._finished and not self._verifies() else Unsupported
        first = self._errors[0].as_error(kind) if self._errors else kind(" ".join(str(error).split()))
        if kind is InternalError:
            first.hint = f"the module is invalid after '{self._finished}'; please report this"
        return first

    def _verifies(self) -> bool:
        try:
            return bool(self._module.operation.verify())
        except ir.MLIRError:
            return False


def _resolve(element: Element) -> list[Pass | Element]:
    """An element of a pipeline text as passes of ours or as checked text for MLIR. Raises UsageError."""
    if element.children is None and element.name in _OURS:
        return [make_pass(_OURS[element.name], parse_option_texts(element.options))]
    if element.children is None and element.name == PIPELINE:
        options = parse_options(PIPELINE, pipeline_options(), parse_option_texts(element.options))
        return [*default_pipeline(options)]
    for inner in element.passes():
        if inner.name in _OURS or inner.name == PIPELINE:
            raise UsageError(
                f"pass '{inner.name}' runs on a module, not in '{element.name}'",
                hint=f"move it out of '{element.name}(...)'",
            )
    return [check_native(element, (*_OURS, PIPELINE))]


def _split(element: Element) -> list[Element]:
    """A nest of passes as one nest for each pass, so that something can happen in between."""
    if element.children is None:
        return [element]
    return [dataclasses.replace(element, children=(part,)) for child in element.children for part in _split(child)]

"""Pipelines of passes, ours and MLIR's, on MLIR's own pass manager."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager as MlirPassManager

from gspmd import reproducer
from gspmd.dialect import progress
from gspmd.dialect.diagnostic import Diagnostic, Severity, Sink, listener, of_error
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ErrorKind, InternalError, Unsupported, UsageError
from gspmd.dialect.renaming import by_old_name, warn_in_text
from gspmd.pass_manager.collection import collection_paused
from gspmd.pass_manager.ir_printing import IrPrinting
from gspmd.pass_manager.native_passes import check_native
from gspmd.pass_manager.pipeline_text import Element, parse_option_texts, parse_pipeline
from gspmd.pass_manager.shardy import OF_SHARDY, check_for_shardy
from gspmd.transforms import reroll
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory, write_module
from gspmd.transforms.parsing import diagnostics
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.passes import Pass, make_pass, parse_options
from gspmd.transforms.pipeline import PASSES, PIPELINE, default_pipeline, pipeline_options

_OURS = {declaration.argument: declaration for declaration in PASSES}
_OLD = by_old_name({declaration.argument: declaration.renamed for declaration in PASSES})


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
        """Append a pass, or whatever a pipeline text names. Raises UsageError for a name that does not exist."""
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

        `on_diagnostic` gets every diagnostic in order, errors included; without it remarks and warnings go to
        who listens outside, by default to stderr. A module whose run failed is in an undefined state.
        """
        run = _Run(module, on_diagnostic, self.verify_each)
        manager = self._build(module, run)
        with run.going_on():
            manager.run(module.operation)
            run.fail_if_told()

    def _build(self, module: ir.Module, run: _Run) -> MlirPassManager:
        manager = MlirPassManager("builtin.module", module.context)
        manager.enable_verifier(self.verify_each)
        self.printing.check(self.names())
        for number, element in enumerate(self._elements, 1):
            if isinstance(element, Pass):
                with self.printing.around(element.argument, manager, module):
                    name = type(element).__name__
                    transformation = run.pass_callable(element, number, len(self._elements))
                    text = str(element).encode(errors="backslashreplace").decode()
                    manager.add(transformation, name, text, element.summary)
            else:
                if any(inner.name.startswith(OF_SHARDY) for inner in element.passes()):
                    manager.add(run.check_callable(element), "CheckForShardy")
                for part in self.printing.split(element):
                    with self.printing.around(next(part.passes()).name, manager, module):
                        manager.add(str(part))
        self.printing.enable(manager)
        if self.timing:
            manager.enable_timing()
        return manager


After: TypeAlias = Callable[[str, Operation], None]


def _say_nothing(stage: str, top: Operation) -> None:
    pass


def run_passes(passes: Sequence[Pass], module: ir.Module, after: After = _say_nothing) -> None:
    """Run passes of gspmd on `module` in place. It is read once before them, and written and verified once after them.

    `after` is called after each pass, with its name and the module in memory. Raises the first error, located; the
    module is then in an undefined state.
    """
    run = _Run(module, None, check_needs=False)
    with run.going_on():
        with in_memory(module) as top:
            run.apply_all(passes, top, after)
        module.operation.verify()


def run_in_memory(passes: Sequence[Pass], top: Operation, module: ir.Module, after: After = _say_nothing) -> None:
    """The same on `top`, which was read from `module`: what becomes of it is not written, and the module stays."""
    run = _Run(module, None, check_needs=False)
    with run.going_on(), module.context, ir.Location.unknown():
        run.apply_all(passes, top, after)


def run_pipeline(passes: Sequence[Pass], module: ir.Module, after: After = _say_nothing) -> None:
    """The same for a pipeline that begins with `gspmd-ingest`: its other passes see layers that repeat once.

    Where what they made of one layer cannot be said again for the others, and where they refuse or remark on something,
    they run on the whole program; so does the first one that counts layers, with all behind it. `after` is also called
    behind "fold" and "unfold".
    """
    run = _Run(module, None, check_needs=False)
    whole = next((number for number, pass_ in enumerate(passes) if pass_.counts_layers), len(passes))
    with run.going_on():
        if whole < 2 or not _run_folded(run, passes, whole, module, after):
            with in_memory(module) as top:
                run.apply_all(passes, top, after, stop=1)
                reroll.mark_layers(main_function(top))
                run.apply_all(passes, top, after, start=1)
        module.operation.verify()


def _run_folded(run: _Run, passes: Sequence[Pass], whole: int, module: ir.Module, after: After) -> bool:
    """Run the passes such that those before number `whole` see layers once; returns whether that worked.

    Else the module is as it was.
    """
    kept: tuple[int, ...] = reroll.KEPT
    while kept:
        folded: reroll.Fold | None = None
        with run.holding_back() as held:
            try:
                with in_memory(module) as top:
                    run.apply_all(passes, top, after, stop=1)
                    folded = reroll.fold(main_function(top), kept)
                    said = len(held)
                    after("fold", top)
                    run.apply_all(passes, top, after, start=1, stop=whole)
                    if folded is not None:
                        if len(held) > said:
                            raise _RemarkInFoldedLayers
                        reroll.unfold(main_function(top), folded)
                        after("unfold", top)
                    run.apply_all(passes, top, after, start=whole)
                return True
            except reroll.LayersDiffer:
                held.clear()
                kept = tuple(number for number in kept if folded is not None and number > folded.kept)
            except (Error, _RemarkInFoldedLayers):
                if folded is None:
                    raise
                held.clear()
                return False
    return False


class _RemarkInFoldedLayers(Exception):
    """Passes remarked on something in layers that repeat, and have to in each of them."""


class _Run:
    """One run of a pipeline: its diagnostics, and the last of our passes that started."""

    def __init__(self, module: ir.Module, on_diagnostic: Sink | None, check_needs: bool) -> None:
        self._module = module
        self._check_needs = check_needs
        self._on_diagnostic = on_diagnostic
        self._outside = listener()
        self._errors: list[Diagnostic] = []
        self._held: list[Diagnostic] | None = None  # what is not told yet
        self._finished: str | None = None  # the last pass of ours that came to its end

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Inside, passes run; what they say is heard, and what they raise becomes the first error, located."""
        try:
            with diagnostics.listening(self.hear, self._module.context), collection_paused():
                yield
        except Error as error:
            reproducer.blame(error)
            if self._on_diagnostic:
                for told in (error, *error.others):
                    self._on_diagnostic(of_error(told))
            raise
        except ir.MLIRError as error:
            failure = self.failure(error)
            reproducer.blame(failure)
            raise failure from None
        except Exception as error:
            reproducer.blame(error)
            raise

    @contextlib.contextmanager
    def holding_back(self) -> Iterator[list[Diagnostic]]:
        """Collect the diagnostics of passes in a list; those that are in it at the end are emitted then."""
        held = self._held = list[Diagnostic]()
        try:
            yield held
        finally:
            self._held = None
            for diagnostic in held:
                self.hear(diagnostic)

    def hear(self, diagnostic: Diagnostic) -> None:
        if self._held is not None:
            self._held.append(diagnostic)
            return
        if diagnostic.severity is Severity.ERROR:
            self._errors.append(diagnostic)
        if self._on_diagnostic:
            self._on_diagnostic(diagnostic)
        elif diagnostic.severity is not Severity.ERROR:
            self._outside(diagnostic)

    def pass_callable(self, transformation: Pass, number: int, total: int) -> Callable[..., None]:
        """The pass as MLIR calls it, one of so many."""

        def run(operation: ir.Operation, handle: Any) -> None:
            if total > 1:  # else who runs it tells
                progress.tell(transformation.argument, number, total)
            said = len(self._errors)
            with self._module.context, ir.Location.unknown():
                with self._blaming(transformation):
                    top = model_of(self._module)
                self.apply(transformation, top)
                write_module(top, self._module)
            if len(self._errors) > said:
                self._finished = None
                handle.signal_pass_failure()

        return run

    def check_callable(self, element: Element) -> Callable[..., None]:
        """A pass that MLIR calls before those of Shardy, to refuse modules on which they would end the process."""

        def run(operation: ir.Operation, handle: Any) -> None:
            with self._module.context, ir.Location.unknown():
                check_for_shardy(self._module, str(element))

        return run

    def apply_all(
        self,
        passes: Sequence[Pass],
        top: Operation,
        after: After,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        """Run passes, or those from `start` to `stop`, on the module in memory."""
        for number, pass_ in enumerate(passes[start:stop], start + 1):
            progress.tell(pass_.argument, number, len(passes))
            self.apply(pass_, top)
            after(pass_.argument, top)

    def apply(self, transformation: Pass, top: Operation) -> None:
        """Run a pass on the module in memory."""
        self._finished = None
        with self._blaming(transformation), reproducer.in_pass(str(transformation), top):
            if self._check_needs:
                for need in transformation.needs:
                    need(top)
            transformation.run(top)
        self._finished = str(transformation)

    @contextlib.contextmanager
    def _blaming(self, transformation: Pass) -> Iterator[None]:
        """What is raised inside is the fault of a pass, or of the program that it got."""
        said = len(self._errors)
        try:
            yield
        except Error as error:
            raise self._at_least_in_the_module(error) from None
        except RecursionError:
            raise self._at_least_in_the_module(_too_deep(transformation)) from None
        except ir.MLIRError as error:
            raise self._defect(f"pass '{transformation}' built something invalid", error, said) from error
        except Exception as error:
            error.add_note(f"in pass '{transformation}'")
            raise

    def _at_least_in_the_module(self, error: Error) -> Error:
        """An error of the program that no operation is to blame for gets the module's place, if the text gives one."""
        place = source_location(self._module.operation.location)
        if error.kind in (ErrorKind.ANNOTATION, ErrorKind.PARSE, ErrorKind.UNSUPPORTED) and place and place.line:
            error.at(place)
        return error

    def fail_if_told(self) -> None:
        """Raise the first error that a pass of MLIR's reported without failing, as canonicalization may."""
        if self._errors:
            raise diagnostics.as_error(self._errors[0], Unsupported)

    def failure(self, error: ir.MLIRError) -> Error:
        """A failed run as one error: a pass refused the program, or left a module that does not verify."""
        if self._finished and not self._verifies():
            return self._defect(f"the module is invalid after pass '{self._finished}'", error, 0)
        if self._errors:
            return diagnostics.as_error(self._errors[0], Unsupported)
        return Unsupported(f"{' '.join(str(error).split()):.400}")

    def _defect(self, problem: str, error: ir.MLIRError, said: int) -> InternalError:
        """A mistake of a pass of ours, shown by the diagnostics after the first `said`, or by the exception."""
        first = next(iter(self._errors[said:]), None)
        reason = first.message if first else f"{' '.join(str(error).split()):.400}"
        location = first.location if first else None
        return InternalError(f"{problem}: {reason}", location=location, hint="please report this")

    def _verifies(self) -> bool:
        try:
            return bool(self._module.operation.verify())
        except ir.MLIRError:
            return False


def _too_deep(transformation: Pass) -> Unsupported:
    return Unsupported(
        f"regions nest too deeply for '{transformation}'", hint="nest less deeply, or call from less deep"
    )


def _resolve(element: Element) -> list[Pass | Element]:
    """An element of a pipeline text as passes of ours or as checked text for MLIR. Raises UsageError."""
    if element.name in _OLD:
        new, renamed = _OLD[element.name]
        warn_in_text(renamed, "pass", new)
        element = dataclasses.replace(element, name=new)
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
                code=Code.UNKNOWN_PASS,
            )
    return [check_native(element, (*_OURS, PIPELINE))]

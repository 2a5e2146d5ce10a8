"""Printing the module to stderr while a pipeline runs."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager as MlirPassManager

from gspmd.dialect.errors import UsageError
from gspmd.pass_manager.pipeline_text import Element


@dataclasses.dataclass(frozen=True, slots=True)
class IrPrinting:
    """What to print: the module around the passes named in `before` and `after`, or what MLIR prints by itself."""

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

    def check(self, passes: Iterable[str]) -> None:
        """Raises UsageError if a pass to print around is not among `passes`."""
        names = tuple(passes)
        for name in (*self.before, *self.after):
            if name not in names:
                raise UsageError(
                    f"cannot print around pass '{name}', which does not run", hint=f"name one of: {', '.join(names)}"
                )

    def enable(self, manager: MlirPassManager) -> None:
        """Switch on what MLIR prints by itself."""
        if self.before_all or self.after_all or self.after_change or self.after_failure:
            manager.enable_ir_printing(
                print_before_all=self.before_all,
                print_after_all=self.after_all,
                print_after_change=self.after_change,
                print_after_failure=self.after_failure,
                print_module_scope=self.module_scope,
                enable_debug_info=self.debug_info,
                print_generic_op_form=self.generic,
                large_elements_limit=self.max_elements,
            )

    @contextlib.contextmanager
    def around(self, name: str, manager: MlirPassManager, module: ir.Module) -> Iterator[None]:
        """Inside, the pass `name` is added; a pass that prints is added before or after it, if wanted."""
        if name in self.before:
            manager.add(self._printer(module, f"Before {name}"), "PrintIr", "print-ir")
        yield
        if name in self.after:
            manager.add(self._printer(module, f"After {name}"), "PrintIr", "print-ir")

    def split(self, element: Element) -> list[Element]:
        """A nest of passes as one nest for each, if something is to be printed in between."""
        if {*self.before, *self.after}.isdisjoint(p.name for p in element.passes()):
            return [element]
        return _one_pass_each(element)

    def _printer(self, module: ir.Module, moment: str) -> Callable[..., None]:
        def print_ir(operation: ir.Operation, handle: Any) -> None:
            text = module.operation.get_asm(
                enable_debug_info=self.debug_info,
                print_generic_op_form=self.generic,
                large_elements_limit=self.max_elements,
            )
            print(f"// -----// IR Dump {moment} //----- //\n{text}\n", file=sys.stderr, flush=True)

        return print_ir


def _one_pass_each(element: Element) -> list[Element]:
    if element.children is None:
        return [element]
    parts = [part for child in element.children for part in _one_pass_each(child)]
    return [dataclasses.replace(element, children=(part,)) for part in parts]

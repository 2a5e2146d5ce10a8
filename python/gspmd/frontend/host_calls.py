"""Functions of Python that a program calls: one that raises an error must not leave other devices waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.errors import ExecutionError
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.transforms.ir.callbacks import is_callback

Function = Callable[..., Any]
Result = tuple[tuple[int, ...], np.dtype[Any]] | None  # shape and dtype; None for a token


class HostCalls:
    """The functions that JAX hands to PJRT for a lowered module, made such that they return whatever happens.

    Where one raises an error, the program goes on with zeros, and `check` raises after the run: on one device of many
    an error would end the process, as soon as others have waited too long for what the device sends them. Without
    `guard` the functions are what they are.
    """

    def __init__(self, module: ir.Module, functions: Sequence[Any], guard: bool) -> None:
        results = _results_by_index(module) if guard and functions else {}
        self._errors: list[BaseException] = []
        self.functions = [
            self._guarded(function, results[index]) if callable(function) and index in results else function
            for index, function in enumerate(functions)
        ]

    def __bool__(self) -> bool:
        return bool(self.functions)

    def _guarded(self, function: Function, results: Sequence[Result]) -> Function:
        def guarded(*args: Any) -> Any:
            try:
                return function(*args)
            except BaseException as error:  # noqa: BLE001 - it is raised after the run
                self._errors.append(error)
                tokens = iter(args)  # which come first, and go out as they are
                return tuple(next(tokens) if result is None else np.zeros(*result) for result in results)

        return guarded

    def check(self) -> None:
        """Raise ExecutionError if a function raised an error since the last time."""
        errors, self._errors[:] = [*self._errors], []
        if errors:
            first = errors[0]
            raise ExecutionError(f"a function that the program calls raised {type(first).__name__}: {first}") from first


def _results_by_index(module: ir.Module) -> dict[int, list[Result]]:
    """What each function returns, by its number."""
    found: dict[int, list[Result]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if is_callback(op):
            config = op.attributes.get("mhlo.backend_config")
            if isinstance(config, ir.DictAttr) and "index" in config:
                found[ir.IntegerAttr(config["index"]).value] = [_result(result.type) for result in op.results]
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _result(type_: ir.Type) -> Result:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    return tuple(type_.shape), numpy_dtype(str(type_.element_type))

"""Python functions that a program calls; one that raises an error must not leave other devices waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.frontend import jax_stages
from gspmd.runtime import in_flight, processes
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.runtime.familiar_errors import ProgramFailed
from gspmd.transforms.ir.callbacks import is_callback

Function = Callable[..., Any]
Result = tuple[tuple[int, ...], np.dtype[Any]] | None  # shape and dtype; None for a token


class HostCalls:
    """The functions that JAX hands to PJRT for a lowered module, wrapped so that they always return.

    If one raises an error, the program goes on with zeros, and `check` raises after the run: an error on one of several
    devices would end the process once the others have waited too long for its data. Processes exchange errors after a
    run, as all of them go on with zeros.
    """

    def __init__(self, module: ir.Module, functions: Sequence[Any], devices: Sequence[Any]) -> None:
        results = _results_by_index(module) if functions else {}
        self._devices = devices
        self._call = _called_on_devices if len(devices) > 1 and devices[0].platform == "cpu" else _called
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
                return self._call(function, args)
            except BaseException as error:  # noqa: BLE001 - it is raised after the run
                self._errors.append(error)
                tokens = iter(args)  # tokens come first, and are returned unchanged
                return tuple(next(tokens) if result is None else np.zeros(*result) for result in results)

        return guarded

    def check(self) -> None:
        """Raise ProgramFailed if a function raised an error since the last time, in this process or another one."""
        errors, self._errors[:] = [*self._errors], []
        message = f"a function that the program calls raised {_error_text(errors[0])}" if errors else ""
        others = processes.exchange(message, self._devices)
        if errors:
            raise ProgramFailed(message) from errors[0]
        for process, other in sorted(others.items()):
            if other:
                raise ProgramFailed(f"in process {process}, {other}")


def _called(function: Function, args: Sequence[Any]) -> Any:
    return function(*args)


def _called_on_devices(function: Function, args: Sequence[Any]) -> Any:
    return in_flight.called_by_program(jax_stages.called_with, (function, args))


def _error_text(error: BaseException) -> str:
    """The class and message of an error, in characters that any message may have; its `__str__` may fail."""
    name = type(error).__name__
    try:
        return f"{name}: {str(error).encode(errors='backslashreplace').decode()}"
    except Exception:  # noqa: BLE001 - the user's `__str__` may raise anything
        return name


def _results_by_index(module: ir.Module) -> dict[int, list[Result]]:
    """The results of each function, by its number."""
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

"""Whether passes of Shardy's own can run on a module: where they cannot, they end the process.

They take it that earlier passes of theirs ran, and that custom calls which they know by name have the operands and the
dimensions that they expect. They do not look: they read memory that is not theirs, which ends the process, at once or
when the context goes. So the calls are checked here, and the passes are tried in another process.

Source of the calls: `op_sharding_rule_registry.cc` of openxla/shardy.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located
from gspmd.transforms.parsing.trial import ending_of_passes

_Ranks: TypeAlias = list[int]


def _is_pointwise(operands: _Ranks, results: _Ranks) -> bool:
    return bool(results) and results[0] >= 0 and set(operands + results) == {results[0]}


def _is_decomposition(operands: _Ranks, results: _Ranks) -> bool:
    rank = operands[0] if operands else 0
    return len(operands) == 1 and rank >= 2 and results in ([rank, rank - 1], [rank, rank])


def _is_householder(operands: _Ranks, results: _Ranks) -> bool:
    rank = operands[0] if operands else 0
    return rank >= 2 and operands == [rank, rank - 1] and results == [rank]


def _is_top_k(operands: _Ranks, results: _Ranks) -> bool:
    return len(operands) == 1 and results == operands * 2


def _is_approximate_top_k(operands: _Ranks, results: _Ranks) -> bool:
    return len(operands) == 4 and operands[:2] == results == operands[:1] * 2


_FORMS: dict[str, tuple[Callable[[_Ranks, _Ranks], bool], str]] = {
    **dict.fromkeys(
        (
            *("annotate_device_placement", "Cholesky", "CompactWyHelper", "InvertDiagBlocksLowerTriangular"),
            *("InvertDiagBlocksUpperTriangular", "LayoutConstraint", "MoveToDevice", "MoveToHost", "mhlo.erf"),
            *("X64Combine", "X64SplitHigh", "X64SplitLow", "InspectSharding"),
        ),
        (_is_pointwise, "operands and results of one rank"),
    ),
    **dict.fromkeys(
        ("Eigh", "Qr", "QrDecompositionBlock"), (_is_decomposition, "one operand of matrices and two results")
    ),
    "ProductOfElementaryHouseholderReflectors": (_is_householder, "matrices and vectors, one result"),
    "mhlo.topk": (_is_top_k, "one operand, two results of its rank"),
    **dict.fromkeys(
        ("ApproxTopK", "PartialReduce"), (_is_approximate_top_k, "four operands, two results of the rank of the first")
    ),
}


OF_SHARDY = "sdy-"
"""What the names of Shardy's passes begin with."""


def check_for_shardy(module: ir.Module, pipeline: str) -> None:
    """Raises Unsupported if a pipeline of passes of Shardy's would end the process on this module."""
    _check_calls(model_of(module))
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    ending = ending_of_passes(written.getvalue(), pipeline, module.context.allow_unregistered_dialects)
    if ending:
        raise Unsupported(
            f"jaxlib's passes '{pipeline}' {ending} on this program",
            hint="they are Shardy's, and need other passes of Shardy's before them",
        )


def _check_calls(top: Operation) -> None:
    """Raises Unsupported, located, for a custom call that Shardy's passes would misread."""
    for op in top.walk():
        if op.name != CUSTOM_CALL:
            continue
        target = text_of(op.attributes["call_target_name"])
        form = _FORMS.get(target)
        if form and not form[0](_ranks(op.operands), _ranks(op.results)):
            with located(op):
                raise Unsupported(
                    f"Shardy's passes take a call of '{target}' to have {form[1]}",
                    hint="give the call that form or another target; gspmd's own passes take it as it is",
                )


def _ranks(values: list[Value]) -> _Ranks:
    return [len(value.type.shape) if value.type.is_tensor else -1 for value in values]

"""The ragged all-to-all, a collective that is a custom call: its groups are in its configuration.

`jax.lax.ragged_all_to_all` and XLA specify it; StableHLO has no operation for it. Operands are the rows to send, the
rows to write to, and for every slice its first row, its length, the row at which its receiver writes it, and the length
of the slice received.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.limits import MAX_LISTED_DEVICES
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.attribute_text import Attributes, as_dictionary, text_of

RAGGED = "ragged_all_to_all"
"""The target of the call, and the kind of the collective."""
CONFIG, GROUPS = "backend_config", "replica_groups"
_READ_BITS = (8, 16, 32, 64)
_INTEGERS = re.compile(r"u?i(2|4|8|16|32|64)")


def is_ragged(op: Operation | OpInfo) -> bool:
    """Whether an operation is a ragged all-to-all."""
    return op.name == CUSTOM_CALL and text_of(op.attributes.get("call_target_name")) == RAGGED


def ragged_config(attributes: Attributes) -> dict[str, ir.Attribute]:
    """The configuration of the call. Raises AnnotationError unless it lists groups of one size."""
    given = attributes[CONFIG] if CONFIG in attributes else None  # noqa: SIM401
    found = as_dictionary(given) if isinstance(given, ir.DictAttr) else {}
    groups = found.get(GROUPS)
    if groups is None or not _is_table(groups):
        raise AnnotationError(
            f"calls '{RAGGED}' without '{GROUPS}' that are a table of all partitions, each of them once",
            hint=f"list the partitions of each group in '{CONFIG}', as dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>",
            code=Code.OPERATION,
        )
    return found


def listed(groups: ir.Attribute) -> npt.NDArray[np.int64]:
    """Groups as a table of partition ids, `[groups, devices in a group]`."""
    return np.array(ir.DenseIntElementsAttr(groups), np.int64).reshape(ir.ShapedType(groups.type).shape)


def _is_table(groups: ir.Attribute) -> bool:
    if not isinstance(groups, ir.DenseIntElementsAttr):
        return False
    type_ = ir.ShapedType(groups.type)
    element = type_.element_type
    if type_.rank != 2 or not isinstance(element, ir.IntegerType) or element.width not in _READ_BITS:
        return False
    count = math.prod(type_.shape)
    return 0 < count <= MAX_LISTED_DEVICES and bool((np.sort(listed(groups), None) == np.arange(count)).all())


def group_size(op: Operation | OpInfo) -> int:
    """The group size of a ragged all-to-all. Raises AnnotationError for an inconsistent one."""
    operands, results = _types(op)
    size = int(listed(ragged_config(op.attributes)[GROUPS]).shape[1])
    if not _fits(operands, results, size):
        raise AnnotationError(
            f"calls '{RAGGED}' of {', '.join(type_.brief for type_ in (*operands, *results))} in groups of {size}",
            hint="give it the rows to send, those to write to, which have the result's type, and four vectors of "
            "integers, whose length is a multiple of the size of a group",
            code=Code.OPERATION,
        )
    return size


def _types(op: Operation | OpInfo) -> tuple[Sequence[TensorType], Sequence[TensorType]]:
    if isinstance(op, OpInfo):
        return op.operands, op.results
    return [value.type for value in op.operands], [value.type for value in op.results]


def _fits(operands: Sequence[TensorType], results: Sequence[TensorType], size: int) -> bool:
    if len(operands) != 6 or len(results) != 1 or not all(type_.is_tensor for type_ in (*operands, *results)):
        return False
    rows, output, *vectors = operands
    return (
        rows.rank > 0
        and output == results[0]
        and output == rows.of_shape((*output.shape[:1], *rows.shape[1:]))
        and all(vector.shape == vectors[0].shape and vector.rank == 1 for vector in vectors)
        and all(_INTEGERS.fullmatch(vector.element) for vector in vectors)
        and vectors[0].shape[0] % size == 0
    )

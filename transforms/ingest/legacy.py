"""Legacy operations, and those of related dialects, become equivalent operations of StableHLO or CHLO.

This happens before annotations are read: their attributes move to the new operation or to a `@Sharding` call after it.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.analysis.trip_count import constant_integer
from gspmd.transforms.ingest.annotations import NESTED, called_by, entries_of
from gspmd.transforms.ingest.composites import POINTWISE, Expansions
from gspmd.transforms.ingest.edits import create, drop, mark
from gspmd.transforms.ingest.survey import CARRIERS, DEPRECATED, Survey, survey
from gspmd.transforms.ir.modules import context_of, function_block, symbol
from gspmd.transforms.ir.native import run_native
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located, mlir_errors

# Operations of MHLO and the equivalent ones of CHLO.
_CHLO = {f"mhlo.{name}": f"chlo.{name}" for name in POINTWISE}
_CONSTANTS = {"sdy.constant": "stablehlo.constant", "chlo.constant": "stablehlo.constant"}
_TOP_K = "TopK"  # XLA's own call
_SIZED = "stablehlo.set_dimension_size"
# Deprecated operations that StableHLO's own pass does not convert.
_THROUGH_MHLO = ("stablehlo.einsum", "stablehlo.torch_index_select")
_MHLO_PASSES = ("mhlo-legalize-einsum-to-dot-general", "mhlo-legalize-torch-index-select-to-gather")


def modernise(module: Operation, found: Survey) -> Survey:
    """Replace the operations of older producers; returns the new survey.

    Raises Unsupported (located) for MHLO operations that have no counterpart.
    """
    changed = False
    expansions = Expansions({symbol(op): op for op in found.functions})
    for op in [
        *found.all("stablehlo.custom_call", "stablehlo.composite", _SIZED, *_CONSTANTS),
        *found.dialect("mhlo"),
    ]:
        with located(op):
            changed |= _replace_one(op, expansions)
    if any(name not in _CHLO and name not in ("mhlo.topk", "mhlo.copy") for name in found.found if _is_mhlo(name)):
        _run(module, "hlo-legalize-to-stablehlo")
        changed = True
    if changed:
        found = survey(module)
    deprecated = found.all(*DEPRECATED)
    if not deprecated:
        return found
    through_mhlo = bool(found.all(*_THROUGH_MHLO))
    for op in deprecated:
        with located(op):
            _prepare_deprecated(op)
    _run(module, "func.func(stablehlo-legalize-deprecated-ops)")
    if through_mhlo:
        _run(module, ",".join(f"func.func({name})" for name in _MHLO_PASSES) + ",hlo-legalize-to-stablehlo")
    return survey(module)


def _prepare_deprecated(op: Operation) -> None:
    """Move the annotations of an operation to its results, and rename an operation of MHLO."""
    said = _said(op)
    if said:
        mark(op.results[0], said, op)
        drop(op, CARRIERS)
    if op.name not in _THROUGH_MHLO:
        return
    attributes = dict(op.attributes)
    if op.name == "stablehlo.einsum":
        _check_einsum(text_of(attributes["einsum_config"]))
    _rename(op, op.name.replace("stablehlo.", "mhlo."), attributes)


def _check_einsum(config: str) -> None:
    """Raises Unsupported for an einsum that is not a dot_general and a transpose."""
    operands, _, result = config.replace(" ", "").partition("->")
    left, _, right = operands.partition(",")
    if "." in config:
        raise Unsupported(f"einsum '{config}' has an ellipsis", hint="name every dimension", code=Code.OPERATION)
    if any(len(set(labels)) != len(labels) for labels in (left, right, result)):
        raise Unsupported(f"einsum '{config}' repeats a dimension", hint="take the diagonal first", code=Code.OPERATION)
    if alone := sorted((set(left) ^ set(right)) - set(result)):
        raise Unsupported(
            f"einsum '{config}' sums '{alone[0]}', which one operand has",
            hint="sum it first with 'stablehlo.reduce'",
            code=Code.OPERATION,
        )


def _is_mhlo(name: str) -> bool:
    return name.startswith("mhlo.")


def _replace_one(op: Operation, expansions: Expansions) -> bool:
    """Replace the operation by its counterpart, if there is one; the known ones have no regions."""
    name, attributes = op.name, op.attributes
    given: dict[str, ir.Attribute] = {}
    if name == "mhlo.topk":
        given = entries_of(attributes)
    elif name == "stablehlo.custom_call":
        name = text_of(attributes["call_target_name"])
        given = entries_of(attributes[NESTED]) if NESTED in attributes else {}
    elif name == "stablehlo.composite":
        known = expansions.known_operation(op)
        if known is None:
            return _rename(op, "func.call", {"callee": attributes["decomposition"]})
        given = attributes["composite_attributes"] if "composite_attributes" in attributes else ir.DictAttr.get({})
        return _rename(op, known, entries_of(given))
    if name == "mhlo.topk":
        return _top_k(op, given)
    if name == _TOP_K and "call_target_name" in attributes:
        _check_top_k(op)
        k = op.results[0].type.shape[-1]
        return _rename(op, "chlo.top_k", {"k": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), k)})
    if name == "mhlo.copy" or (name == _SIZED and _is_whole(op)):
        mark(op.results[0], _said(op), op)
        op.replace([op.operands[0]])
        return True
    if name in _CONSTANTS:
        return _rename(op, _CONSTANTS[name], {"value": attributes["value"]})
    return name in _CHLO and _rename(op, _CHLO[name], {})


def _is_whole(op: Operation) -> bool:
    """Whether the size set is that of the whole dimension, as TensorFlow does for results of its top-k."""
    type_, dim = op.results[0].type, ir.IntegerAttr(op.attributes["dimension"]).value
    size = constant_integer(op.operands[1])
    return bool(type_.is_tensor and type_ == op.operands[0].type and type_.shape[dim] == size)


def _top_k(op: Operation, given: dict[str, ir.Attribute]) -> bool:
    if "largest" in given and not given["largest"].value:
        raise Unsupported(
            "top-k of the smallest elements", hint="negate the operand and the values", code=Code.OPERATION
        )
    if "k" not in given:
        raise Unsupported("top-k without 'k'", hint="use 'chlo.top_k'", code=Code.OPERATION)
    return _rename(op, "chlo.top_k", {"k": given["k"]})


def _check_top_k(op: Operation) -> None:
    """Raises Unsupported for a call of XLA's `TopK` that does not return the largest elements and their indices."""
    value, *others = op.operands
    if others or len(op.results) != 2 or not value.type.rank:
        raise Unsupported(
            f"custom call '{_TOP_K}' that is not of one operand and two results",
            hint="use 'chlo.top_k'",
            code=Code.OPERATION,
        )
    for name in called_by(op):
        if not _is_greater(function_block(op, name)):
            raise Unsupported(
                "top-k of other than the largest elements",
                hint="sort, and take the first of the result",
                code=Code.OPERATION,
            )


def _is_greater(block: Block | None) -> bool:
    """Whether the block of a comparator returns whether its first argument is greater than its second."""
    if block is None:
        return False
    first, last = block.first, block.terminator
    assert first is not None
    direction = str(first.attributes["comparison_direction"]) if first.name == "stablehlo.compare" else ""
    arguments = list(block.arguments)[:2]
    return "GT" in direction and list(first.operands) == arguments and list(last.operands) == list(first.results)


def _rename(op: Operation, name: str, attributes: dict[str, ir.Attribute]) -> bool:
    types = [value.type for value in op.results]
    op.replace(create(name, op.operands, types, {**attributes, **_said(op)}, op).results)
    return True


def _said(op: Operation) -> dict[str, ir.Attribute]:
    """The attributes with the annotations of the operation, without nesting."""
    attributes = op.attributes
    said = {name: attributes[name] for name in CARRIERS if name in attributes and name != NESTED}
    if NESTED in attributes and "mhlo.sharding" in attributes[NESTED]:
        said.setdefault("mhlo.sharding", attributes[NESTED]["mhlo.sharding"])
    return said


def _run(module: Operation, passes: str) -> None:
    """Run a pass of StableHLO's. Raises Unsupported, located, when it fails."""
    with mlir_errors(context_of(module), Unsupported):
        run_native(module, passes)

"""Asynchronous collectives, with separate start and done, become synchronous ones, which compilers start early anyway.

JAX emits two custom calls for each, such as `all-gather-start` and `all-gather-done`, inside manual computations. A
frontend attribute of the first describes the collective in JSON; the second returns its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.transforms.emit.bodies import inline_body
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.collective_builder import channel_handle
from gspmd.transforms.ingest.annotations import FRONTEND, called_by, frontend
from gspmd.transforms.ingest.survey import CARRIERS
from gspmd.transforms.ir.callbacks import target_of
from gspmd.transforms.ir.groups import Ids
from gspmd.transforms.ir.modules import context_of, function_block
from gspmd.transforms.ir.operations import Attribute, Block, Operation, Point
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_CONFIG = "async_collective_config"
Config = Mapping[str, Any]


def replace_started(calls: Iterable[Operation]) -> bool:
    """Replace the custom calls that start a collective or wait for one; returns whether there were any.

    Errors: AnnotationError (located) for a call without a valid description, or with another result type.
    """
    changed = False
    for op in calls:
        kind, _, part = target_of(op).rpartition("-")
        if kind in _KINDS and part in ("start", "done"):
            with located(op):
                _start(op, kind) if part == "start" else _hand_on(op)
            changed = True
    return changed


def _hand_on(op: Operation) -> None:
    """Replace the done operation by the collective; an annotated result stays a separate value."""
    types = [[value.type for value in values] for values in (op.operands, op.results)]
    if len(op.results) != 1 or types[0] != types[1]:
        raise AnnotationError(f"calls '{target_of(op)}' with a result of another type", code=Code.OPERATION)
    kept = {name: op.attributes[name] for name in CARRIERS if name in op.attributes}
    if kept:
        barrier = Operation("stablehlo.optimization_barrier", op.operands, types[1], kept, op.location)
        op.replace(barrier.insert(Point.at(op)).results)
    else:
        op.replace(list(op.operands))


def _start(op: Operation, kind: str) -> None:
    name, describe = _KINDS[kind]
    is_permute = kind == "collective-permute"
    config = _read(op)
    build = Builder(context_of(op))
    build.location, build.point = op.location, Point.at(op)
    try:
        groups = _ids(config["permutation" if is_permute else "replica_groups"], is_permute)
        attributes, result = describe(build, config, op.operands[0].type, groups.shape[1])
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise _mistaken(op) from None
    channel = config.get("channel_id", 0)
    if type(channel) is not int or not 0 <= channel < 2**31:
        raise _mistaken(op)
    if len(op.operands) != 1 or [value.type for value in op.results] != [result]:
        raise _mistaken(op)
    where = "source_target_pairs" if is_permute else "replica_groups"
    attributes[where] = ir.DenseElementsAttr.get(groups, context=build.context)
    if channel:
        attributes["channel_handle"] = channel_handle(channel, build.context)
    if config.get("use_global_device_ids") is True:
        attributes["use_global_device_ids"] = ir.UnitAttr.get(build.context)
    regions = [_reducer(build, op)] if kind in ("all-reduce", "reduce-scatter") else []
    started = build.create(f"stablehlo.{name}", op.operands, [result], attributes | _annotations(op), regions)
    op.replace(started.results)


def _mistaken(op: Operation) -> AnnotationError:
    return AnnotationError(
        f"calls '{target_of(op)}' with '{_CONFIG}' that does not describe it",
        hint="write it as JAX does, with dimensions and groups that give the result its type",
        code=Code.OPERATION,
    )


def _read(op: Operation) -> Config:
    try:
        found = json.loads(frontend(op.attributes).get(_CONFIG, ""))
    except (ValueError, RecursionError):
        raise _mistaken(op) from None
    if not isinstance(found, dict) or not op.operands or not op.operands[0].type.is_tensor:
        raise _mistaken(op)
    return found


def _ids(given: Any, is_permute: bool) -> Ids:
    """The groups or pairs of partitions; each partition is in one group, or sends and receives once.

    Raises ValueError for anything else.
    """
    if not all(type(number) is int for row in given for number in row):
        raise ValueError
    found = np.array(given, np.int64)
    if (
        found.ndim != 2
        or not found.size
        or any(len(np.unique(ids)) < len(ids) for ids in (found.T if is_permute else [found[found >= 0]]))
    ):
        raise ValueError
    return found


def _annotations(op: Operation) -> dict[str, Attribute]:
    """The annotations of the call, without the description of the collective."""
    kept = {name: op.attributes[name] for name in CARRIERS if name in op.attributes}
    entries = {entry.name: entry.attr for entry in kept.pop(FRONTEND) if entry.name != _CONFIG}
    return kept | ({FRONTEND: ir.DictAttr.get(entries)} if entries else {})


def _reducer(build: Builder, op: Operation) -> Block:
    """The reduction function, as a region."""
    called = called_by(op)
    block = function_block(op, called[0]) if len(called) == 1 else None
    scalar = TensorType((), op.operands[0].type.element)
    if block is None or [argument.type for argument in block.arguments] != [scalar] * 2:
        raise AnnotationError(
            f"calls '{target_of(op)}' without a function that combines two elements",
            hint="name one in 'called_computations'",
            code=Code.OPERATION,
        )
    return build.block([scalar, scalar], lambda pair: inline_body(build, block, pair))


# ---- the description of each kind, and its result type ----

_Described = tuple[dict[str, Attribute | None], TensorType]


def _dim(config: Config, name: str, type_: TensorType) -> int:
    """A dimension of a type. Raises IndexError for an unknown dimension, KeyError if none is given."""
    dim = config[name]
    if type(dim) is not int or not 0 <= dim < type_.rank:
        raise IndexError
    return dim


def _resized(type_: TensorType, dim: int, times: int, parts: int = 1) -> TensorType:
    """The type with one dimension scaled by `times / parts`. Raises ValueError for a remainder."""
    if type_.shape[dim] * times % parts:
        raise ValueError
    return type_.of_shape((*type_.shape[:dim], type_.shape[dim] * times // parts, *type_.shape[dim + 1 :]))


def _gather(build: Builder, config: Config, type_: TensorType, size: int) -> _Described:
    dim = _dim(config, "all_gather_dimension", type_)
    return {"all_gather_dim": build.i64(dim)}, _resized(type_, dim, size)


def _reduce_scatter(build: Builder, config: Config, type_: TensorType, size: int) -> _Described:
    dim = _dim(config, "scatter_dimension", type_)
    return {"scatter_dimension": build.i64(dim)}, _resized(type_, dim, 1, size)


def _all_to_all(build: Builder, config: Config, type_: TensorType, size: int) -> _Described:
    split, concat = _dim(config, "split_dimension", type_), _dim(config, "concat_dimension", type_)
    if config["split_count"] != size:
        raise ValueError
    attributes = {"split_dimension": split, "concat_dimension": concat, "split_count": size}
    result = _resized(_resized(type_, split, 1, size), concat, size)
    return {name: build.i64(value) for name, value in attributes.items()}, result


def _reduce(build: Builder, config: Config, type_: TensorType, size: int) -> _Described:
    del build, config, size
    return {}, type_


def _permute(build: Builder, config: Config, type_: TensorType, size: int) -> _Described:
    del build, config
    if size != 2:
        raise ValueError
    return {}, type_


_KINDS: Mapping[str, tuple[str, Callable[[Builder, Config, TensorType, int], _Described]]] = {
    "all-gather": ("all_gather", _gather),
    "all-reduce": ("all_reduce", _reduce),
    "all-to-all": ("all_to_all", _all_to_all),
    "collective-permute": ("collective_permute", _permute),
    "reduce-scatter": ("reduce_scatter", _reduce_scatter),
}

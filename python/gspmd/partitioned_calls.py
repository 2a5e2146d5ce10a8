"""Custom calls that a program's own functions split: each becomes a manual computation of what these make of it.

That is done behind `gspmd-ingest`: shardings are completed once to ask the functions, nothing of which is written, and
what the passes see then are manual computations over all axes, as those of `jax.shard_map`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sdy_attrs import SdyCodec, write_manual_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.manual import ops_in_regions
from gspmd.transforms.ir.modules import (
    FUNCTION,
    context_of,
    create_mesh,
    declare_types,
    free_symbol,
    function_types,
    main_function,
)
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Attribute, Block, Operation, Point
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ops.custom_rules import CallPartitioner, RuleSource, SplitCall, custom_calls
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located, parse_written
from gspmd.transforms.propagate import Completion, complete


def split_calls(module: Operation, rules: Mapping[str, RuleSource]) -> None:
    """Replace the calls in an ingested module whose targets have a `CallPartitioner` among `rules`.

    Errors: those of completing shardings, and of the functions, located at the call.
    """
    partitioners = {target: rule for target, rule in rules.items() if isinstance(rule, CallPartitioner)}
    targets = {text_of(op.attributes["call_target_name"]) for op in custom_calls(main_function(module))}
    if targets & partitioners.keys():
        _Splitting(module, partitioners).run()


class _Splitting:
    """What is done to one module."""

    def __init__(self, module: Operation, partitioners: Mapping[str, CallPartitioner]) -> None:
        self._module = module
        self._partitioners = partitioners
        self._regions: dict[tuple[OpInfo, tuple[TensorSharding, ...], Axes], Operation] = {}

    def run(self) -> None:
        # What is not supported is refused, or remarked on, by the passes.
        completion = complete(self._module, replicate_unsupported=True, given=self._rule)
        annotated = completion.annotated
        for op, held, _ in list(ops_in_regions(annotated.program, annotated.codec, annotated.mesh)):
            partitioner = self._partitioner(op.info)
            if partitioner is not None:
                operands = _found(completion, op.operand_slots)
                results = _found(completion, op.result_slots)
                key = (op.info, operands + results, held)
                with located(op.ir):
                    if key not in self._regions:
                        split = partitioner.split(op.info, operands, results, held)
                        self._regions[key] = _computation(annotated, op.ir, split, held)
                    _replace(op.ir, self._regions[key])

    def _partitioner(self, info: OpInfo) -> CallPartitioner | None:
        return self._partitioners.get(info.text("call_target_name")) if info.name == CUSTOM_CALL else None

    def _rule(self, info: OpInfo, op: Operation) -> OpShardingRule | None:
        partitioner = self._partitioner(info)
        rule = None if partitioner is None else partitioner.rule(info)
        inference = None if rule is None else rule.inference
        if rule is None or inference is None:
            return rule

        def inferred(shardings: tuple[TensorSharding, ...]) -> tuple[TensorSharding, ...]:
            with located(op):
                return inference(shardings)

        return dataclasses.replace(rule, inference=inferred)


def _found(completion: Completion, slots: list[int]) -> tuple[TensorSharding, ...]:
    """The shardings that slots have, as far as they divide: a program of one device knows nothing of padding."""
    values, state, types = completion.solver.interner.values, completion.solver.state, completion.graph.slot_types
    return tuple(values[state[slot]].closed().evenly(types[slot].shape) for slot in slots)


def _replace(call: Operation, computation: Operation) -> None:
    """Put a copy of the manual computation in place of a call."""
    types = [result.type for result in call.results]
    region = computation.regions[0].clone({})
    made = Operation(MANUAL, call.operands, types, dict(computation.attributes), call.location, [region])
    call.replace(made.insert(Point.at(call)).results)


def _computation(annotated: AnnotatedProgram, call: Operation, split: SplitCall, held: Axes) -> Operation:
    """The manual computation for a call, over all axes that are not held around it, in a module of its own.

    That is a program like any other: what is in it comes into the one form that passes read.
    """
    mesh, context = annotated.mesh, context_of(call)
    module = parse_written(split.program, context)
    top = model_of(module)
    inner, content = main_function(top), Point.at_begin(top.regions[0])
    name = free_symbol(top, "part")
    inner.attributes["sym_name"] = ir.StringAttr.get(name, context)
    inner.attributes["sym_visibility"] = ir.StringAttr.get("private", context)
    create_mesh(mesh, content, call.location)
    count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context), mesh.size)
    top.attributes["mhlo.num_partitions"] = count
    free = tuple(axis.name for axis in mesh.all_axes() if not overlap([axis], held))
    attributes = {
        **_shardings(annotated.codec, split),
        "manual_axes": write_manual_axes(free, context),
    }
    body = _calling(inner, name, call)
    outer = [value.type for value in call.operands]
    block = Block(outer, [call.location] * len(outer))
    results = [value.type for value in call.results]
    made = Operation(MANUAL, block.arguments, results, attributes, call.location, [body]).insert(Point(block))
    Operation("func.return", made.results, [], {}, call.location).insert(Point(block))
    entry = Operation(FUNCTION, [], [], {"sym_name": ir.StringAttr.get("main", context)}, call.location, [block])
    declare_types(entry.insert(content))
    Ingest().run(top)
    return next(op for op in main_function(top).regions[0] if op.name == MANUAL)


def _calling(function: Operation, name: str, call: Operation) -> Block:
    """A block that returns what a function makes of its arguments."""
    inputs, results = function_types(function)
    block = Block(inputs, [call.location] * len(inputs))
    callee = {"callee": ir.FlatSymbolRefAttr.get(name, context_of(call))}
    made = Operation("func.call", block.arguments, results, callee, call.location).insert(Point(block))
    Operation("sdy.return", made.results, [], {}, call.location).insert(Point(block))
    return block


def _shardings(codec: SdyCodec, split: SplitCall) -> dict[str, Attribute]:
    return {"in_shardings": codec.write_list(split.operands), "out_shardings": codec.write_list(split.results)}

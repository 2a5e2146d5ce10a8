"""Custom calls with their own partitioning functions: each becomes a manual computation.

After `gspmd-ingest`, shardings are propagated once, without being written, to call the functions with them. The passes
then see manual computations over all axes, like those of `jax.shard_map`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.common_mesh import translated
from gspmd.dialect.device_order import DeviceOrder
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.orders import aligned_order, renamed
from gspmd.dialect.own_attributes import SPLIT_BY_RULE
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sdy_attrs import SdyCodec, write_manual_axes
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ingest.orders import mark_orders, rename_devices
from gspmd.transforms.ir.annotated import AnnotatedModule, AnnotatedProgram
from gspmd.transforms.ir.manual import ManualRegion, ops_in_regions
from gspmd.transforms.ir.modules import (
    FUNCTION,
    context_of,
    create_mesh,
    declare_types,
    free_symbol,
    function_types,
    functions,
    main_function,
    symbol,
)
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.program import MANUAL, Op
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.custom_rules import CUSTOM_PARTITIONING, RULE, CallPartitioner, RuleSource, custom_calls
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located, parse_written
from gspmd.transforms.propagate import complete

Shardings = tuple[TensorSharding, ...]
_CALLED = "called_computations"


def split_calls(module: Operation, rules: Mapping[str, RuleSource]) -> bool:
    """Replace the calls in an ingested module whose targets have a `CallPartitioner` among `rules`.

    Returns whether there are any, in which case the new bodies may contain further calls.

    Errors: those of propagation, and of the functions, located at the call.
    """
    partitioners = {target: rule for target, rule in rules.items() if isinstance(rule, CallPartitioner)}
    targets = {text_of(op.attributes["call_target_name"]) for op in custom_calls(main_function(module))}
    found = bool(targets & partitioners.keys())
    if found:
        _CallReplacement(module, partitioners).run()
    return found


def leave_to_rules(module: Operation) -> None:
    """Let calls with a rule be split by that rule alone, like operations, so that all strategies can be compared.

    The functions are not called, so their results are unknown.
    """
    for function in functions(module):
        for op in custom_calls(function):
            if RULE in op.attributes and text_of(op.attributes["call_target_name"]) == CUSTOM_PARTITIONING:
                op.attributes["call_target_name"] = ir.StringAttr.get(SPLIT_BY_RULE, context_of(op))
                op.attributes.pop(_CALLED, None)


class _CallReplacement:
    """The replacement of the calls of one module."""

    def __init__(self, module: Operation, partitioners: Mapping[str, CallPartitioner]) -> None:
        self._module = module
        base = AnnotatedModule(module).mesh
        self._partitioners = {target: (each, _MeshConversion(each.mesh, base)) for target, each in partitioners.items()}
        self._made: dict[tuple[OpInfo, Shardings, Axes], tuple[ManualRegion, Block]] = {}

    def run(self) -> None:
        # The passes refuse what is not supported, or emit a remark.
        completion = complete(self._module, replicate_unsupported=True, given=self._rule)
        annotated, solver = completion.annotated, completion.solver
        for op, held, _ in list(ops_in_regions(annotated.program, annotated.codec, annotated.mesh)):
            if op.info.name == CUSTOM_CALL and op.info.text("call_target_name") in self._partitioners:
                states = [solver.state[slot] for slot in op.operand_slots + op.result_slots]
                found = tuple(solver.interner.values[state].closed() for state in states)
                rule = self._rule(op.info, op.ir)
                if rule is not None and rule.inference is not None:  # operands may have been reconsidered
                    found = rule.inference(found)
                with located(op.ir):
                    boundary, body = self._computation(annotated, op, found, held)
                    made = _computation(op.ir, boundary, annotated.codec, body.clone({}), op.ir.operands)
                    op.ir.replace(made.insert(Point.at(op.ir)).results)
                    if overlap(
                        boundary.axes, held
                    ):  # all axes are manual around it: it is part of that per-device program
                        made.inline()

    def _rule(self, info: OpInfo, op: Operation) -> OpShardingRule | None:
        target = info.text("call_target_name") if info.name == CUSTOM_CALL else ""
        if target not in self._partitioners:
            return None
        partitioner, readings = self._partitioners[target]
        rule = partitioner.rule(info)
        inference = rule.inference
        if inference is None:
            return rule

        def inferred(shardings: Shardings) -> Shardings:
            given = readings.own(shardings, info)
            with located(op):
                found = inference(given)
                return tuple(
                    before if now == known else readings.base(now).evenly(type_.shape)
                    for before, known, now, type_ in zip(shardings, given, found, _types(info), strict=True)
                )

        return dataclasses.replace(rule, inference=inferred)

    def _computation(
        self, annotated: AnnotatedProgram, op: Op, found: Shardings, held: Axes
    ) -> tuple[ManualRegion, Block]:
        """The manual computation for a call with these shardings; memoized."""
        key = (op.info, found, held)
        if key not in self._made:
            partitioner, readings = self._partitioners[op.info.text("call_target_name")]
            given, count = readings.own(found, op.info), len(op.operands)
            split = partitioner.split(op.info, given[:count], given[count:], readings.own_axes(held))
            operands, results = (tuple(map(readings.base, s)) for s in (split.operands, split.results))
            free = tuple(axis for axis in annotated.mesh.all_axes() if not overlap([axis], held))
            boundary = ManualRegion(free or held, operands, results)
            body = _ingested(split.program, op.ir, boundary, annotated.mesh, readings.order)
            _bring_functions(body, self._module)
            self._made[key] = boundary, body
        return self._made[key]


class _MeshConversion:
    """Converts shardings between the mesh of the functions and the program's mesh `base`.

    If their device orders do not factor over one mesh, `order` renames devices.
    """

    def __init__(self, mesh: Mesh, base: Mesh) -> None:
        self._mesh, self._base = mesh, base
        self.order = aligned_order(mesh, base)
        self._over = mesh if self.order is None else renamed(mesh, self.order, base)

    def own(self, shardings: Shardings, info: OpInfo) -> Shardings:
        """The shardings over the mesh of the functions, as far as they are even.

        A per-device function cannot handle padding. Open dimensions stay open.
        """
        found = []
        for sharding, type_ in zip(shardings, _types(info), strict=True):
            own = self._own(sharding.closed().evenly(type_.shape))
            dims = zip(own.dims, sharding.dims, strict=True)
            opened = tuple(dataclasses.replace(dim, is_open=before.is_open) for dim, before in dims)
            found.append(dataclasses.replace(own, dims=opened))
        return tuple(found)

    def own_axes(self, axes: Axes) -> Axes:
        """Axes over it."""
        return self._own(TensorSharding(self._base, (DimSharding(axes),))).dims[0].axes

    def _own(self, sharding: TensorSharding) -> TensorSharding:
        try:
            found = translated(sharding, self._over)
        except Unsupported:  # parts of axes that this mesh does not have
            found = replicated(self._over, sharding.rank)
        return dataclasses.replace(found, mesh=self._mesh)

    def base(self, sharding: TensorSharding) -> TensorSharding:
        """Over the program's."""
        return translated(dataclasses.replace(sharding, mesh=self._over), self._base).closed()


def _types(info: OpInfo) -> tuple[TensorType, ...]:
    return info.operands + info.results


def _computation(
    call: Operation, boundary: ManualRegion, codec: SdyCodec, body: Block, operands: Sequence[Value]
) -> Operation:
    """A manual computation for a call with these operands, not yet in a block."""
    attributes = {
        "in_shardings": codec.write_list(boundary.in_shardings),
        "out_shardings": codec.write_list(boundary.out_shardings),
        "manual_axes": write_manual_axes((axis.name for axis in boundary.axes), codec.context),
    }
    return Operation(MANUAL, operands, [value.type for value in call.results], attributes, call.location, [body])


def _ingested(program: str, call: Operation, boundary: ManualRegion, mesh: Mesh, order: DeviceOrder | None) -> Block:
    """The body of a manual computation, from a per-device program in its own module.

    The module is ingested like any other, so that the body has the form that passes read.
    """
    context = context_of(call)
    top = model_of(parse_written(program, context))
    inner, content = main_function(top), Point.at_begin(top.regions[0])
    name = free_symbol(top, "part")
    inner.attributes["sym_name"] = ir.StringAttr.get(name, context)
    inner.attributes["sym_visibility"] = ir.StringAttr.get("private", context)
    mesh = dataclasses.replace(mesh, name=free_symbol(top, "mesh"))
    create_mesh(mesh, content, call.location)
    top.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context), mesh.size)
    types = [value.type for value in call.operands]
    block = Block(types, [call.location] * len(types))
    codec = SdyCodec(context, {mesh.name: mesh})
    sides = (boundary.in_shardings, boundary.out_shardings)
    boundary = ManualRegion(boundary.axes, *(tuple(dataclasses.replace(s, mesh=mesh) for s in side) for side in sides))
    made = _computation(call, boundary, codec, _calling(inner, name, call), block.arguments).insert(Point(block))
    Operation("func.return", made.results, [], {}, call.location).insert(Point(block))
    entry = Operation(FUNCTION, [], [], {"sym_name": ir.StringAttr.get("main", context)}, call.location, [block])
    declare_types(entry.insert(content))
    Ingest().ingest(top, open_sums=False)  # the body keeps the results that the call has
    main = main_function(top)
    found = next(op for op in main.regions[0] if op.name == MANUAL)
    if order is not None:
        mark_orders(found, {order})
        rename_devices(main, mesh)
    return found.regions[0]


def _bring_functions(body: Block, module: Operation) -> None:
    """Move the functions to which custom calls of a body refer into the module of the call, under unused names."""
    assert body.owner is not None
    top = computation = body.owner
    while top.parent is not None:
        top = top.parent
    for function in functions(top):
        name = symbol(function)
        if name != "main":
            free = ir.FlatSymbolRefAttr.get(free_symbol(module, name), function.location.context)
            for op in computation.walk():
                if _CALLED in op.attributes:
                    called = [free if each.value == name else each for each in op.attributes[_CALLED]]
                    op.attributes[_CALLED] = ir.ArrayAttr.get(called, function.location.context)
            function.attributes["sym_name"] = ir.StringAttr.get(free.value, function.location.context)
            function.move(Point(module.regions[0]))


def _calling(function: Operation, name: str, call: Operation) -> Block:
    """A block that returns the results of a function on its arguments."""
    inputs, results = function_types(function)
    block = Block(inputs, [call.location] * len(inputs))
    callee = {"callee": ir.FlatSymbolRefAttr.get(name, context_of(call))}
    made = Operation("func.call", block.arguments, results, callee, call.location).insert(Point(block))
    Operation("sdy.return", made.results, [], {}, call.location).insert(Point(block))
    return block

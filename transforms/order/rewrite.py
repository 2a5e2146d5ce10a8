"""Applying the orders: permutes where a value changes order, and renamed devices in operations in another order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.group_axes import names_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.collective_builder import Cause, CollectiveBuilder
from gspmd.transforms.ir.collective_groups import PARTITION_ID, groups_of, is_collective, set_groups
from gspmd.transforms.ir.groups import renamed_groups
from gspmd.transforms.ir.modules import codec_of, context_of, create_mesh, free_symbol, main_function
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import Body, Op
from gspmd.transforms.order.moves import moving
from gspmd.transforms.order.placed import FIXED, OrderGraph


class OrderRewriter:
    """Rewrites @main in place; `labels` are the orders of the nodes."""

    def __init__(self, module: Operation, placed: OrderGraph, labels: Sequence[int]) -> None:
        self.module = module
        self.placed = placed
        self.labels = labels
        self.moves = placed.moves
        self.program = placed.program
        self.build = CollectiveBuilder(context_of(module), self.moves.mesh)
        self._made_in: dict[int, int] = {}
        self._known: dict[tuple[int, int], Value] = {}
        self._codec = codec_of(module)
        self._meshes: dict[int, Mesh] = {}

    def run(self) -> None:
        body = self.program.body
        self.build.skip_channels(op.ir for op in self.program.ops)
        ends = self.placed.ends(self.labels)
        self._made_in = dict(zip(body.arguments, ends, strict=False))
        for index, op in enumerate(self.placed.nodes):
            order = self.placed.order_of_node(self.labels, index)
            self._made_in.update(dict.fromkeys(op.results, order))
            if self.placed.permutes.keys().isdisjoint(op.results) or order == self._made_in.get(op.operands[0], FIXED):
                self._operation(op, order, op.ir)
            else:
                self._repermute(op, order)
        for index, (value, order) in enumerate(zip(body.returned, ends[len(body.arguments) :], strict=True)):
            new = self._value(value, order, body.terminator, f"result {index} is wanted in another device order")
            body.terminator.operands[index] = new
        for op in reversed(body.ops):
            again = self.placed.remade.issuperset(op.results) or not self.placed.permutes.keys().isdisjoint(op.results)
            if again and not any(result.is_used for result in op.ir.results):
                op.ir.erase()

    def _operation(self, op: Op, order: int, top: Operation) -> None:
        """Let an operation of the node `top` read its operands in the order of the node, and rename its devices."""
        for index, value in enumerate(op.operands):
            self._set(op.ir, index, value, order, top, op.info.name)
        if order != FIXED and is_collective(op.ir):
            self._rename(op.ir, order)
        elif op.info.name == PARTITION_ID and order != FIXED:
            self._point(op.ir)
            op.ir.replace([self.build.partition_named(self.moves.origin(order))])
        for block in op.regions:
            self._block(block, order, top)

    def _block(self, block: Body, order: int, top: Operation) -> None:
        for inner in block.ops:
            self._operation(inner, order, top)
        for index, value in enumerate(block.returned):
            self._set(block.terminator, index, value, order, top, block.terminator.name)

    def _set(self, user: Operation, index: int, value: int, order: int, top: Operation, name: str) -> None:
        if value in self._made_in or value in self.placed.remade:
            cause = f"operand {index} of '{name}' is wanted in another device order"
            user.operands[index] = self._value(value, order, top, cause)

    # ---- values in other orders ----

    def _value(self, value: int, order: int, before: Operation, cause: str) -> Value:
        """A value of the block of @main in an order; created before an operation if it does not exist."""
        old = self.program.value_ir[value]
        made = FIXED if value in self.placed.remade else self._made_in[value]
        split = self.placed.split_of(value)
        if made == order or not self.moves.changed(split, made, order):
            return old
        found = self._known.get((value, order))
        if found is None:
            again = value in self.placed.remade
            found = self._remake(value, order, before) if again else self._permute(value, order, before, cause)
            self._known[value, order] = found
        return found

    def _permute(self, value: int, order: int, before: Operation, cause: str) -> Value:
        arguments, senders = self.program.body.arguments, self.placed.permutes.get(value)
        if value in arguments:
            cause = f"argument {arguments.index(value)} comes in another device order"
        given = value
        if senders is not None:  # one permute for both
            (given,) = self.program.ops[self.program.value_def[value]].operands
        split, made = self.placed.split_of(given), self._made_in[given]
        if senders is None:
            pairs = self.moves.pairs(split, made, order)
        else:
            pairs = self.moves.permuted(split, made, order, senders)
        self._point(before)
        cause_ = Cause(cause, before.location)
        return self.build.collective_permute(self.program.value_ir[given], pairs, self.moves.axes(pairs), cause_)

    def _repermute(self, op: Op, order: int) -> None:
        """Merge a change of order into a permute, which may become the identity."""
        (value,), (result,) = op.operands, op.results
        senders = self.placed.permutes[result]
        pairs = self.moves.permuted(self.placed.split_of(value), self._made_in[value], order, senders)
        if moving(pairs):
            op.ir.attributes["source_target_pairs"] = ir.DenseElementsAttr.get(pairs)
        else:
            op.ir.result.replace_all_uses_with(op.ir.operands[0])
            self.program.value_ir[result] = op.ir.operands[0]

    def _remake(self, value: int, order: int, before: Operation) -> Value:
        """A value computed from constants and the partition id, for the devices of an order."""
        op = self.program.ops[self.program.value_def[value]]
        if op.info.name == PARTITION_ID:
            self._point(before)
            return self.build.partition_named(self.moves.origin(order))
        operands = [self._value(operand, order, before, "") for operand in op.operands]
        copy = op.ir.clone(dict(zip(op.ir.operands, operands, strict=True))).insert(Point.at(before))
        for result, new in zip(op.results, copy.results, strict=True):
            self._known[result, order] = new
        return self._known[value, order]

    def _point(self, before: Operation) -> None:
        self.build.point, self.build.location = Point.at(before), before.location

    # ---- devices ----

    def _rename(self, op: Operation, order: int) -> None:
        groups = groups_of(op)
        if names_axes(groups):
            _, axes = read_group_axes(groups, self._codec.meshes)
            set_groups(op, write_group_axes(self._mesh(order), axes, context_of(op)))
        else:
            set_groups(op, renamed_groups(groups, self.moves.renaming(order)))

    def _mesh(self, order: int) -> Mesh:
        """The mesh in an order, for groups that name axes; it is a named mesh of the module."""
        if order not in self._meshes:
            name = free_symbol(self.module, "order")
            mesh = dataclasses.replace(self.moves.mesh, device_ids=self.moves.orders[order], name=name)
            create_mesh(mesh, Point.at(main_function(self.module)), self.module.location)
            self._meshes[order] = mesh
        return self._meshes[order]

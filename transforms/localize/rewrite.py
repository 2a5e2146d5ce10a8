"""Rewrite operations from global to per-device types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gspmd.dialect.own_attributes import AXES, CAUSE, COMBINER
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.analysis.divergence import diverging_control_flow
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.local_op import LocalOp, local_type
from gspmd.transforms.emit.ragged_exchange import as_equal_shares
from gspmd.transforms.exchange.step import ShardedValue
from gspmd.transforms.exchange.step_notation import STEPS, read_step
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.collective_groups import COLLECTIVES, TRANSFERS
from gspmd.transforms.ir.manual import read_region
from gspmd.transforms.ir.memory_spaces import host_computation
from gspmd.transforms.ir.modules import declare_types
from gspmd.transforms.ir.op_info import InfoReader, ManualScope
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, definition_of
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.attribute_text import required_text
from gspmd.transforms.parsing.mlir import located


class ShardedType(NamedTuple):
    """The global type and the sharding of a value."""

    type: TensorType
    sharding: TensorSharding


class Localizer:
    """Rewrites the function in place. The type of a value changes before its consumers are visited.

    `placed` has the values that are split; all others are replicated and keep their global type.
    """

    def __init__(self, annotated: AnnotatedModule, rules: RuleBook, emit: Emitter) -> None:
        self.annotated = annotated
        self.codec = annotated.codec
        self.rules = rules
        self.emit = emit
        self.placed: dict[Value, ShardedType] = {}
        self._infos = InfoReader()
        self._scope = ManualScope.of(0, len(annotated.mesh.all_axes()))  # of `emit.held`
        self._whole: dict[int, TensorSharding] = {}
        self._local: dict[ShardedType, TensorType] = {}
        self._regions: list[Operation] = []
        self._to_host = False
        self._diverging: set[Operation] | None = None  # known inside manual computations

    def run(self) -> None:
        block = self.annotated.function.regions[0]
        for argument, sharding in zip(block.arguments, self.annotated.arguments, strict=True):
            if sharding is not None:
                self._place(argument, sharding)
        self._operations(block)
        for region in self._regions:
            region.inline()
        if self._to_host:  # on channels that the host uses, too
            self.emit.keep_channels(self.annotated.function, TRANSFERS)
        declare_types(self.annotated.function)

    # ---- values ----

    def _place(self, value: Value, sharding: TensorSharding) -> None:
        """Give a value its per-device type."""
        if sharding.is_replicated():
            return
        placed = ShardedType(value.type, sharding)
        local = self._local.get(placed)
        if local is None:
            local = self._local[placed] = local_type(*placed)
        self.placed[value] = placed
        value.type = local

    def _of(self, value: Value) -> ShardedType:
        found = self.placed.get(value)
        if found is not None:
            return found
        type_ = value.type
        rank = len(type_.shape)
        whole = self._whole.get(rank)
        if whole is None:
            whole = self._whole[rank] = replicated(self.annotated.mesh, rank)
        return ShardedType(type_, whole)

    # ---- operations ----

    def _operations(self, block: Block) -> None:
        table = self.rules.table
        for op in block:
            name = op.name
            self._to_host |= name in TRANSFERS
            attributes = op.attributes
            given = attributes.get("sdy.sharding")
            if name in STEPS:
                self._step(op)
                continue
            if name == MANUAL:
                self._manual(op)
                continue
            if given is not None:
                del attributes["sdy.sharding"]
            shardings = None if given is None else self.codec.read_list(given)
            definition = definition_of(table, op)
            if definition is not None and definition.localize is not None:
                self._compute(op, definition, shardings)
                continue
            if shardings is not None:
                for value, sharding in zip(op.results, shardings, strict=True):
                    self._place(value, sharding)
            if name in COLLECTIVES or is_ragged(op):
                self._written(op)
            elif name in CONTROL_FLOW:
                self._control_flow(op, shardings)

    def _control_flow(self, op: Operation, shardings: tuple[TensorSharding, ...] | None) -> None:
        apart = self.emit.apart
        self.emit.apart = apart or op in (self._diverging or ())
        for region in op.regions:
            self._region(region, shardings)
        self.emit.apart = apart

    def _region(self, block: Block, shardings: tuple[TensorSharding, ...] | None) -> None:
        """Localize a region; its arguments, if any, have the shardings of the operation's results."""
        for value, sharding in zip(block.arguments, shardings or (), strict=False):
            self._place(value, sharding)
        self._operations(block)

    def _manual(self, op: Operation) -> None:
        """Localize a manual computation, then replace the operation by its body."""
        region = read_region(op, self.codec, self.annotated.mesh)
        block = op.regions[0]
        outermost = self._diverging is None
        if outermost:
            self._diverging = diverging_control_flow(op, self.codec, self.annotated.mesh)
        for argument, sharding in zip(block.arguments, region.in_shardings, strict=True):
            self._place(argument, region.inside(sharding))
        outside, mesh = (self.emit.held, self._scope), self.annotated.mesh
        self.emit.held = mesh.sorted(self.emit.held + region.axes)
        self._scope = ManualScope.of(len(self.emit.held), len(mesh.all_axes()))
        self._operations(block)
        self.emit.held, self._scope = outside
        for result, sharding in zip(op.results, region.out_shardings, strict=True):
            self._place(result, sharding)
        self._regions.append(op)
        if outermost:
            self._diverging = None

    def _written(self, op: Operation) -> None:
        """Keep a collective that the user wrote, on a channel of its own; groups of one device send nothing."""
        ragged = is_ragged(op)
        if AXES in op.attributes and not required_text(op.attributes, AXES):
            self._point(op)
            op.replace([as_equal_shares(self.emit, op)] if ragged else op.operands)
        elif not ragged:  # those share one channel, as JAX writes them
            op.attributes["channel_handle"] = self.emit.next_channel()

    def _point(self, op: Operation) -> None:
        self.emit.point = Point.at(op)
        self.emit.location = op.location

    def _step(self, op: Operation) -> None:
        """Emit a step of a reshard."""
        operand = op.operands[0]
        before = self._of(operand)
        step = read_step(op, self.codec)
        after = step.after
        self._point(op)
        if 0 in before.type.shape:  # nothing to send
            value = self.emit.constant(local_type(before.type, after), "zero")
        else:
            with located(op):
                value = step.emit(self.emit, ShardedValue(before.type, before.sharding, operand), *_why(op))
            if value is operand:  # nothing was sent
                value = self.emit.alias(value)
        op.replace([value])
        if not after.is_replicated():
            self.placed[value] = ShardedType(before.type, after)

    def _compute(self, op: Operation, definition: OpDef, shardings: tuple[TensorSharding, ...] | None) -> None:
        """Localize an operation whose local form may be more than the same operation on smaller types."""
        operands = [self._of(value) for value in op.operands]
        if shardings is None:
            if definition.replicable and all(placed.sharding.is_replicated() for placed in operands):
                return
            shardings = tuple(self._of(value).sharding for value in op.results)
        info = self._infos(op, tuple(placed.type for placed in operands), scope=self._scope)
        rule = self.rules.rules[self.rules.of_op(info, op)]
        results = list(op.results)
        self._point(op)
        with located(op):
            assert definition.localize is not None
            local = LocalOp(op, info, rule, tuple(p.sharding for p in operands), shardings, self.emit)
            if not definition.traits.effects and all(0 in type_.shape for type_ in info.results):
                local.replace([self.emit.nothing(local.local_result(i)) for i in range(len(results))])
            else:
                self.emit.also = host_computation(op)
                definition.localize(local)
                self.emit.also = {}
        values: Sequence[Value | None] = results if local.replaced is None else local.replaced
        for value, type_, sharding in zip(values, info.results, shardings, strict=True):
            if value is not None and not sharding.is_replicated():
                self.placed[value] = ShardedType(type_, sharding)


def _why(op: Operation) -> tuple[Cause, str]:
    """The cause of a step, and its combiner."""
    attributes = op.attributes
    text = required_text(attributes, CAUSE) if CAUSE in attributes else "written by the user"
    combiner = required_text(attributes, COMBINER) if COMBINER in attributes else "add"
    return Cause(text, op.location), combiner

"""The values, slots and operations of @main, numbered.

A slot is a set of values that share one sharding: most have a single value, a loop variable has several. Every use of a
constant, an iota or a broadcast scalar is a separate slot (see transforms/propagate).
"""

from __future__ import annotations

import dataclasses
import functools

from gspmd.dialect.sdy_attrs import read_manual_axes
from gspmd.transforms.ir import operations
from gspmd.transforms.ir.modules import codec_of, main_function
from gspmd.transforms.ir.op_info import BROADCAST, CONSTANT, ManualScope, OpInfo, infos_of
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType

WHILE, BARRIER = "stablehlo.while", "stablehlo.optimization_barrier"
COMPOSITE = "stablehlo.composite"
CALLS = ("func.call", COMPOSITE)
CONTROL_FLOW = frozenset({WHILE, "stablehlo.case", "stablehlo.if"})
MANUAL = "sdy.manual_computation"
ENDS = frozenset({"func.return", "sdy.return", "stablehlo.return"})
"""What ends a block."""
SPLITTABLE = frozenset({CONSTANT, "stablehlo.iota"})
CONSTRAINT = "sdy.sharding_constraint"
GROUP = "sdy.sharding_group"
PROPAGATION_BARRIER = "sdy.propagation_barrier"


@dataclasses.dataclass(slots=True, eq=False)
class Op:
    """An operation: its description, its operands and results, and their slots."""

    index: int
    ir: Operation
    info: OpInfo
    operands: list[int]
    results: list[int]
    operand_slots: list[int]
    result_slots: list[int]
    regions: list[Body]
    splittable: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Body:
    """A block of the function or of a region that Program reads; `returned` are the operands of its terminator."""

    ir: operations.Block
    arguments: list[int]
    terminator: Operation
    ops: list[Op] = dataclasses.field(default_factory=list)
    returned: list[int] = dataclasses.field(default_factory=list)
    returned_slots: list[int] = dataclasses.field(default_factory=list)


class Program:
    """The public @main of a module. Attributes:

    `body` (the function's block), `ops` (all, in order, those of nested blocks after their parent),
    `value_type`, `value_ir`, `value_def` (op index, -1 for block arguments) by value, `slot_type` by slot,
    `slot_value` (a value of that slot, for naming it).
    """

    def __init__(self, module: Operation) -> None:
        self.module = module
        self.ops: list[Op] = []
        self.value_type: list[TensorType] = []
        self.value_ir: list[Value] = []
        self.value_def: list[int] = []
        self.slot_type: list[TensorType] = []
        self.slot_value: list[int] = []
        self._slot_of: list[int] = []
        self._numbers: dict[Value, int] = {}
        self._infos = infos_of(module)
        # The manual axes around the current operation, and its manual scope.
        self._held: frozenset[str] = frozenset()
        self._scope = ManualScope.of(0, self._num_axes)
        self.function = main_function(module)
        self.body = self._read_block(self.function.regions[0], None)

    # ---- numbering ----

    def _new_slot(self, type_: TensorType, value: int) -> int:
        self.slot_type.append(type_)
        self.slot_value.append(value)
        return len(self.slot_type) - 1

    def _add_value(self, value: Value, definer: int, slot: int | None) -> int:
        number, type_ = len(self.value_type), value.type
        self._numbers[value] = number
        self.value_type.append(type_)
        self.value_ir.append(value)
        self.value_def.append(definer)
        self._slot_of.append(self._new_slot(type_, number) if slot is None else slot)
        return number

    def _use(self, value: int) -> int:
        """The slot of another use of a value."""
        definer = self.value_def[value]
        if definer >= 0 and self.ops[definer].splittable:
            return self._new_slot(self.value_type[value], value)
        return self._slot_of[value]

    def slot_of(self, value: int) -> int:
        return self._slot_of[value]

    # ---- reading ----

    def _read_block(self, block: operations.Block, argument_slots: list[int] | None) -> Body:
        arguments = []
        for index, argument in enumerate(block.arguments):
            slot = None if argument_slots is None else argument_slots[index]
            arguments.append(self._add_value(argument, -1, slot))
        last = block.terminator
        result = Body(block, arguments, last)
        result.ops = [self._read_op(op) for op in block if op is not last]
        result.returned = [self._numbers[v] for v in last.operands]
        result.returned_slots = [self._use(v) for v in result.returned]
        return result

    def _read_op(self, op: Operation) -> Op:
        name = op.name
        ops = self.ops
        operands = [self._numbers[v] for v in op.operands]
        if name == GROUP and self.value_def[operands[0]] >= 0:
            ops[self.value_def[operands[0]]].splittable = False  # the group concerns the value, not one use
        control = name in CONTROL_FLOW or name == MANUAL
        info = self._infos(op, tuple([value.type for value in op.operands]), not control, self._scope)
        node = Op(len(ops), op, info, operands, [], [self._use(v) for v in operands], [], [])
        node.splittable = name in SPLITTABLE or (name == BROADCAST and self._is_scalar_constant(operands[0]))
        ops.append(node)
        for value in op.results:
            number = self._add_value(value, node.index, None)
            node.results.append(number)
            node.result_slots.append(self._slot_of[number])
        if control:
            slots, outside = node.result_slots if name == WHILE else None, (self._held, self._scope)
            if name == MANUAL:
                self._held = self._held.union(read_manual_axes(op.attributes["manual_axes"]))
                self._scope = ManualScope.of(len(self._held), self._num_axes)
            node.regions = [self._read_block(r, slots) for r in op.regions]
            self._held, self._scope = outside
        return node

    @functools.cached_property
    def _num_axes(self) -> int:
        """The number of mesh axes with several devices; after ingest, no others are manual."""
        return max((len(mesh.all_axes()) for mesh in codec_of(self.module).meshes.values()), default=1)

    def _is_scalar_constant(self, value: int) -> bool:
        definer = self.value_def[value]
        return definer >= 0 and not self.value_type[value].shape and self.ops[definer].splittable

    # ---- walking ----

    def blocks(self) -> list[Body]:
        """Every block, parents first."""
        found = [self.body]
        for op in self.ops:
            found.extend(op.regions)
        return found

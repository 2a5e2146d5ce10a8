"""From global to per-device types, one operation after the other."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.localize.collectives import COLLECTIVES, Collective
from gspmd.transforms.support.annotated import AnnotatedProgram
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.local_op import LocalOp, local_type
from gspmd.transforms.support.mlir import located
from gspmd.transforms.support.op_info import TensorType
from gspmd.transforms.support.program import Block, Op
from gspmd.transforms.support.rules import RuleBook

TYPED_ONLY = frozenset({"stablehlo.optimization_barrier", "stablehlo.while", "stablehlo.case", "stablehlo.if"})


class Localizer:
    """Rewrites the program in place; a value's type is changed before its users are looked at."""

    def __init__(self, annotated: AnnotatedProgram, rules: RuleBook, emit: Emitter) -> None:
        self.annotated = annotated
        self.program = annotated.program
        self.rules = rules
        self.emit = emit
        self.sharding: list[TensorSharding] = [None] * len(self.program.value_ir)  # type: ignore[list-item]
        self._whole: dict[int, TensorSharding] = {}
        self._local: dict[tuple[TensorType, TensorSharding], Any] = {}

    def run(self) -> None:
        body = self.program.body
        for value, sharding in zip(body.arguments, self.annotated.arguments, strict=True):
            self._set(value, sharding or self._replicated(self.program.value_type[value]))
        # Index computations go before everything, in the order they are first needed.
        self._block(body)
        inputs = [argument.type for argument in body.ir.arguments]
        outputs = [value.type for value in body.terminator.operands]
        function_type = ir.FunctionType.get(inputs, outputs, self.emit.context)
        self.program.function.attributes["function_type"] = ir.TypeAttr.get(function_type, self.emit.context)

    def _replicated(self, type_: TensorType) -> TensorSharding:
        rank = len(type_.shape)
        found = self._whole.get(rank)
        if found is None:
            found = self._whole[rank] = replicated(self.annotated.mesh, rank)
        return found

    def _set(self, value: int, sharding: TensorSharding) -> None:
        """Give a value its per-device type."""
        self.sharding[value] = sharding
        type_ = self.program.value_type[value]
        key = (type_, sharding)
        local = self._local.get(key)
        if local is None:
            whole = not type_.shape or not any(dim.axes for dim in sharding.dims)
            local = False if whole else self.emit.mlir_type(local_type(type_, sharding))
            self._local[key] = local
        if local is not False:
            self.program.value_ir[value].set_type(local)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        name = op.info.name
        given = self.annotated.of_op(op)
        if given is not None and "sdy.sharding" in op.ir.attributes:
            del op.ir.attributes["sdy.sharding"]
        shardings = given or tuple([self._replicated(t) for t in op.info.results])
        if name in COLLECTIVES:
            self._collective(op)
        elif name in TYPED_ONLY:
            for value, sharding in zip(op.results, shardings, strict=True):
                self._set(value, sharding)
            for region in op.regions:
                for value, sharding in zip(region.arguments, shardings, strict=False):
                    self._set(value, sharding)
                self._block(region)
        else:
            self._compute(op, given, shardings)

    def _collective(self, op: Op) -> None:
        after = self.annotated.codec.read(op.ir.attributes["out_sharding"])
        self._point(op)
        collective = Collective(
            op.ir, op.info.results[0], self.sharding[op.operands[0]], after, op.ir.operands[0], self.emit
        )
        value = COLLECTIVES[op.info.name](collective)
        self.sharding[op.results[0]] = after
        op.ir.results[0].replace_all_uses_with(value)
        op.ir.erase()

    def _point(self, op: Op) -> None:
        self.emit.point = ir.InsertionPoint(op.ir)
        self.emit.location = op.ir.location

    def _compute(self, op: Op, given: tuple[TensorSharding, ...] | None, shardings: tuple[TensorSharding, ...]) -> None:
        definition = self.rules.definition(op.info)
        if definition is None or definition.localize is None:
            for value, sharding in zip(op.results, shardings, strict=True):
                self._set(value, sharding)
            return
        operands = tuple([self.sharding[v] for v in op.operands])
        for value, sharding in zip(op.results, shardings, strict=True):
            self.sharding[value] = sharding
        if given is None and all(s.is_replicated() for s in operands):
            return
        self._point(op)
        rule = self.rules.rules[self.rules.of_op(op)]
        with located(op.ir):
            definition.localize(LocalOp(op.ir, op.info, rule, operands, shardings, self.emit))

"""Write the decision into the program."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import NOT_TAKEN, RUNS, THROUGH
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.problem import DirectValue, ProblemBuilder
from gspmd.transforms.decide.value_table import ChangedValue, Consumer


def write(builder: ProblemBuilder, states: list[int]) -> list[ChangedValue]:
    """Write the shardings of values and `gspmd.runs` of operations; returns the values whose sharding changed."""
    values, decided = builder.values, shardings(builder, states)
    before = {value: values.sharding[value] for value in decided}
    for value, sharding in decided.items():
        values.sharding[value] = sharding
    returned = {
        value: builder.domains.table(value).sharding(
            builder.returned_placement(value, states[builder.variable_of[value]])
        )
        for value in values.returned_unannotated
        if value in builder.variable_of
    }
    changed = values.write(before, returned)
    not_taken = _not_taken(builder, states)
    program, unit = values.program, ir.UnitAttr.get(values.annotated.codec.context)
    for constraint in not_taken:
        program.ops[program.value_def[constraint]].ir.attributes[NOT_TAKEN] = unit
    _write_strategies(builder, states, not_taken)
    return changed


def shardings(builder: ProblemBuilder, states: list[int]) -> dict[int, TensorSharding]:
    """The decided shardings of values."""
    decided = {value: _sharding(builder, value, states[variable]) for value, variable in builder.variable_of.items()}
    return decided | {
        value: _direct_sharding(builder, states, value, direct) for value, direct in builder.direct.items()
    }


def _sharding(builder: ProblemBuilder, value: int, state: int) -> TensorSharding:
    domain = builder.domains.of(value)
    return domain.table.sharding(int(domain.numbers[state]))


def _direct_sharding(builder: ProblemBuilder, states: list[int], value: int, direct: DirectValue) -> TensorSharding:
    """The sharding of a value with one producer and one consumer: as produced; if that is partial, as needed."""
    table = builder.domains.table(value)
    made, needed = (
        int(builder.class_of[op.index].tensors[tensor].numbers[states[builder.op_variable[op.index]]])
        for op, tensor in ((direct.producer, direct.result), (direct.consumer, direct.operand))
    )
    return table.sharding(needed if table.partial[made] else made)


def _not_taken(builder: ProblemBuilder, states: list[int]) -> set[int]:
    """The results of optional constraints that are not used."""
    return {
        constraint
        for value, constraints in builder.values.optional.items()
        for number, constraint in enumerate(constraints)
        if not builder.is_taken(value, number, states)
    }


def _write_strategies(builder: ProblemBuilder, states: list[int], not_taken: set[int]) -> None:
    """Write `gspmd.runs` on operations that run with other shardings than those of their values."""
    values, codec = builder.values, builder.values.annotated.codec

    def at(value: int) -> TensorSharding:
        while value in not_taken:
            value = values.constraint_uses[value].value
        return values.at(value)

    for consumer in values.consumers.values():
        op = consumer.op
        assert op is not None, "it is an operation"
        strategies, state = builder.class_of[op.index], states[builder.op_variable[op.index]]
        tensors, runs = (*op.operands, *op.results), builder.shardings_of(op, state)
        is_as_values_are = all(each == at(value) for each, value in zip(runs, tensors, strict=True))
        if not is_as_values_are or strategies.moves_inside[state] or any(each.unreduced for each in runs):
            op.ir.attributes[RUNS] = codec.write_list(runs)
            through = tuple(
                [
                    _through(builder, states, consumer, value, (at(value), needed))
                    for value, needed in zip(op.operands, runs, strict=False)
                ]
            )
            if any(copy is not None for copy in through):
                made = [copy or at(value) for copy, value in zip(through, op.operands, strict=True)]
                op.ir.attributes[THROUGH] = codec.write_list(tuple(made))


def _through(
    builder: ProblemBuilder,
    states: list[int],
    consumer: Consumer,
    value: int,
    ends: tuple[TensorSharding, TensorSharding],
) -> TensorSharding | None:
    """The common placement of an operand for several consumers, if this operation reads it from there."""
    copy = builder.copy(builder.source(value, consumer.order).value, states)
    if copy is None:
        return None
    table = builder.domains.table(value)
    lies, needed = map(table.number, ends)
    sources = np.array([lies, copy])
    from_value_s, from_copy_s = builder.prices.moves(builder.types[value], table, sources, np.array([needed]))[:, 0]
    return table.sharding(copy) if copy != needed and from_copy_s < from_value_s else None

"""Partitions a function of one operation by hand-picked axes per factor, and runs both forms.

Every shard's padding is filled with the worst there is (NaN, the largest and smallest integers), and every
device's copy of every shard is compared.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, canonical, size_of, take
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.placement import FactorAxes, tensor_axes
from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.runtime import executable as runtime
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Point
from gspmd.transforms.ir.program import Op, Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, ValueSignature, write_signature
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.writing import write_module
from gspmd.transforms.ops import OPS
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.repairs.xla_repairs import repair

MESHES = {
    "8": Mesh((("x", 8),)),
    "4x2": Mesh((("x", 4), ("y", 2))),
    "2x2x2": Mesh((("x", 2), ("y", 2), ("z", 2))),
    "3": Mesh((("x", 3),)),
    "3x2": Mesh((("x", 3), ("y", 2)), (4, 1, 3, 0, 5, 2)),
}

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Split:
    """How the tensors of the operation are split; results are partial over `reduced`."""

    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    reduced: Axes


def read(text: str) -> Program:
    """The program of a function with one operation."""
    program = Program(model_of(parse_module(text, new_context())))
    assert len(program.body.ops) == 1, "expected one operation"
    return program


def rule_of(text: str) -> OpShardingRule:
    (op,) = read(text).body.ops
    return OPS[op.info.name].rule(op.info)


def rules_of(text: str) -> tuple[OpShardingRule, ...]:
    """The rule that propagation goes by, and all others that an operation may run by."""
    (op,) = read(text).body.ops
    definition = OPS[op.info.name]
    return (definition.rule(op.info), *(definition.others(op.info) if definition.others else ()))


def split_of(rule: OpShardingRule, mesh: Mesh, axes: FactorAxes) -> Split:
    reduced = canonical(mesh.sorted(tuple(a for f, mine in axes.items() if rule.kinds[f] is REDUCTION for a in mine)))
    made = []
    for tensor, mapping in enumerate(rule.tensors):
        dims = tensor_axes(rule, tensor, axes)
        assert dims is not None
        unreduced = reduced if tensor >= len(rule.operands) else ()
        made.append(replicated(mesh, len(mapping)).with_axes(dims, unreduced))
    count = len(rule.operands)
    return Split(tuple(made[:count]), tuple(made[count:]), reduced)


def assignments(rule: OpShardingRule, mesh: Mesh, count: int, seed: int) -> Iterator[FactorAxes]:
    """Choices of axes for the factors that can be split: each factor alone, then `count` at random."""
    able = [f for f, kind in enumerate(rule.kinds) if kind is not NEED_REPLICATION and rule.sizes[f] > 1]

    def fits(factor: int, axes: Axes) -> bool:
        return factor not in rule.even or rule.sizes[factor] % size_of(axes) == 0

    for factor in able:
        alone = _with_major(rule, factor, mesh.all_axes())
        if alone and fits(factor, alone[factor]) and _writable(rule, alone):
            yield alone
    rng = random.Random(seed)
    for _ in range(count):
        chosen: FactorAxes = {}
        order = list(mesh.all_axes())
        rng.shuffle(order)
        for axis in order:
            halve = axis.size % 2 == 0 and axis.size > 2 and rng.random() < 0.5
            parts = axis.split(2) if halve else (axis,)
            for part in parts:
                factor = rng.choice(able) if able and rng.random() < 0.9 else None
                if factor is not None:
                    joined = canonical((*chosen.get(factor, ()), part))
                    if fits(factor, joined):
                        chosen[factor] = joined
        while not _writable(rule, chosen):
            chosen.popitem()
        yield chosen


def _with_major(rule: OpShardingRule, factor: int, axes: Axes) -> FactorAxes | None:
    """All axes for a factor but those that complete what is major to it in its dimensions; None if too few."""
    found: FactorAxes = {}
    for dim in (dim for mapping in rule.tensors for dim in mapping if factor in dim):
        for major in dim[: dim.index(factor)]:
            if major not in found:
                found[major], axes = take(axes, rule.sizes[major])
    return {**found, factor: axes} if axes else None


def _writable(rule: OpShardingRule, axes: FactorAxes) -> bool:
    return all(tensor_axes(rule, tensor, axes) is not None for tensor in range(len(rule.tensors)))


def partition(text: str, mesh: Mesh, axes: FactorAxes, rule: OpShardingRule | None = None) -> str:
    """The per-device module of a function whose only operation is split so, by its first rule unless one is given."""
    context = new_context()
    module = parse_module(text, context)
    program = Program(model_of(module))
    with context, ir.Location.unknown():
        (op,) = program.body.ops
        rule = rule or OPS[op.info.name].rule(op.info)
        split = split_of(rule, mesh, axes)
        values = [_signature_of(t, s) for t, s in zip(op.info.operands, split.operands, strict=True)]
        results = [
            _signature_of(t, s.with_axes(s.dim_axes())) for t, s in zip(op.info.results, split.results, strict=True)
        ]
        _rewrite(program, op, rule, split, mesh)
        repair(program.module)
        write_signature(program.module, Signature(mesh, tuple(values), tuple(results)))
        write_module(program.module, module)
        module.operation.verify()
        return str(module)


def _signature_of(type_: TensorType, sharding: TensorSharding) -> ValueSignature:
    return ValueSignature(type_.shape, type_.element, sharding)


def _rewrite(program: Program, op: Op, rule: OpShardingRule, split: Split, mesh: Mesh) -> None:
    emit = Emitter(context_of(program.module), mesh, program.body.ir)
    emit.location = op.ir.location
    emit.point = Point.at(op.ir)
    for value, sharding in zip(op.operands, split.operands, strict=True):
        type_ = program.value_type[value]
        program.value_ir[value].type = type_.of_shape(sharding.local_shape(type_.shape))
    local = LocalOp(op.ir, op.info, rule, split.operands, split.results, emit)
    localize = OPS[op.info.name].localize
    if localize:
        localize(local)
    else:
        local.keep()
    terminator = program.body.terminator
    emit.point = Point.at(terminator)
    for index, value in enumerate(list(terminator.operands)):
        assert value.type.shape == split.results[index].local_shape(op.info.results[index].shape)
        if split.reduced:
            cause = Cause("partial results", emit.location)
            terminator.operands[index] = emit.all_reduce(value, split.reduced, rule.combiner, cause)
    declare_types(program.function)


def check(text: str, inputs: Sequence[Array], mesh: Mesh, **options: Any) -> None:
    """`check_all` of one set of inputs."""
    check_all(text, [inputs], mesh, **options)


def check_all(
    text: str,
    cases: Sequence[Sequence[Array]],
    mesh: Mesh,
    *,
    count: int = 2,
    tolerance: float = 0.0,
    seed: int = 0,
    reference: Callable[..., Sequence[Array]] | None = None,
) -> None:
    """Partition a program in many ways, and compare what it computes with one device or with `reference`.

    Every factor is split alone, then `count` random combinations of factors are.

    Without a tolerance, results must be equal, signs of zeros included, except that a sum over devices may turn -0.0
    into 0.0: XLA's CPU collectives start from 0.0. Raises AssertionError for results that differ, or if no factor can
    be split.
    """
    if reference is None:
        single = runtime.compile_single(text)
        expected = [[value.to_numpy() for value in single(*inputs)] for inputs in cases]
    else:
        expected = [list(reference(*inputs)) for inputs in cases]
    seen: list[Split] = []
    for rule in rules_of(text):
        for axes in assignments(rule, mesh, count, seed):
            split = split_of(rule, mesh, axes)
            if split in seen:
                continue
            seen.append(split)
            module = partition(text, mesh, axes, rule)
            executable = runtime.compile(module, padding="nan")
            signs = not tolerance and reference is None and not (rule.combiner == "add" and split.reduced)
            for inputs, wanted in zip(cases, expected, strict=True):
                for want, result in zip(wanted, executable(*inputs), strict=True):
                    for shard in result.shards:
                        what = f"device {shard.partition}, factors {axes}\n{module}"
                        have, part = shard.to_numpy(), want[shard.index]
                        _compare(have, part, tolerance, what)
                        if signs:
                            _compare_signs(have, part, what)
    assert seen, "nothing can be split"


def _compare(have: Array, want: Array, tolerance: float, what: str) -> None:
    if tolerance:
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=what)
        return
    np.testing.assert_array_equal(have, want, err_msg=what)


def _compare_signs(have: Array, want: Array, what: str) -> None:
    if want.dtype.kind == "f":
        assert np.all((np.signbit(have) == np.signbit(want)) | np.isnan(want)), f"sign of zero, {what}"

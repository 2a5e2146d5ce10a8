"""Operations that rename, permute, split or merge dimensions but compute nothing."""

from __future__ import annotations

import math

from gspmd.dialect.rule import NEED_REPLICATION, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def broadcast_rule(info: OpInfo) -> OpShardingRule:
    """Kept dimensions are shared; new and expanded ones exist in the result only.

    One that only adds dimensions of size 1 repeats nothing and is data movement, as a reshape is.
    """
    operand, result = info.operands[0].shape, info.results[0].shape
    stage = Stage.ELEMENTWISE if math.prod(operand) == math.prod(result) else Stage.BROADCAST
    dims = info.ints("broadcast_dimensions")
    builder = RuleBuilder([operand], [result], stage=stage)
    for dim, size in enumerate(result):
        source = dims.index(dim) if dim in dims else None
        if source is not None and operand[source] != size:
            source = None
        builder.factor([source], [dim], size)
    return builder.build()


def transpose_rule(info: OpInfo) -> OpShardingRule:
    operand = info.operands[0].shape
    builder = RuleBuilder([operand], [info.results[0].shape], stage=Stage.ELEMENTWISE)
    for dim, source in enumerate(info.ints("permutation")):
        builder.factor([source], [dim], operand[source])
    return builder.build()


def reshape_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The finest grouping of dimensions such that corresponding groups have equal products.

    Dimensions of size 1 belong to no group.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        left: list[int] = []
        right: list[int] = []
        n = m = 1
        while True:
            if n == m and left and right:
                break
            if n <= m and i < len(source):
                if source[i] != 1:
                    left.append(i)
                    n *= source[i]
                i += 1
            elif j < len(target):
                if target[j] != 1:
                    right.append(j)
                    m *= target[j]
                j += 1
            elif i < len(source):
                if source[i] != 1:
                    left.append(i)
                    n *= source[i]
                i += 1
            else:
                break
        if left or right:
            groups.append((left, right))
    return groups


def reshape_rule(info: OpInfo) -> OpShardingRule:
    """Factors are the common refinement of both shapes, group by group.

    A group of one dimension each is one factor, uneven shards allowed. Otherwise the group's dimensions are
    cut into the greatest common pieces, major to minor, which only split evenly.
    """
    source, target = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([source], [target], stage=Stage.ELEMENTWISE)
    if 0 in source:
        return builder.build()
    for left, right in reshape_groups(source, target):
        if len(left) == 1 and len(right) == 1:
            builder.factor([left[0]], [right[0]], source[left[0]])
            continue
        _refine(builder, [(d, source[d]) for d in left], [(d, target[d]) for d in right])
    return builder.build()


def _refine(builder: RuleBuilder, left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    """Cut both sides into common factors, major to minor."""
    pieces: list[tuple[int, int, int]] = []
    left, right = list(left), list(right)
    while left and right:
        (i, n), (j, m) = left.pop(0), right.pop(0)
        common = math.gcd(n, m)
        if common == min(n, m):
            pieces.append((i, j, common))
            if n > common:
                left.insert(0, (i, n // common))
            if m > common:
                right.insert(0, (j, m // common))
            continue
        # Neither divides the other: only their greatest common major piece can be split, and what is
        # minor to it mixes both sides.
        if common > 1:
            pieces.append((i, j, common))
        _mixed(builder, pieces, [(i, n // common), *left], [(j, m // common), *right])
        return
    for i, j, size in pieces:
        builder.factor([i], [j], size, even=True)


def _mixed(
    builder: RuleBuilder,
    pieces: list[tuple[int, int, int]],
    left: list[tuple[int, int]],
    right: list[tuple[int, int]],
) -> None:
    for i, j, size in pieces:
        builder.factor([i], [j], size, even=True)
    for i, size in left:
        builder.factor([i], [None], size, NEED_REPLICATION)
    for j, size in right:
        builder.factor([None], [j], size, NEED_REPLICATION)


OPS = op_table(
    [
        OpDef("stablehlo.broadcast_in_dim", broadcast_rule),
        OpDef("stablehlo.transpose", transpose_rule),
        OpDef("stablehlo.reshape", reshape_rule),
    ]
)

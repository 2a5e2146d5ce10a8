"""Operations that rename, permute, split or merge dimensions: reshapes, transposes, broadcasts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Set

from gspmd.dialect.axes import size_of
from gspmd.dialect.rule import NEED_REPLICATION, PERMUTATION, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, redistribute
from gspmd.transforms.exchange.intervals import Exchange
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import MOVED, Fusion, Traits

# Up to so many groups of dimensions, every combination may move boundaries; with more, each alone and all together.
_MAX_COMBINED = 3


def broadcast_rule(info: OpInfo) -> OpShardingRule:
    """Kept dimensions pass through; new and expanded ones are only in the result.

    A broadcast that only adds dimensions of size 1 is data movement, like a reshape.
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
    """The finest grouping of dimensions in which corresponding groups have equal products.

    Dimensions of size 1 are in no group.
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

    A group of one dimension on each side is one factor, which may be uneven. Otherwise the dimensions of a group are
    cut into the greatest common factors, major to minor, which are only split evenly.
    """
    return _reshape_rule(info, frozenset())


def other_reshape_rules(info: OpInfo) -> tuple[OpShardingRule, ...]:
    """The rules by which regrouped dimensions may be split regardless of their sizes.

    In each rule, some groups of several dimensions are split along the most major dimensions of both sides, and
    elements that change their shard are sent.
    """
    groups = [n for n, (left, right) in enumerate(_groups(info)) if len(left) > 1 or len(right) > 1]
    most = len(groups) if len(groups) <= _MAX_COMBINED else 1
    chosen = [frozenset(some) for count in range(1, most + 1) for some in itertools.combinations(groups, count)]
    return tuple(
        _reshape_rule(info, some) for some in dict.fromkeys([*chosen, *([frozenset(groups)] if groups else [])])
    )


def iterated_reshape_rule(info: OpInfo, iterated: Set[int]) -> OpShardingRule | None:
    """The rule if a loop iterates over some result dimensions; None if it is the same.

    If these were split, each iteration would run on one device. So if a dimension becomes an iterated one and others,
    its axes go to the others, and the elements of each iteration are distributed once.
    """
    chosen = frozenset(
        n for n, (left, right) in enumerate(_groups(info)) if len(left) == 1 < len(right) and right[0] in iterated
    )
    return _reshape_rule(info, frozenset(), chosen) if chosen else None


def _groups(info: OpInfo) -> list[tuple[list[int], list[int]]]:
    source, target = info.operands[0].shape, info.results[0].shape
    return [] if 0 in source else reshape_groups(source, target)


def _reshape_rule(info: OpInfo, moved: frozenset[int], last: frozenset[int] = frozenset()) -> OpShardingRule:
    """The rule of a reshape, by groups of dimensions.

    In the groups `moved`, the most major dimensions of both sides are one factor. In the groups `last`, the most major
    dimension of the result is split last.
    """
    source, target = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([source], [target], stage=Stage.ELEMENTWISE)
    for number, (left, right) in enumerate(_groups(info)):
        if len(left) == 1 and len(right) == 1:
            builder.factor([left[0]], [right[0]], source[left[0]])
        elif number in moved:
            builder.factor([left[0]], [right[0]], max(source[left[0]], target[right[0]]), PERMUTATION)
        else:
            order = [*right[1:], right[0]] if number in last else right
            _refine(builder, [(d, source[d]) for d in left], [(d, target[d]) for d in order])
    return builder.build()


def _moves(info: OpInfo, operand: TensorSharding, result: TensorSharding) -> Iterator[tuple[int, Exchange]]:
    """The groups whose shard boundaries move in the reshape, each as one flat dimension, with their exchange."""
    for number, (left, right) in enumerate(_groups(info)):
        axes = operand.dims[left[0]].axes
        count, major = size_of(axes), (info.operands[0].shape[left[0]], info.results[0].shape[right[0]])
        if axes != result.dims[right[0]].axes or len(left) + len(right) == 2 or not any(n % count for n in major):
            continue
        size = math.prod(info.operands[0].shape[d] for d in left)
        before, after = (-(-n // count) * (size // n) for n in major)
        yield number, Windows(size, 0, after, after).exchange(count, before)


def localize_reshape(op: LocalOp) -> None:
    """The reshape of local shapes, after every group has the elements of this device's shard of the result."""
    moves = list(_moves(op.info, op.operand_shardings[0], op.result_shardings[0]))
    if not moves:
        op.keep()
        return
    groups, local = _groups(op.info), op.local_operand(0).shape
    value = op.emit.reshape(op.operands[0], [math.prod(local[d] for d in left) for left, _ in groups])
    cause = op.cause(f"'{op.info.name}' moves the boundaries of shards: elements that change their shard are sent")
    for number, exchange in moves:
        axes = op.operand_axes(0, groups[number][0][0])
        value = redistribute(op.emit, value, number, axes, axes, exchange, cause)
    op.replace([op.emit.reshape(value, op.local_result(0).shape)])


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
        # Neither divides the other: only their greatest common major factor can be split, and the rest
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
        OpDef(
            "stablehlo.broadcast_in_dim",
            broadcast_rule,
            traits=Traits(linear=((0,),), flops=MOVED, fusion=Fusion.WITH_ALL_USERS),
        ),
        OpDef(
            "stablehlo.transpose",
            transpose_rule,
            traits=Traits(rearranges=True, linear=((0,),), flops=MOVED, stays_on_host=True, fusion=Fusion.WITH_USER),
        ),
        OpDef(
            "stablehlo.reshape",
            reshape_rule,
            localize_reshape,
            others=other_reshape_rules,
            in_loops=iterated_reshape_rule,
            traits=Traits(rearranges=True, linear=((0,),), flops=MOVED, view=True, stays_on_host=True),
        ),
    ]
)

"""Conversion between the shardings of the tensors of an operation and the axes of its factors."""

from __future__ import annotations

from gspmd.dialect.axes import Axes, canonical, size_of, take
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding

FactorAxes = dict[int, Axes]


def factor_axes(rule: OpShardingRule, tensor: int, sharding: TensorSharding) -> FactorAxes:
    """The axes of each factor, from the sharding of a tensor.

    A compound dimension fills its factors major to minor, and splits an axis that is larger than the rest of a factor.
    An axis that does not fit a factor, and all after it, go to none.
    """
    found: FactorAxes = {}
    for dim, factors in zip(sharding.dims, rule.tensors[tensor], strict=True):
        axes = dim.axes
        for factor in factors[:-1]:
            if not axes:
                break
            taken, rest = take(axes, rule.sizes[factor])
            if taken:
                found[factor] = taken
            axes = rest if size_of(taken) == rule.sizes[factor] else ()
        if axes:
            found[factors[-1]] = axes
    return found


def tensor_axes(rule: OpShardingRule, tensor: int, axes: FactorAxes) -> tuple[Axes, ...] | None:
    """The axes of every dimension of a tensor when factors are split over `axes`.

    None if no sharding expresses this: a factor of a compound dimension is split although a more major one is not split
    completely.
    """
    dims = []
    for factors in rule.tensors[tensor]:
        joined: Axes = ()
        complete = True
        for factor in factors:
            mine = axes.get(factor, ())
            if mine and not complete:
                return None
            joined += mine
            complete = complete and size_of(mine) == rule.sizes[factor]
        dims.append(canonical(joined) if len(factors) > 1 else joined)
    return tuple(dims)

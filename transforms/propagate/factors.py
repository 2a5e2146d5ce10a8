"""One propagation step: axes spread over the tensors of one operation along its factors.

Pure functions of a rule and the shardings of the operation's tensors, so the solver can memoise them.
"""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.axes import Axes, Axis, canonical, common_prefix, remove_prefix, size_of, take
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, OpShardingRule, Stage
from gspmd.dialect.sharding import DimSharding, TensorSharding

# What takes part when. Source: arXiv 2105.04663, section 3.5.
LEVELS = (
    "elementwise operations and data movement",
    "dimensions that contractions and reductions pass through; broadcasts backward",
    "all dimensions",
    "broadcasts forward",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Activity:
    """What a rule may do at a level: which factors spread, from and to operands and results."""

    factors: frozenset[int]
    from_operands: bool
    from_results: bool


def activity(rule: OpShardingRule, level: int) -> Activity | None:
    """The rule's part in a level, None when it has to wait."""
    spreading = frozenset(
        f for f, kind in enumerate(rule.kinds) if kind is not NEED_REPLICATION and f not in rule.blocked
    )
    if rule.stage is Stage.ELEMENTWISE:
        return Activity(spreading, True, True)
    if level == 0:
        return None
    if rule.stage is Stage.BROADCAST:
        return Activity(spreading, level >= 3, True)
    if level == 1:
        return Activity(frozenset(f for f in spreading if rule.kinds[f] is PASS_THROUGH), True, True)
    return Activity(spreading, True, True)


def propagate(
    rule: OpShardingRule,
    shardings: tuple[TensorSharding, ...],
    sizes: tuple[int, ...],
    active: Activity,
    aggressive: bool,
) -> tuple[TensorSharding, ...]:
    """The shardings after one step; `sizes` are the tensors' element counts, larger ones win conflicts.

    Without `aggressive`, a factor whose tensors disagree, or whose axes another factor wants as well, only
    gets what is beyond dispute.
    """
    count = len(rule.operands)
    current = [factor_axes(rule, t, s) for t, s in enumerate(shardings)]
    sources = [t for t in range(len(shardings)) if (active.from_operands if t < count else active.from_results)]
    proposals: dict[int, tuple[Axes, int]] = {}
    for factor in sorted(active.factors):
        offers = [(current[t][factor], t) for t in sources if factor in current[t]]
        if offers:
            proposals[factor] = _agree(offers, sizes, aggressive)
    order = sorted(proposals, key=lambda f: (-sizes[proposals[f][1]], proposals[f][1], f))
    targets = range(len(shardings)) if active.from_operands else range(count)
    result = list(shardings)
    for t in targets:
        result[t] = _extend(rule, t, shardings[t], current[t], proposals, order, aggressive)
    return tuple(result)


def _agree(offers: list[tuple[Axes, int]], sizes: tuple[int, ...], aggressive: bool) -> tuple[Axes, int]:
    """The axes a factor should have, and the tensor they come from."""
    best, source = max(offers, key=lambda offer: (len(offer[0]), size_of(offer[0]), sizes[offer[1]], -offer[1]))
    if all(common_prefix(best, axes) == axes for axes, _ in offers):
        return best, source
    if aggressive:
        return max(offers, key=lambda offer: (sizes[offer[1]], size_of(offer[0]), -offer[1]))
    shared = best
    for axes, _ in offers:
        shared = common_prefix(shared, axes)
    return shared, source


def _extend(
    rule: OpShardingRule,
    tensor: int,
    sharding: TensorSharding,
    current: FactorAxes,
    proposals: dict[int, tuple[Axes, int]],
    order: list[int],
    aggressive: bool,
) -> TensorSharding:
    """Add the proposed axes to one tensor, as far as its dimensions are open and the axes free."""
    mapping = rule.tensors[tensor]
    place = {f: d for d, factors in enumerate(mapping) for f in factors}
    used = list(sharding.used_axes() + sharding.replicated)
    wanted = {f: proposals[f][0] for f in order if f in place}
    gained: FactorAxes = {}
    for factor in order:
        if factor not in place or not sharding.dims[place[factor]].is_open:
            continue
        have = current.get(factor, ())
        want = proposals[factor][0]
        if common_prefix(want, have) != have:
            continue
        new = remove_prefix(want, have)
        blocked = list(used)
        if not aggressive:
            blocked += [a for f, axes in wanted.items() if f != factor for a in remove_common(axes, current.get(f, ()))]
        allowed = _free_prefix(new, blocked)
        if factor in rule.even or len(mapping[place[factor]]) > 1:
            room = rule.sizes[factor] // size_of(have) if rule.sizes[factor] % size_of(have) == 0 else 1
            allowed = take(allowed, room)[0]
        if allowed:
            gained[factor] = have + allowed
            used.extend(allowed)
    if not gained:
        return sharding
    dims = list(sharding.dims)
    for d, factors in enumerate(mapping):
        if any(f in gained for f in factors):
            axes = _join(rule, factors, current, gained)
            if axes is not None and size_of(axes) > size_of(dims[d].axes):
                dims[d] = DimSharding(axes, dims[d].is_open, dims[d].priority)
    return dataclasses.replace(sharding, dims=tuple(dims))


def remove_common(axes: Axes, prefix: Axes) -> Axes:
    """What `axes` has beyond what it shares with `prefix`."""
    return remove_prefix(axes, common_prefix(axes, prefix))


def _free_prefix(axes: Axes, used: list[Axis]) -> Axes:
    """The leading axes of which no part is used; of an axis used in part, its free major part."""
    free: list[Axis] = []
    for axis in axes:
        clash = [u for u in used if u.overlaps(axis)]
        if not clash:
            free.append(axis)
            continue
        first = min(u.pre for u in clash)
        if first > axis.pre and first % axis.pre == 0 and axis.size % (first // axis.pre) == 0:
            free.append(Axis(axis.name, axis.pre, first // axis.pre))
        break
    return tuple(free)


def _join(rule: OpShardingRule, factors: tuple[int, ...], current: FactorAxes, gained: FactorAxes) -> Axes | None:
    """The axes of a dimension from those of its factors: a factor only counts once all more major ones

    are split completely.
    """
    joined: list[Axis] = []
    for factor in factors:
        axes = gained.get(factor, current.get(factor, ()))
        joined.extend(axes)
        if size_of(axes) != rule.sizes[factor]:
            break
    return canonical(joined) if joined else None


def element_count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)

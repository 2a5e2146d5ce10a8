"""One propagation step: axes spread over the tensors of one operation along its factors.

Pure functions of a rule and the shardings of the operation's tensors, so the solver can memoise them.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import Axes, Axis, canonical, common_prefix, remove_prefix, size_of, take
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, Direction, OpShardingRule, Stage
from gspmd.dialect.sharding import DimSharding, TensorSharding

# The levels. Source: arXiv 2105.04663, section 3.5.
LEVELS = (
    "elementwise operations and data movement",
    "dimensions that contractions and reductions pass through; broadcasts backward",
    "all dimensions",
    "broadcasts forward",
)


@dataclasses.dataclass(frozen=True, slots=True)
class LevelPart:
    """The part of a rule in a level: the factors that spread, from and to operands and results."""

    factors: frozenset[int]
    from_operands: bool
    from_results: bool


def activity(rule: OpShardingRule, level: int) -> LevelPart | None:
    """The part of the rule in a level; None if it does not take part yet."""
    spreading = frozenset(
        f for f, kind in enumerate(rule.kinds) if kind is not NEED_REPLICATION and f not in rule.blocked
    )
    if rule.stage is Stage.ELEMENTWISE:
        return LevelPart(spreading, rule.direction is not Direction.BACKWARD, rule.direction is not Direction.FORWARD)
    if level == 0:
        return None
    if rule.stage is Stage.BROADCAST:
        return LevelPart(spreading, level >= 3, True)
    if level == 1:
        return LevelPart(frozenset(f for f in spreading if rule.kinds[f] is PASS_THROUGH), True, True)
    return LevelPart(spreading, True, True)


CONFLICTS = (
    "an earlier user priority before a later one, and what one level finds before what later levels find",
    "axes that no other dimension of the tensor wants and no other tensor contradicts",
    "the axes of the tensor with the most bytes, since moving the others costs less",
    "earlier operands before later ones and results, and major dimensions before minor ones",
)
"""The rules that settle conflicts, in this order. `gspmd-decide` reconsiders the result by cost."""


@dataclasses.dataclass(frozen=True, slots=True)
class StepResult:
    """The shardings of an operation's tensors after a step, and the inputs of the step.

    `contested` says whether the step left a conflict that an aggressive step would settle.
    """

    shardings: tuple[TensorSharding, ...]
    contested: bool


def propagate(
    rule: OpShardingRule,
    shardings: tuple[TensorSharding, ...],
    sizes: tuple[float, ...],
    active: LevelPart,
    aggressive: bool,
) -> StepResult:
    """One step; `sizes` are the tensors' bytes.

    An `aggressive` step settles conflicts as `CONFLICTS` says. Otherwise a factor gets only undisputed axes: those on
    which its tensors agree and which no other factor wants.
    """
    if rule.inference is not None:
        return StepResult(rule.inference(shardings), False)
    count = len(rule.operands)
    current = [factor_axes(rule, t, s) for t, s in enumerate(shardings)]
    sources = [t for t in range(len(shardings)) if (active.from_operands if t < count else active.from_results)]
    proposals: dict[int, tuple[Axes, int]] = {}
    contested = False
    for factor in sorted(active.factors):
        offers = [(current[t][factor], t) for t in sources if factor in current[t]]
        if offers:
            axes, source, disputed = _agree(offers, sizes, aggressive)
            proposals[factor] = (axes, source)
            contested |= disputed
    if not proposals:
        return StepResult(shardings, False)
    order = sorted(proposals, key=lambda f: (-sizes[proposals[f][1]], proposals[f][1], f))
    targets = range(len(shardings)) if active.from_operands else range(count)
    result = list(shardings)
    for t in targets:
        extension = _Extension(rule, t, shardings[t], current[t])
        result[t] = extension.extend(proposals, order, aggressive)
        contested |= extension.contested
    return StepResult(tuple(result), contested)


def _agree(offers: list[tuple[Axes, int]], sizes: tuple[float, ...], aggressive: bool) -> tuple[Axes, int, bool]:
    """The axes that a factor should have, their source tensor, and whether a dispute remains."""
    best, source = max(offers, key=lambda offer: (len(offer[0]), size_of(offer[0]), sizes[offer[1]], -offer[1]))
    if all(common_prefix(best, axes) == axes for axes, _ in offers):
        return best, source, False
    if aggressive:
        return *max(offers, key=lambda offer: (sizes[offer[1]], size_of(offer[0]), -offer[1])), False
    shared = best
    for axes, _ in offers:
        shared = common_prefix(shared, axes)
    return shared, source, True


class _Extension:
    """Adds proposed axes to a tensor, as far as its dimensions are open and the axes unused."""

    def __init__(self, rule: OpShardingRule, tensor: int, sharding: TensorSharding, current: FactorAxes) -> None:
        self.rule = rule
        self.mapping = rule.tensors[tensor]
        self.sharding = sharding
        self.current = current
        self.contested = False

    def extend(self, proposals: dict[int, tuple[Axes, int]], order: list[int], aggressive: bool) -> TensorSharding:
        sharding = self.sharding
        place = {f: d for d, factors in enumerate(self.mapping) for f in factors}
        used = list(sharding.used_axes() + sharding.replicated)
        wanted = {f: proposals[f][0] for f in order if f in place}
        gained: FactorAxes = {}
        for factor, want in wanted.items():
            have = self.current.get(factor, ())
            if want == have or not sharding.dims[place[factor]].is_open or common_prefix(want, have) != have:
                continue
            allowed = _free_prefix(remove_prefix(want, have), used)
            if not aggressive and len(wanted) > 1:
                rivals = [a for f, axes in wanted.items() if f != factor for a in self._new(f, axes)]
                undisputed = _free_prefix(allowed, rivals)
                self.contested |= undisputed != allowed
                allowed = undisputed
            if factor in self.rule.even or len(self.mapping[place[factor]]) > 1:
                size, split = self.rule.sizes[factor], size_of(have)
                allowed = take(allowed, size // split if size % split == 0 else 1)[0]
            if allowed:
                gained[factor] = have + allowed
                used.extend(allowed)
        return self._with(gained) if gained else sharding

    def _new(self, factor: int, axes: Axes) -> Axes:
        """The axes that the factor would gain."""
        return remove_prefix(axes, common_prefix(axes, self.current.get(factor, ())))

    def _with(self, gained: FactorAxes) -> TensorSharding:
        dims = list(self.sharding.dims)
        for d, factors in enumerate(self.mapping):
            if any(f in gained for f in factors):
                axes = self._join(factors, gained)
                if size_of(axes) > size_of(dims[d].axes):
                    dims[d] = DimSharding(axes, dims[d].is_open, dims[d].priority)
        return dataclasses.replace(self.sharding, dims=tuple(dims))

    def _join(self, factors: tuple[int, ...], gained: FactorAxes) -> Axes:
        """The axes of a dimension from those of its factors.

        A factor only counts once all more major ones are split completely.
        """
        joined: list[Axis] = []
        for factor in factors:
            axes = gained.get(factor, self.current.get(factor, ()))
            joined.extend(axes)
            if size_of(axes) != self.rule.sizes[factor]:
                break
        return canonical(joined)


def _free_prefix(axes: Axes, used: list[Axis]) -> Axes:
    """The leading axes that can be added to the used ones; for a partly used axis, its unused major part."""
    free: list[Axis] = []
    for axis in axes:
        if _fits(axis, used):
            free.append(axis)
            continue
        clash = [u.pre for u in used if u.overlaps(axis)]
        first = min(clash, default=axis.pre)
        if first > axis.pre and first % axis.pre == 0 and axis.size % (first // axis.pre) == 0:
            part = Axis(axis.name, axis.pre, first // axis.pre)
            if _fits(part, used):
                free.append(part)
        break
    return tuple(free)


def _fits(axis: Axis, used: list[Axis]) -> bool:
    """Whether the axis and the used ones can be in one sharding."""
    return not any(u.overlaps(axis) or not u.nests(axis) for u in used)

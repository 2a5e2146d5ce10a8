"""The sharding rule of an operation: which dimensions of its operands and results correspond.

A factor is an index of the operation's iteration space, as a letter is in Einstein notation:
dot_general is `([i, k], [k, j])->([i, j]) reduction={k}`. A dimension made of several factors (as in
a reshape) lists them major to minor. Splitting a factor over mesh axes splits every dimension that
carries it; the factor's kind says what that costs.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.sharding import TensorSharding


class FactorKind(enum.Enum):
    """The communication for a factor that is split over devices."""

    PASS_THROUGH = "pass-through"  # none: every device computes its shard
    REDUCTION = "reduction"  # each device computes a partial result, which must be reduced
    NEED_REPLICATION = "need_replication"  # it cannot be split
    PERMUTATION = "permutation"  # the local form of the operation communicates by itself


PASS_THROUGH = FactorKind.PASS_THROUGH
REDUCTION = FactorKind.REDUCTION
NEED_REPLICATION = FactorKind.NEED_REPLICATION
PERMUTATION = FactorKind.PERMUTATION


class Stage(enum.IntEnum):
    """The level at which propagation visits an operation: earlier levels win conflicts with later ones.

    Source: arXiv 2105.04663, section 3.5 (elementwise first, then contractions, broadcasts last).
    """

    ELEMENTWISE = 0
    CONTRACTION = 1
    BROADCAST = 2


class Direction(enum.Enum):
    """The directions in which propagation may pass an operation."""

    BOTH = "both"
    FORWARD = "forward"  # from operands to results
    BACKWARD = "backward"


DimFactors = tuple[int, ...]
Mapping = tuple[DimFactors, ...]
Inference = Callable[[tuple[TensorSharding, ...]], tuple[TensorSharding, ...]]
"""A function from the shardings of operands and results to the propagated ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class OpShardingRule:
    """Factors of an operation, by index.

    `sizes[f]` elements; `operands[i][d]` and `results[i][d]` list the factors of a dimension, major to
    minor, and `tensors` has both; `kinds[f]`; `combiner` is how partial results over reduction factors are combined
    (`add`, `mul`, `max`, `min`, `and`, `or`, `xor`); `blocked` factors are split where annotations agree but carry
    nothing from one tensor to another; `even` factors are only split over axes that divide them (their shards may not
    be padded); of `exchanged` ones the local form moves about everything, so that other dimensions may rather take the
    axes; `direction` is the one that elementwise operations carry axes in. An `inference` says what follows from the
    shardings of the tensors in place of the factors.

    Errors: AnnotationError when a dimension's factors do not multiply to its size, a factor is used
    nowhere or twice in a tensor, or a reduction factor occurs in a result.
    """

    sizes: tuple[int, ...]
    operands: tuple[Mapping, ...]
    results: tuple[Mapping, ...]
    kinds: tuple[FactorKind, ...]
    combiner: str = "add"
    stage: Stage = Stage.CONTRACTION
    blocked: frozenset[int] = frozenset()
    even: frozenset[int] = frozenset()
    direction: Direction = Direction.BOTH
    exchanged: frozenset[int] = frozenset()
    inference: Inference | None = None
    tensors: tuple[Mapping, ...] = dataclasses.field(init=False, repr=False, compare=False)
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        # Rules are keys of memo tables, so their hashes are computed once.
        object.__setattr__(self, "tensors", self.operands + self.results)
        key = (self.sizes, self.operands, self.results, self.kinds, self.combiner, self.stage, self.direction)
        object.__setattr__(self, "_hash", hash((*key, self.blocked, self.even, self.exchanged)))
        if len(self.kinds) != len(self.sizes):
            raise AnnotationError(f"rule has {len(self.sizes)} factors but {len(self.kinds)} kinds", code=Code.RULE)
        used = set()
        for tensor in self.operands + self.results:
            flat = [factor for dim in tensor for factor in dim]
            if len(set(flat)) != len(flat):
                raise AnnotationError("a factor is used twice in one tensor of the rule", code=Code.RULE)
            used.update(flat)
        for factor in range(len(self.sizes)):
            if factor not in used:
                raise AnnotationError(f"factor {factor_symbol(factor)} is used nowhere in the rule", code=Code.RULE)
        for tensor in self.results:
            for dim in tensor:
                for factor in dim:
                    if self.kinds[factor] is REDUCTION:
                        raise AnnotationError(
                            f"reduction factor {factor_symbol(factor)} occurs in a result of the rule", code=Code.RULE
                        )

    def without_units(self) -> OpShardingRule:
        """The rule without factors of size 1 in compound dimensions, which split nothing."""

        def split(mappings: tuple[Mapping, ...]) -> list[list[list[int]]]:
            return [[[f for f in dim if self.sizes[f] != 1] or list(dim[:1]) for dim in tensor] for tensor in mappings]

        operands, results = split(self.operands), split(self.results)
        kept = sorted({f for tensor in operands + results for dim in tensor for f in dim})
        number = {factor: index for index, factor in enumerate(kept)}

        def renumbered(mappings: list[list[list[int]]]) -> tuple[Mapping, ...]:
            return tuple(tuple(tuple(number[f] for f in dim) for dim in tensor) for tensor in mappings)

        def those(factors: frozenset[int]) -> frozenset[int]:
            return frozenset(number[f] for f in factors if f in number)

        return dataclasses.replace(
            self,
            sizes=tuple(self.sizes[f] for f in kept),
            operands=renumbered(operands),
            results=renumbered(results),
            kinds=tuple(self.kinds[f] for f in kept),
            blocked=those(self.blocked),
            even=those(self.even),
            exchanged=those(self.exchanged),
        )


def factor_symbol(factor: int) -> str:
    """i..z, then z_1, z_2 and so on, as Shardy prints them."""
    return chr(ord("i") + factor) if factor < 18 else f"z_{factor - 17}"


def print_rule(rule: OpShardingRule, custom: bool = False) -> str:
    """`([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}`."""

    def tensor(mapping: Mapping) -> str:
        return "[" + ", ".join("".join(map(factor_symbol, dim)) or "" for dim in mapping) + "]"

    def of_kind(kind: FactorKind) -> list[int]:
        return [f for f, k in enumerate(rule.kinds) if k is kind]

    text = (
        f"({', '.join(map(tensor, rule.operands))})->({', '.join(map(tensor, rule.results))}) "
        "{" + ", ".join(f"{factor_symbol(f)}={n}" for f, n in enumerate(rule.sizes)) + "}"
    )
    for word, factors in (
        ("reduction", of_kind(REDUCTION)),
        ("need_replication", of_kind(NEED_REPLICATION)),
        ("permutation", of_kind(PERMUTATION)),
        ("blocked_propagation", sorted(rule.blocked)),
    ):
        if factors:
            text += f" {word}={{{', '.join(map(factor_symbol, factors))}}}"
    return text + (", custom" if custom else "")


class RuleBuilder:
    """Collects the factors of an operation from the shapes of its tensors.

    A dimension of size 1 gets its own factor, which is never split, so rules need no special case.
    """

    def __init__(
        self,
        operand_shapes: Sequence[tuple[int, ...]],
        result_shapes: Sequence[tuple[int, ...]],
        *,
        stage: Stage = Stage.CONTRACTION,
        combiner: str = "add",
    ) -> None:
        self._shapes = [*operand_shapes, *result_shapes]
        self._operands = len(operand_shapes)
        self._dims: list[list[list[int]]] = [[[] for _ in shape] for shape in self._shapes]
        self._sizes: list[int] = []
        self._kinds: list[FactorKind] = []
        self._blocked: set[int] = set()
        self._even: set[int] = set()
        self._exchanged: set[int] = set()
        self._stage = stage
        self._combiner = combiner

    def factor(
        self,
        operand_dims: Sequence[int | None],
        result_dims: Sequence[int | None],
        size: int,
        kind: FactorKind = PASS_THROUGH,
        *,
        blocked: bool = False,
        even: bool = False,
        exchanged: bool = False,
    ) -> int:
        """Add a factor; each list names, tensor by tensor, the dimension that carries it or None.

        Several factors added to one dimension make it compound, in the order added (major first). What is
        reduced over nothing has no partial results: such a factor is whole on every device.
        """
        index = len(self._sizes)
        self._sizes.append(size)
        self._kinds.append(NEED_REPLICATION if kind is REDUCTION and size == 0 else kind)
        if blocked:
            self._blocked.add(index)
        if even:
            self._even.add(index)
        if exchanged:
            self._exchanged.add(index)
        for tensor, dim in enumerate((*operand_dims, *result_dims)):
            if dim is not None:
                self._dims[tensor][dim].append(index)
        return index

    def build(self) -> OpShardingRule:
        """The rule; dimensions without a factor cannot be split."""
        for tensor, shape in enumerate(self._shapes):
            for dim, size in enumerate(shape):
                if not self._dims[tensor][dim]:
                    self._dims[tensor][dim].append(len(self._sizes))
                    self._sizes.append(size)
                    self._kinds.append(NEED_REPLICATION)
        mappings = tuple(tuple(tuple(dim) for dim in dims) for dims in self._dims)
        for mapping, shape in zip(mappings, self._shapes, strict=True):
            for dim_index, (factors, size) in enumerate(zip(mapping, shape, strict=True)):
                covered = math.prod(self._sizes[f] for f in factors)
                if len(factors) > 1 and covered != size:
                    raise AnnotationError(
                        f"factors of dimension {dim_index} multiply to {covered}, expected {size}", code=Code.RULE
                    )
        return OpShardingRule(
            tuple(self._sizes),
            mappings[: self._operands],
            mappings[self._operands :],
            tuple(self._kinds),
            self._combiner,
            self._stage,
            frozenset(self._blocked),
            frozenset(self._even),
            exchanged=frozenset(self._exchanged),
        )

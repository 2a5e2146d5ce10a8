"""Strict mode: a program with reshards that no annotation requires is refused, with a list of all of them.

Sharding constraints, manual computations and the shardings of the program's results require reshards, and partial
results require their reduction. All other reshards of operands and results follow from propagation and the decision.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import SourceLocation, Unsupported
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step import REDUCTIONS, ReshardStep
from gspmd.transforms.ir.operations import Location
from gspmd.transforms.ir.program import CONSTRAINT, MANUAL
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.paths.traffic import sent_by_step

_REQUIRING = frozenset({CONSTRAINT, MANUAL, "func.return", "sdy.return"})


@dataclasses.dataclass(frozen=True, slots=True)
class ValueMove:
    """A reshard by `steps` of a value of type `type_` and sharding `source`, for the operation `user`.

    `cause` is the reason; a `{to}` at its end stands for the resulting sharding.
    """

    user: str
    location: Location
    type_: TensorType
    source: TensorSharding
    steps: tuple[ReshardStep, ...]
    cause: str

    @property
    def reason(self) -> str:
        return reason_for(self.cause, self.steps[-1].after)


def reason_for(cause: str, reached: TensorSharding) -> str:
    """A cause with its `{to}` replaced. Only the one at the end, because an axis may have that name, too."""
    return cause.removesuffix("{to}") + print_dims(reached) if cause.endswith("{to}") else cause


@dataclasses.dataclass(frozen=True, slots=True)
class ForbiddenReshard:
    """A reshard that strict mode refuses: its operation, its shardings before and after, and its cause.

    `kinds` are its collectives, `bytes` what a device sends each time it runs. Shardings are in Shardy's notation,
    without the mesh.
    """

    operation: str
    location: SourceLocation | None
    type: str
    source: str
    target: str
    kinds: tuple[str, ...]
    bytes: int
    cause: str

    def __str__(self) -> str:
        kinds = ", ".join(self.kinds)
        sends = f"sends {self.bytes} bytes ({kinds})"
        return f"reshard of {self.type} from {self.source} to {self.target} {sends}: {self.cause}"


class ReshardError(Unsupported):
    """A program refused by strict mode; `reshards` are all refused ones, the largest first."""

    usual_code = Code.RESHARD

    def __init__(self, reshards: tuple[ForbiddenReshard, ...], allowed_bytes: int) -> None:
        first, *rest = reshards
        limit = f" that sends more than {allowed_bytes} bytes" if allowed_bytes else ""
        super().__init__(
            f"{first}; strict mode allows no reshard{limit}, the program has {len(reshards)}",
            op=first.operation,
            location=first.location,
            hint="annotate the value with this sharding (see gspmd explain --conflicts --hints), or allow more bytes",
        )
        self.reshards = reshards
        self.others = tuple(
            Unsupported(str(each), op=each.operation, location=each.location, code=Code.RESHARD) for each in rest
        )


def check_strict(moves: Iterable[ValueMove], allowed_bytes: int) -> None:
    """Raise ReshardError if a device sends more than `allowed_bytes` for any reshard that no annotation requires."""
    found = [reshard for reshard in _forbidden(moves) if reshard.bytes > allowed_bytes]
    if found:
        raise ReshardError(tuple(sorted(found, key=lambda reshard: -reshard.bytes)), allowed_bytes)


def _forbidden(moves: Iterable[ValueMove]) -> Iterator[ForbiddenReshard]:
    for move in moves:
        sent = list(_sent(move))
        if move.user in _REQUIRING or not sent:
            continue
        target = print_dims(move.steps[-1].after)
        yield ForbiddenReshard(
            move.user,
            source_location(move.location),
            move.type_.brief,
            print_dims(move.source),
            target,
            tuple(kind for kind, _ in sent),
            math.ceil(sum(count for _, count in sent)),
            move.reason,
        )


def _sent(move: ValueMove) -> Iterator[tuple[str, float]]:
    """The kinds and bytes of the steps, except those that reduce a partial value (also a decomposed all-reduce)."""
    reducing = {*REDUCTIONS, "all_gather"} if move.source.unreduced else REDUCTIONS
    for kind, sent in sent_by_step(move.type_, move.source, move.steps):
        if kind not in reducing:
            yield kind, sent

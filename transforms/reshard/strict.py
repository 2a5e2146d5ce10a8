"""Strict mode: a program that moves values which nobody asked to be moved is refused, with all of these moves.

Asked for is what a sharding constraint, a manual computation or the program's results say, and the reduction of
partial results. Everything else that a device sends to bring a value where an operation needs it is a reshard that
follows from how shardings were completed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

from gspmd.dialect.axes import size_of
from gspmd.dialect.errors import SourceLocation, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.reshard.planner import Step
from gspmd.transforms.support.blocks import all_to_all_moves
from gspmd.transforms.support.cost import sent_bytes
from gspmd.transforms.support.direct import changed_dims, direct_way
from gspmd.transforms.support.mlir import source_location
from gspmd.transforms.support.op_info import TensorType, element_bytes
from gspmd.transforms.support.program import CONSTRAINT, MANUAL

_ASKED_FOR = frozenset({CONSTRAINT, MANUAL, "func.return", "sdy.return"})
_NOT_MOVES = frozenset({"all_slice", "all_reduce", "reduce_scatter"})


@dataclasses.dataclass(frozen=True, slots=True)
class ValueMove:
    """A value of type `type_` brought from sharding `source` to where the operation `user` needs it, by `steps`.

    `cause` says why; `{to}` in it stands for the sharding that is reached.
    """

    user: str
    location: Any
    type_: TensorType
    source: TensorSharding
    steps: tuple[Step, ...]
    cause: str


@dataclasses.dataclass(frozen=True, slots=True)
class ForbiddenReshard:
    """A reshard that strict mode refuses: for which operation, from which sharding to which, and why.

    `kinds` are its collectives, `bytes` what a device sends each time it is done; shardings are in Shardy's notation,
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
    """A program refused by strict mode; `reshards` are all that it has, the largest first."""

    def __init__(self, reshards: tuple[ForbiddenReshard, ...], allowed_bytes: int) -> None:
        first, *rest = reshards
        limit = f" that sends more than {allowed_bytes} bytes" if allowed_bytes else ""
        super().__init__(
            f"{first}; strict mode allows no reshard{limit}, the program has {len(reshards)}",
            op=first.operation,
            location=first.location,
            hint="annotate the value as it is needed, allow more bytes, or see gspmd explain --conflicts",
        )
        self.reshards = reshards
        self.others = tuple(Unsupported(str(each), op=each.operation, location=each.location) for each in rest)


def check_strict(moves: Iterable[ValueMove], mesh: Mesh, allowed_bytes: int) -> None:
    """Raise ReshardError if a device sends more than `allowed_bytes` for any of the moves that nobody asked for."""
    found = [reshard for reshard in _forbidden(moves, mesh) if reshard.bytes > allowed_bytes]
    if found:
        raise ReshardError(tuple(sorted(found, key=lambda reshard: -reshard.bytes)), allowed_bytes)


def _forbidden(moves: Iterable[ValueMove], mesh: Mesh) -> Iterator[ForbiddenReshard]:
    for move in moves:
        sent = list(_sent(move, mesh))
        if move.user in _ASKED_FOR or not sent:
            continue
        target = print_dims(move.steps[-1].after)
        yield ForbiddenReshard(
            move.user,
            source_location(move.location),
            f"{move.type_.element}[{','.join(map(str, move.type_.shape))}]",
            print_dims(move.source),
            target,
            tuple(kind for kind, _ in sent),
            math.ceil(sum(count for _, count in sent)),
            move.cause.replace("{to}", target),
        )


def _sent(move: ValueMove, mesh: Mesh) -> Iterator[tuple[str, float]]:
    """Kind and bytes of the steps that move the value."""
    before = move.source
    for step in move.steps:
        if step.kind not in _NOT_MOVES:
            local = math.prod(before.local_shape(move.type_.shape)) * element_bytes(move.type_.element)
            if step.kind == "reshard":
                yield _resharded(move.type_, before, step.after)
            else:
                yield step.kind, sent_bytes(step.kind, local, _devices(step, mesh))
        before = step.after


def _resharded(type_: TensorType, before: TensorSharding, after: TensorSharding) -> tuple[str, float]:
    """What a direct exchange is made of, and the bytes that a device sends in it."""
    old, new, size = before.dim_axes(), after.dim_axes(), element_bytes(type_.element)
    if len(changed_dims(old, new)) > 1 and (moves := all_to_all_moves(old, new)):
        count = size_of(axis for axes, _, _ in moves for axis in axes)
        return "all_to_all", sent_bytes("all_to_all", math.prod(before.local_shape(type_.shape)) * size, count)
    way = direct_way(before.mesh, type_.shape, old, new, (*before.unreduced, *before.manual))
    return "collective_permute", size * way.sent if way else 0.0


def _devices(step: Step, mesh: Mesh) -> int:
    if step.kind == "all_gather":
        return math.prod(size_of(axes) for axes in step.dims)
    if step.kind == "all_to_all":
        return math.prod(size_of(axes) for axes, _, _ in step.moves)
    return mesh.size

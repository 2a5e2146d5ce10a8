"""Operations that compute their results and no more, and those of them whose results nothing uses."""

from __future__ import annotations

from gspmd.transforms.ir.op_info import CUSTOM_CALL, has_side_effect
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ops import traits_of


class PlainOps:
    """Which operations compute their results and no more, worked out once for each name.

    With `calls`, so do calls that have no side effects, as far as they say.
    """

    def __init__(self, calls: bool = True) -> None:
        self._calls = calls
        self._known: dict[str, bool] = {}  # by name, of operations without regions

    def has(self, op: Operation) -> bool:
        """Whether it computes its results and no more, and so does all that is inside."""
        name = op.name
        if name == CUSTOM_CALL:
            plain = self._calls and not has_side_effect(op.attributes)
        else:
            known = self._known.get(name)
            if known is None:
                traits = traits_of(name)
                known = self._known[name] = traits.pure and not traits.effects and not traits.communicates
            plain = known
        return plain and all(self.has(inner) for region in op.regions for inner in region)


def is_used(op: Operation) -> bool:
    """Whether something uses a result."""
    return any(result.is_used for result in op.results) if len(op.results) > 1 else op.results[0].is_used


def drop_unused(block: Block, plain: PlainOps) -> None:
    """Drop what computes something that nothing uses, in a block and in all that is inside."""
    last = block.last
    left = None if last is None else last.previous
    while left is not None:
        before = left.previous
        if left.results and not is_used(left) and plain.has(left):
            left.erase()
        else:
            for region in left.regions:
                drop_unused(region, plain)
        left = before

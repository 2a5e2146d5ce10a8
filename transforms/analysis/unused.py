"""Operations without side effects, and unused ones among them."""

from __future__ import annotations

from gspmd.transforms.ir.op_info import CUSTOM_CALL, has_side_effect
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ops import traits_of


class PlainOps:
    """The operations without side effects, computed once per name.

    With `calls`, this includes custom calls that declare no side effects.
    """

    def __init__(self, calls: bool = True) -> None:
        self._calls = calls
        self._known: dict[str, bool] = {}  # by name, of operations without regions

    def has(self, op: Operation) -> bool:
        """Whether neither the operation nor its regions have side effects."""
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
    """Whether a result has users."""
    return any(result.is_used for result in op.results) if len(op.results) > 1 else op.results[0].is_used


def drop_unused(block: Block, plain: PlainOps) -> None:
    """Erase unused operations without side effects, in a block and its regions."""
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

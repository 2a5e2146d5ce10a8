"""Layers that repeat are partitioned once.

A model's layers, unrolled, are the same operations again and again: forward, backward and in the update of what they
learn. `fold` takes all but some at each end out of a function, and `unfold` puts them back into what the passes made of
the rest, by what they made of the two in the middle.
"""

from gspmd.transforms.reroll.fold import KEPT, Fold, fold, mark_layers
from gspmd.transforms.reroll.unfold import Unlike, unfold

__all__ = ["KEPT", "Fold", "Unlike", "fold", "mark_layers", "unfold"]

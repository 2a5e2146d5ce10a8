"""Partition repeated layers once.

The unrolled layers of a model repeat the same operations: in the forward pass, the backward pass and the update of
parameters. `fold` removes all layers of a function except a few at each end. `unfold` inserts them again after the
passes, as copies of the two layers in the middle.
"""

from gspmd.transforms.reroll.fold import KEPT, Fold, fold, mark_layers
from gspmd.transforms.reroll.unfold import LayersDiffer, unfold

__all__ = ["KEPT", "Fold", "LayersDiffer", "fold", "mark_layers", "unfold"]

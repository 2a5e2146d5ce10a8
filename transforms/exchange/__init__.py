"""Exchanges: the messages between devices that have the elements of a value and devices that need them.

`intervals.py` computes the messages along one dimension. They are grouped into rounds in which every device sends and
receives at most one (an edge coloring of the graph of source and target shards), and each round is one permute.
`halo.py` implements an exchange in the cheapest way: margins of neighbors, rounds, or a gather and a slice. Slices,
pads, concatenations, rolls, reversals, uneven reshapes, windows, convolutions and uneven tiles are built on it. Offsets
that differ by device are computed if they are linear in the partition id, and otherwise read from a table.

Padding is not sent. The padding between the elements of a dilated dimension is created on the receiver, and shards that
are mostly padding are gathered by a sum, to which each device contributes its elements (`sparse_gather.py`).

`ReshardStep` (`step.py`) is one step of a reshard. The search chooses steps, `gspmd-reshard` writes each of them as one
`sdy` collective, and `gspmd-localize` emits it.
"""

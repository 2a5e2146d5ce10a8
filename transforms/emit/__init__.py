"""Building the per-device program: StableHLO operations, collectives, and building blocks that operations share.

`Emitter` builds operations; `CountingEmitter` has the same interface and records the kind, bytes and axes of every
collective instead. So there is no separate formula for the communication of a local form. It is built only over the
axes that split something, and the result is memoized. A strategy without a local form has no price and is not a
candidate.

A partial value has one more dimension (`partial_values.py`). A value that enters or leaves the program unreduced has a
leading dimension of summands between ingest and localization, split over the unreduced axes. It is summed where it
enters the program, and split into summands by a custom call where it leaves; at a manual computation it is the other
way round.

`indices.py` computes the starts of windows globally, with the limits of the specification, and then relative to the
start of each shard. `ragged_exchange.py` replaces ragged all-to-alls on platforms that lack them.
"""

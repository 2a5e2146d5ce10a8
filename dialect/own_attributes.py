"""The attributes and custom call targets of gspmd: the content and lifetime of each.

Names of attributes of other dialects are defined where they are used.
"""

from __future__ import annotations

PREFIX = "gspmd."
"""The common prefix; programs for PJRT clients have none of them."""

# ---- on collectives -------------------------------------------------------------------------------

AXES = "gspmd.axes"
"""The axes of a StableHLO collective, in the form of `print_axes`: from its creation (`gspmd-localize` and later
passes), or `gspmd-propagate` for those of users, into the partitioned module.
"""

CAUSE = "gspmd.cause"
"""The cause of a collective, a sentence: from `gspmd-reshard`, or its creation, into the partitioned module."""

COMBINER = "gspmd.combiner"
"""The reduction of a `sdy` collective, if it is not `add`: from `gspmd-reshard` to `gspmd-localize`."""

SOURCE_DEVICE_IDS = "gspmd.source_device_ids"
"""On a `sdy.reshard` between device orders, the device at each mesh position before it: from `gspmd-reshard` to
`gspmd-localize`.
"""

TARGET_DEVICE_IDS = "gspmd.target_device_ids"
"""With it, the device at each mesh position after it."""

# ---- on the module, its arguments and results -----------------------------------------------------

MESH = "gspmd.mesh"
"""On a partitioned module, its mesh, in the form of `print_mesh`: from `gspmd-localize` into the partitioned module."""

GLOBAL_TYPE = "gspmd.global_type"
"""The global type of an argument or result: from `gspmd-localize` into the partitioned module."""

SHARDING = "gspmd.sharding"
"""Its sharding over that mesh, in the form of `print_sharding`: from `gspmd-localize` into the partitioned module."""

NAME = "gspmd.name"
"""The name of an argument or result in the program: from the frontend into the partitioned module."""

DEVICE_IDS = "gspmd.device_ids"
"""The device at each mesh position for an argument or result with its own device order: from `gspmd-ingest` to
`gspmd-order`.
"""

EXCHANGED = "gspmd.exchanged"
"""With it: a reshard brings the value from or to that order: from `gspmd-reshard` to `gspmd-order`."""

UNREDUCED = "gspmd.unreduced"
"""The leading dimension of this argument or result counts summands: from `gspmd-ingest` to `gspmd-localize`."""

ANNOTATED = "gspmd.annotated"
"""The shardings of the results of this operation are those of the user: from `gspmd-ingest` to `gspmd-reshard`."""

FREE_ARGUMENTS = "gspmd.free_arguments"
"""On @main, the arguments without annotations: from `gspmd-propagate` to `gspmd-reshard`."""

FREE_RESULTS = "gspmd.free_results"
"""On @main, the results without annotations."""

# ---- on other operations --------------------------------------------------------------------------

LIKE = "gspmd.like"
"""The members of this `sdy.sharding_group` may differ, which `sdy` cannot express: from `gspmd-ingest` to
`gspmd-propagate`.
"""

REPEATED = "gspmd.repeated"
"""On a manual computation over fewer devices than the program has, `[copies, devices in the source]`: the device of the
full mesh for each. Within `gspmd-ingest`.
"""

IN_MIDDLE = "gspmd.in_middle"
"""On an operation of a repeated layer: the layer, its number there, and how many layers were folded into it. All layers
get the same decision. From their detection to `gspmd-decide`.
"""

GIVEN = "gspmd.given"
"""On a `sdy.sharding_constraint` with open dimensions, the sharding of the user, before propagation completed it: from
`gspmd-propagate` to `gspmd-decide`.
"""

DECIDED = "gspmd.decided"
"""On `@main`: the hardware and layout for which the decision was made: from `gspmd-decide` to `gspmd-reshard`."""

RUNS = "gspmd.runs"
"""The shardings with which an operation runs, if they differ from those of its operands and results: from
`gspmd-decide` to `gspmd-reshard`.
"""

THROUGH = "gspmd.through"
"""Intermediate shardings of the operands of an operation, shared with other consumers; for other operands their
shardings: from `gspmd-decide` to `gspmd-reshard`.
"""

NOT_TAKEN = "gspmd.not_taken"
"""On a `sdy.sharding_constraint`: its operand keeps its sharding: from `gspmd-decide` to `gspmd-reshard`."""

CALL_DEVICE = "gspmd.call_device"
"""The partition that runs a Python callback, if the program specifies one: from `gspmd-ingest` to `gspmd-localize`."""

JOINED_DIMENSION = "gspmd.dimension"
"""On `JOINED_SLICES`, the dimension that is sliced: from `gspmd-reshard` to `gspmd-localize`, as are the next two."""

JOINED_STARTS = "gspmd.starts"
"""The start of each slice."""

JOINED_LIMITS = "gspmd.limits"
"""The end of each slice."""

# ---- targets of custom calls ----------------------------------------------------------------------

TAKEN_APART = "gspmd.taken_apart"
"""A value as unspecified summands with a specified sum: from `gspmd-ingest` to `gspmd-localize`."""

SPLIT_BY_RULE = "gspmd.split_by_rule"
"""A call of `custom_partitioning` that is split only by its rule: within a search."""

JOINED_SLICES = "gspmd.joined_slices"
"""The slices `[start, limit)` of its operand along a dimension, one after the other. It is made where operand and
result are split alike along that dimension: from `gspmd-reshard` to `gspmd-localize`.
"""

"""The attributes and the targets of custom calls that are our own, by name: what each holds, and how long it lives.

Names of attributes of other dialects stand where they are used.
"""

from __future__ import annotations

PREFIX = "gspmd."
"""What all of these begin with: programs for clients of PJRT have none of them."""

# ---- on collectives -------------------------------------------------------------------------------

AXES = "gspmd.axes"
"""The axes that a collective of StableHLO runs over, as `print_axes` writes them: from where it is made
(`gspmd-localize` and later passes), or `gspmd-propagate` for those of users, into the partitioned module.
"""

CAUSE = "gspmd.cause"
"""Why a collective is there, a sentence: from `gspmd-reshard`, or where it is made, into the partitioned module."""

COMBINER = "gspmd.combiner"
"""What a `sdy` collective that reduces combines with, where that is not `add`: from `gspmd-reshard` to
`gspmd-localize`.
"""

SOURCE_DEVICE_IDS = "gspmd.source_device_ids"
"""On a `sdy.reshard` between device orders, the device at each mesh position before it: from `gspmd-reshard` to
`gspmd-localize`.
"""

TARGET_DEVICE_IDS = "gspmd.target_device_ids"
"""Beside it, the device at each mesh position after it."""

# ---- on the module, its arguments and results -----------------------------------------------------

MESH = "gspmd.mesh"
"""On a partitioned module, its mesh, as `print_mesh` writes it: from `gspmd-localize` into the partitioned module."""

GLOBAL_TYPE = "gspmd.global_type"
"""The type of a whole argument or result: from `gspmd-localize` into the partitioned module."""

SHARDING = "gspmd.sharding"
"""Its sharding over that mesh, as `print_sharding` writes it: from `gspmd-localize` into the partitioned module."""

NAME = "gspmd.name"
"""What the program calls an argument or result: from the frontend into the partitioned module."""

DEVICE_IDS = "gspmd.device_ids"
"""The device at each mesh position, where an argument or result has an order of its own: from `gspmd-ingest` to
`gspmd-order`.
"""

EXCHANGED = "gspmd.exchanged"
"""Beside it, that a reshard brings the value from that order, or into it: from `gspmd-reshard` to `gspmd-order`."""

UNREDUCED = "gspmd.unreduced"
"""That the leading dimension of an argument or result counts summands: from `gspmd-ingest` to `gspmd-localize`."""

ANNOTATED = "gspmd.annotated"
"""That a user gave an operation's results the shardings that they have: from `gspmd-ingest` to `gspmd-reshard`."""

FREE_ARGUMENTS = "gspmd.free_arguments"
"""On @main, the arguments that nothing is said of: from `gspmd-propagate` to `gspmd-reshard`."""

FREE_RESULTS = "gspmd.free_results"
"""The same of results."""

# ---- on other operations --------------------------------------------------------------------------

LIKE = "gspmd.like"
"""That the members of a `sdy.sharding_group` may differ, for which `sdy` has no word: from `gspmd-ingest` to
`gspmd-propagate`.
"""

REPEATED = "gspmd.repeated"
"""On a manual computation over fewer devices than the program has, `[copies, devices as written]`: the device of the
mesh of all that each stands for. Within `gspmd-ingest`.
"""

IN_MIDDLE = "gspmd.in_middle"
"""On an operation of a layer that repeats: which layer, what number it has there, and how many layers were taken out
beside it. Layers are decided alike. From where they are found to `gspmd-decide`.
"""

GIVEN = "gspmd.given"
"""On a `sdy.sharding_constraint` with open dimensions, the sharding that a user asked for, which propagation has
completed: from `gspmd-propagate` to `gspmd-decide`.
"""

DECIDED = "gspmd.decided"
"""On `@main`: how operations are run is decided, for the hardware that this names, laid out as it says: from
`gspmd-decide` to `gspmd-reshard`.
"""

RUNS = "gspmd.runs"
"""The shardings of an operation's operands and results as it is run, where these are not as its values are: from
`gspmd-decide` to `gspmd-reshard`.
"""

THROUGH = "gspmd.through"
"""What operands of an operation are moved to first, as others take them from that, too; of all others what they are:
from `gspmd-decide` to `gspmd-reshard`.
"""

NOT_TAKEN = "gspmd.not_taken"
"""On a `sdy.sharding_constraint`, that its operand is taken as it is: from `gspmd-decide` to `gspmd-reshard`."""

CALL_DEVICE = "gspmd.call_device"
"""The partition that makes a call of Python, where the program names one: from `gspmd-ingest` to `gspmd-localize`."""

JOINED_DIMENSION = "gspmd.dimension"
"""On `JOINED_SLICES`, the dimension that is sliced: from `gspmd-reshard` to `gspmd-localize`, as are the next two."""

JOINED_STARTS = "gspmd.starts"
"""Where each slice begins."""

JOINED_LIMITS = "gspmd.limits"
"""Where each slice ends."""

# ---- targets of custom calls ----------------------------------------------------------------------

TAKEN_APART = "gspmd.taken_apart"
"""A value as summands of which only the sum is known: from `gspmd-ingest` to `gspmd-localize`."""

SPLIT_BY_RULE = "gspmd.split_by_rule"
"""A call of `custom_partitioning` that is split by the rule on it alone: within a search."""

JOINED_SLICES = "gspmd.joined_slices"
"""The slices `[start, limit)` of its operand along a dimension, one after the other. It is made where operand and
result are split alike along that dimension: from `gspmd-reshard` to `gspmd-localize`.
"""

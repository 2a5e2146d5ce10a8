"""Limits: time and memory grow with the text of a program, not with the numbers in it.

Each limit is far above the needs of real programs. Beyond it there is an error with a hint, or a simpler method is
used.
"""

from __future__ import annotations

# Nested brackets: MLIR's parser and printer are recursive, and abort the process at some 4,000.
MAX_BRACKET_DEPTH = 500

# Digits of a number: MLIR parses them in quadratic time. No type has numbers with so many.
MAX_DIGITS = 1000

# The result number in a use of a value (`%0#7`): MLIR allocates memory for all smaller ones.
MAX_RESULT_NUMBER = 99_999

# Characters of a TOML file with a target or a budget: the time to parse it is quadratic in the number of parts of a
# key.
MAX_TOML_LENGTH = 2**15

# Nested braces and regions: passes recurse into regions, with several Python calls for each.
MAX_REGION_DEPTH = 64

# Chained aliases of a module (`#name = ...`): the printer is recursive, and aborts the process at 10,000.
MAX_ALIAS_DEPTH = 1500

# The total size of the aliases of a module after expansion, which doubles with every alias that uses the previous one
# twice.
MAX_ALIAS_EXPANSION = 10**8

# Bytes of an attribute that another attribute carries as text: meshes that list a million devices take seven million.
MAX_ATTRIBUTE_TEXT_BYTES = 2**24

# The time and memory of the separate process that reads risky files: seconds, more of them for a long file, and bytes
# of memory in addition to those proportional to the size of the file.
TRIAL_SECONDS = 25
TRIAL_SECONDS_PER_MEBIBYTE = 5
TRIAL_MEMORY_BYTES = 2**33
TRIAL_MEMORY_PER_BYTE = 64

# The number of devices is a signed 32-bit integer in modules ('mhlo.num_partitions') and in every runtime.
MAX_DEVICES = 2**31 - 1

# Devices that are listed by id; beyond it there is only the compact form, in axes. A list takes some 40 bytes per
# device, in several places at a time.
MAX_LISTED_DEVICES = 2**20

# Shards of a dimension for which Python plans an exchange, one by one.
MAX_EXCHANGED_SHARDS = 2**18

# Window positions that are counted one by one for an estimate; beyond it, a sample of this size is counted.
MAX_COUNTED_PLACES = 2**16

# The largest prime of trial division, which finds all factors of numbers below its square; the rest counts as one
# factor.
MAX_TRIAL_DIVISOR = 2**16

# Chips of a topology given as a target: fifty times the largest pod. Its layouts are compared one by one.
MAX_TOPOLOGY_CHIPS = 2**20

# Operations of a program after inlining, or this multiple of the size before, if that is more: large models have some
# 100,000.
MAX_INLINED_OPERATIONS = 500_000
MAX_INLINED_GROWTH = 10

# Nested calls: Python, in which programs are traced, allows some hundred.
MAX_CALL_DEPTH = 1000

# Moves that the search for the cheapest path of one operation visits, unless an option sets another limit: a second or
# two. Models need a tenth.
MAX_RESHARD_MOVES = 20_000

# Steps of a derivation that are printed: those of all values of a deep program would grow with the square of its depth.
MAX_TOLD_STEPS = 50

# Virtual CPU devices: a process creates all of them at its start, with memory and threads for each.
MAX_VIRTUAL_DEVICES = 4096

# Integers in options and files, which are counted in 64 bits.
MAX_COUNT = 2**63 - 1

# Elements of a tensor, which every runtime counts in 64 bits.
MAX_ELEMENTS = MAX_COUNT

# The size, stride and dilation of a window in one dimension.
MAX_WINDOW = (1 << 31) - 1

# Pieces and steps into which operations are unrolled.
MAX_UNROLLED = 1024

# The relative tolerance of a budget: a thousandfold excess is no budget.
MAX_TOLERANCE = 1000


def is_count(value: object) -> bool:
    """Whether a value of a user is an integer from 0 to `MAX_COUNT`; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def count_of(text: str) -> int | None:
    """The integer from 0 to `MAX_COUNT` that a text of a user has in decimal; None for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > _DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= MAX_COUNT else None


_DIGITS = len(str(MAX_COUNT))  # Python refuses to parse thousands

"""How much of anything is looked at: time and memory grow with a program's text, not with the numbers in it.

Each limit is far above what programs need. Above it there is an error that says what to do, or something plainer is
done.
"""

from __future__ import annotations

# Brackets inside brackets: MLIR's parser and printer, which recurse, end the process at some 4,000 of a kind.
MAX_BRACKET_DEPTH = 500

# Digits of a number: MLIR reads them in a time that grows with their square. No type has numbers of so many.
MAX_DIGITS = 1000

# What a value's place among the results of its operation may be (`%0#7`): MLIR allocates room for all before it.
MAX_RESULT_NUMBER = 99_999

# Characters of a TOML file, which describes a machine or a budget: the time to read one grows with the square of the
# parts of a key.
MAX_TOML_LENGTH = 2**15

# Braces inside braces, and regions inside regions: passes recurse into regions, a few calls in Python for each.
MAX_REGION_DEPTH = 64

# Aliases of a module (`#name = ...`) that stand for others: the printer, which recurses, ends the process at 10,000.
MAX_ALIAS_DEPTH = 1500

# What the aliases of a module (`#name = ...`) are together when each is written out where it is used: it doubles from
# one to the next where that uses the one before twice.
MAX_ALIAS_EXPANSION = 10**8

# Bytes of an attribute that is carried as text in another one: meshes that list a million devices take seven.
MAX_ATTRIBUTE_TEXT_BYTES = 2**24

# What another process has for reading a file that could end the process reading it: seconds, and more of them for a
# long one, and bytes of memory beside those that the file's size explains.
TRIAL_SECONDS = 25
TRIAL_SECONDS_PER_MEBIBYTE = 5
TRIAL_MEMORY_BYTES = 2**33
TRIAL_MEMORY_PER_BYTE = 64

# Numbers of devices are of 32 bits, with a sign, in modules ('mhlo.num_partitions') and in every runtime.
MAX_DEVICES = 2**31 - 1

# Devices that are listed one by one, by id: above it there is only the compact form, in axes. Lists take some 40 bytes
# a device, in several places at a time.
MAX_LISTED_DEVICES = 2**20

# Shards of a dimension whose exchange is planned, in Python, one shard after the other.
MAX_EXCHANGED_SHARDS = 2**18

# Places of a window that are counted one by one for an estimate; of more, a sample of as many is counted.
MAX_COUNTED_PLACES = 2**16

# Numbers are divided by primes up to this one, which finds all factors of those below its square, and what is left
# counts as one piece.
MAX_TRIAL_DIVISOR = 2**16

# Chips of a topology that is given as a target: fifty times the largest pod, whose layouts are compared one by one.
MAX_TOPOLOGY_CHIPS = 2**20

# Operations of a program after all its calls are replaced by what they call, or so many times what is written, if that
# is more: large models have some 100,000, and no program calls everything so often.
MAX_INLINED_OPERATIONS = 500_000
MAX_INLINED_GROWTH = 10

# Calls inside calls: Python, in which programs are traced, allows for some hundred.
MAX_CALL_DEPTH = 1000

# Moves of collectives that are looked at to find the best way for one operation, unless an option says otherwise: a
# second or two. What models need is a tenth of it.
MAX_RESHARD_MOVES = 20_000

# Steps of propagation that are shown from a value back to its annotation: those of all values of a deep program would
# grow with the square of its depth.
MAX_TOLD_STEPS = 50

# Virtual devices of the CPU: a process makes them all before anything runs, with memory and threads for each.
MAX_VIRTUAL_DEVICES = 4096

# Numbers in options and files, for what is counted in 64 bits.
MAX_COUNT = 2**63 - 1

# Elements of a tensor, which every runtime counts in 64 bits.
MAX_ELEMENTS = MAX_COUNT

# Elements of a window in one dimension, and how far apart these are, or windows, or those of the operand.
MAX_WINDOW = (1 << 31) - 1

# Pieces and steps that operations are written out in.
MAX_UNROLLED = 1024

# What a budget may be exceeded by, as a part of it: a thousandfold is no budget any more.
MAX_TOLERANCE = 1000


def is_count(value: object) -> bool:
    """Whether a value given by a user is an integer from 0 to the largest; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def count_of(text: str) -> int | None:
    """The integer from 0 to the largest that a text given by a user writes in decimal; None if it writes no such."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > _DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= MAX_COUNT else None


_DIGITS = len(str(MAX_COUNT))  # Python refuses to read some thousand

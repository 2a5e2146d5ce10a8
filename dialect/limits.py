"""How much of anything is looked at: time and memory grow with a program's text, not with the numbers in it.

Each limit is far above what programs need. Above it there is an error that says what to do, or something plainer is
done.
"""

# Brackets inside brackets: MLIR's parser and printer, which recurse, end the process at some 4,000 of a kind.
MAX_BRACKET_DEPTH = 500

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

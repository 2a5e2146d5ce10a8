"""Reading input: text or bytes from a user become a verified MLIR module, or one located error.

The parsers of jaxlib are recursive C++ code that crashes on unexpected input. So text is scanned before it is parsed,
in one pass over its bytes (`nesting.py`; 9 % of the time of parsing). Brackets, regions and aliases may nest up to a
limit of `dialect/limits.py`, and names must be UTF-8 (`suspicion.py`). Bytecode, portable artifacts, HLO, and text with
unusual constants are read in a separate process (`trial.py`), which returns the module as text. If that process
crashes, the file is at fault. Text that this process has written itself is read without these checks.
"""

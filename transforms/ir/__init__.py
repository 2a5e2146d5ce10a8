"""Modules in memory: operations and values, descriptions of operations, signatures, groups of devices.

MLIR's objects are behind bindings that take one to seven microseconds per call. So a verified module is read once
(`reading.py`) into plain Python objects (`operations.py`), all stages change these, and they are written once
(`writing.py`). Attributes and locations remain MLIR's, since they are immutable and hashable. `gspmd-opt` reads and
writes around each pass, so that passes of gspmd and of MLIR can be mixed; the few MLIR passes that stages need run on a
copy (`native.py`).

`program.py` numbers operations and values, and describes each operation by an interned `OpInfo` (name, shapes,
attributes). Equal operations share one `OpInfo` and one rule, so everything computed from these is memoized. All passes
of a run share these descriptions.

`ManualScope` says which mesh axes are manual around an operation. `collective_groups.py` is the only file that knows
where a collective names its devices. `boundary_orders.py` reads and writes the device orders of arguments and results.
"""

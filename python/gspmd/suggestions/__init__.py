"""Suggestions: annotations that lower the cost of a program, found by partitioning it with each candidate.

Each candidate is added to the given program, which is then partitioned and priced, so a suggestion is exactly what its
user will get. The decision problem with the arguments of one role as additional variables ranks the candidates
(`candidates.py`). A change of the Python source is shown only if an expression has one value that is computed once
(`source_patch.py`).
"""

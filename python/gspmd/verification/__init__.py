"""Proofs that a partitioned program computes the same as the program from which it was made, for all inputs
(docs/verify.md).

Both programs run on symbols. An element of a value is a term, a function of other elements, and tables of integers say
which element: where an argument is read, what a mask says, over which set a sum runs. Moves and collectives change only
tables. The verifier knows what operations are, and not how they are partitioned; an import contract keeps it so.
"""

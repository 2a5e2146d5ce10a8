"""Proofs that a partitioned program computes the same as the program from which it was made, for all inputs
(docs/verify.md).

Both programs run on symbols. An element of a value is a term, a function of other elements. Tables of integers identify
the element: the index at which an argument is read, the entry of a mask, the set over which a sum runs. Moves and
collectives change only tables. The verifier knows the semantics of operations, but not how they are partitioned; an
import contract enforces this.
"""

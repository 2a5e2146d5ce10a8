"""Which of the examples of operations in docs/op_examples.py are partitioned, and which are refused."""

from __future__ import annotations

from op_examples import EXAMPLES, operation_of

from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.communication import OPS as COMMUNICATION
from gspmd.transforms.ops.refused import OPS as REFUSED


def is_refused(name: str) -> bool:
    """Whether a program of this alone is refused; communication has its place in manual computations.

    Every replica is number 0 in programs of one replica.
    """
    refused = (REFUSED.keys() | COMMUNICATION.keys()) - {"stablehlo.replica_id"}
    return operation_of(name) in refused or "unknown target" in name


# The rule of a call that carries one is not in the table.
COMPUTED = [n for n in EXAMPLES if operation_of(n) in OPS and not is_refused(n) and "rule of its own" not in n]

"""Calls, branches and loops."""

from __future__ import annotations

from gspmd.transforms.ir.operations import Operation
from gspmd.verification.meaning.meaning import Machine, Meaning
from gspmd.verification.values import Value


def _call(machine: Machine, op: Operation, values: list[Value]) -> list[Value]:
    return machine.call(str(op.attributes["callee"].value), values)


def _composite(machine: Machine, op: Operation, values: list[Value]) -> list[Value]:
    return machine.call(str(op.attributes["decomposition"].value), values)


MEANINGS: dict[str, Meaning] = {"func.call": _call, "stablehlo.composite": _composite}

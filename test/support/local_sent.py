"""What the local form of an operation sends, beside what strategies take it to send."""

from __future__ import annotations

import math
import random
import re

from gspmd.collectives import collectives_of
from gspmd.dialect.axes import size_of
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.local_form import sent_by
from gspmd.transforms.parsing.mlir import new_context, parse_module
from support.single_op import MESHES, assignments, partition, read, rule_of, rules_of, split_of

COLLECTIVES = re.compile(r'"?stablehlo\.(all_gather|all_reduce|collective_permute|all_to_all)"?\(')

SENT = re.compile(r'"stablehlo\.(\w+)"\([^()]*\) <\{.*channel_handle.*: \(tensor<([^>]*)>\) ->')


def padding(low: int, high: int) -> str:
    return f"padding = dense<[[0, 0], [{low}, {high}]]> : tensor<2x2xi64>"


def collectives(text: str, mesh: str = "8", dim: int = 1) -> list[str]:
    """The kinds of those that there are when this dimension of the operand is split over all of the mesh."""
    (factor,) = rule_of(text).operands[0][dim]
    module = partition(text, MESHES[mesh], {factor: MESHES[mesh].all_axes()})
    return sorted(COLLECTIVES.findall(module))


def check_what_is_sent(text: str, mesh: str = "3x2", dim: int = 1) -> None:
    """The price of the local form is the bytes of its collectives, where all of the mesh splits this dimension."""
    rule = rule_of(text)
    (factor,), axes = rule.operands[0][dim], MESHES[mesh].all_axes()
    split = split_of(rule, MESHES[mesh], {factor: axes})
    (op,) = read(text).body.ops
    localize = OPS[op.info.name].localize
    assert localize is not None
    sent = 0
    for kind, shape in SENT.findall(partition(text, MESHES[mesh], {factor: axes})):
        size = 4 * math.prod(int(n) for n in shape.split("x")[:-1])
        sent += {"collective_permute": size, "all_gather": (size_of(axes) - 1) * size}.get(kind, 0)
    found = sent_by(localize, op.info, rule, split.operands, split.results, new_context())
    assert sum(collective.bytes for collective in found) == sent


def check_sent(text: str, rng: random.Random) -> None:
    """Compare for every factor split alone, and for two random splits, by each rule of the operation."""
    mesh = MESHES[rng.choice(list(MESHES))]
    (op,) = read(text).body.ops
    localize = OPS[op.info.name].localize
    for rule in rules_of(text):
        for axes in assignments(rule, mesh, 2, rng.randrange(1000)):
            split = split_of(rule, mesh, axes)
            module = parse_module(partition(text, mesh, axes, rule), new_context())
            made = [c for c in collectives_of(module, mesh) if c.cause != "partial results"]
            assert all(c.count == 1 for c in made)
            said = ()
            if localize is not None:
                said = sent_by(localize, op.info, rule, split.operands, split.results, module.context)
            assert sorted((c.kind, round(c.bytes)) for c in said) == sorted((c.kind, c.bytes) for c in made), (
                f"{axes}\n{module}"
            )

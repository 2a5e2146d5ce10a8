"""Writes docs/coverage.md: what the compiler does with every operation of StableHLO and CHLO.

Run `python docs/generate.py coverage` after changing a rule.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from op_examples import operation_of
from shardy_rules import DIFFERENCES, computed, differing, our_rule

from gspmd.dialect.rule import (
    NEED_REPLICATION,
    PASS_THROUGH,
    PERMUTATION,
    REDUCTION,
    FactorKind,
    OpShardingRule,
    factor_symbol,
    print_rule,
)
from gspmd.transforms import ops
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.refused import REFUSED
from gspmd.transforms.ops.structure import STRUCTURE

PAGE = Path(__file__).resolve().parent / "coverage.md"

_INTRODUCTION = """# Operations

This page says how every operation of StableHLO and CHLO is partitioned. It is written by `docs/generate_coverage.py`
from the rules, applied to the examples in `docs/op_examples.py`.

{rules} operations have a rule, {structure} are dealt with elsewhere, {refused} are refused.

A rule says with letters which dimensions belong together, as Einstein notation does. Letters next to each other in a
dimension are major to minor. What splitting a letter over devices takes:

- *passes through*: nothing; every device computes its own part. *Evenly*: only over numbers of devices that divide it.
- *partial*: every device has a partial result, and these are combined.
- *communicates*: the local form of the operation exchanges what it needs, mostly with neighbours.
- *whole*: it cannot be split, and is gathered first.
"""

_REFUSED = """
## Refused

With a located error that says why and what to do.
"""

_STRUCTURE = """
## Dealt with elsewhere

They compute nothing, or are something else when rules are applied. So are calls of functions, which ingest inlines,
and the operations of `sdy`, which it reads.
"""

_SHARDY = """
## Where Shardy's rules differ

Compared is what can be split, what belongs together, and at what cost, with the pass
`sdy-populate-op-sharding-rules` of the Shardy inside jaxlib, on the same examples. All others agree.
"""


def in_words(rule: OpShardingRule) -> str:
    """`i, j pass through; k partial (add)`; dimensions of one element are left out."""

    def symbols(kind: FactorKind, even: bool = False) -> str:
        factors = [f for f, k in enumerate(rule.kinds) if k is kind and rule.sizes[f] > 1]
        if kind is PASS_THROUGH:
            factors = [f for f in factors if (f in rule.even) is even]
        return ", ".join(factor_symbol(f) for f in factors)

    said = [
        (symbols(PASS_THROUGH), "passes through"),
        (symbols(PASS_THROUGH, even=True), "passes through evenly"),
        (symbols(REDUCTION), f"partial ({rule.combiner})"),
        (symbols(PERMUTATION), "communicates"),
        (symbols(NEED_REPLICATION), "whole"),
    ]
    return "; ".join(f"{which}: {what}" for which, what in said if which) or "no dimensions"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _titled(name: str) -> str:
    """`add` of `stablehlo.add (of something)` in code quotes, the rest behind it."""
    operation, _, what = name.partition(" ")
    return f"`{operation}` {what}".strip()


def _mapping(rule: OpShardingRule) -> str:
    return f"`{print_rule(rule).partition(' {')[0]}`"


def _families() -> Iterable[list[str]]:
    names = computed()
    for module in sorted(info.name for info in pkgutil.iter_modules(ops.__path__)):
        family = importlib.import_module(f"{ops.__name__}.{module}")
        if family.__name__.endswith(".refused") or not hasattr(family, "OPS"):
            continue
        rules = [(name, our_rule(name)) for name in sorted(names) if operation_of(name) in family.OPS]
        summary = (family.__doc__ or "").partition("\n")[0]
        rows = [(_titled(name), _mapping(rule), in_words(rule)) for name, rule in rules]
        yield ["", f"## {module}", "", f"{summary} (`transforms/ops/{module}.py`)", ""]
        yield _table(("operation", "rule", "in words"), rows)


def _differences() -> list[str]:
    alike: dict[str, list[str]] = {}
    rows = []
    for name, ours, theirs in differing():
        reason = DIFFERENCES.get(name, "")
        if theirs is None:
            alike.setdefault(reason, []).append(_titled(name))
        else:
            rows.append((_titled(name), f"`{ours}`", f"`{theirs}`", reason))
    missing = [(", ".join(names), reason) for reason, names in alike.items()]
    return [
        *_table(("operation", "ours", "Shardy's", "why"), sorted(rows)),
        "",
        "And where Shardy has none:",
        "",
        *_table(("operations", "why"), missing),
    ]


def coverage() -> str:
    """The page."""
    rules = len(OPS) - len(REFUSED)
    lines = [_INTRODUCTION.format(rules=rules, structure=len(STRUCTURE), refused=len(REFUSED)).rstrip()]
    for family in _families():
        lines += family
    refused = [(f"`{name}`", reason, hint) for name, (reason, hint) in sorted(REFUSED.items())]
    lines += [_REFUSED, *_table(("operation", "because it", "what to do"), refused)]
    elsewhere = [(f"`{name}`", words) for name, words in sorted(STRUCTURE.items())]
    lines += [_STRUCTURE, *_table(("operation", "how"), elsewhere)]
    lines += [_SHARDY, *_differences()]
    return "\n".join(lines) + "\n"

"""The sharding rules that Shardy, inside jaxlib, gives the examples, and where ours differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jaxlib.mlir.passmanager import PassManager
from op_examples import EXAMPLES, function, operation_of

from gspmd.dialect.rule import (
    NEED_REPLICATION,
    PASS_THROUGH,
    FactorKind,
    OpShardingRule,
    print_rule,
)
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.refused import REFUSED
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import new_context, parse_module

_WHOLE_CALL = "stablehlo.custom_call (of an unknown target)"
_SYMBOL = re.compile(r"[i-z](?:_\d+)?")
_KINDS = tuple(kind for kind in FactorKind if kind is not PASS_THROUGH)

# A factor that can be split: its kind, and where it occurs, as (tensor, dimension, place in the dimension).
Structure = frozenset[tuple[FactorKind, frozenset[tuple[int, int, int]]]]


def computed() -> list[str]:
    """The examples that have a rule of ours."""
    return [n for n in EXAMPLES if operation_of(n) in OPS and operation_of(n) not in REFUSED and n != _WHOLE_CALL]


def our_rule(name: str) -> OpShardingRule:
    program = Program(model_of(parse_module(function(name), new_context())))
    (op,) = program.body.ops
    book = RuleBook(OPS)
    return book.rules[book.of_op(op.info, op.ir)]


def shardy_rule(name: str) -> str | None:
    """The text of Shardy's rule, None when it has none."""
    context = new_context()
    module = parse_module(function(name), context)
    with context:
        PassManager.parse("builtin.module(func.func(sdy-populate-op-sharding-rules))").run(module.operation)
    for view in module.body.operations[0].regions[0].blocks[0]:
        attributes = view.operation.attributes
        if view.operation.name == operation_of(name) and "sdy.sharding_rule" in attributes:
            return str(attributes["sdy.sharding_rule"]).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")
    return None


def our_structure(rule: OpShardingRule) -> Structure:
    tensors = [[list(map(str, dim)) for dim in mapping] for mapping in rule.tensors]
    kinds = {str(factor): kind for factor, kind in enumerate(rule.kinds)}
    return _structure(tensors, kinds, {str(factor): size for factor, size in enumerate(rule.sizes)})


def shardy_structure(text: str | None) -> Structure:
    """Without a rule nothing can be split."""
    if text is None:
        return frozenset()
    mappings, _, rest = text.partition("{")
    sizes, _, special = rest.partition("}")
    tensors = [[_SYMBOL.findall(dim) for dim in m.split(",")] for m in re.findall(r"\[([^\]]*)\]", mappings)]
    kinds = {}
    for kind in _KINDS:
        listed = re.search(rf"\b{kind.value}={{([^}}]*)}}", special)
        kinds.update(dict.fromkeys(_SYMBOL.findall(listed[1]) if listed else [], kind))
    return _structure(tensors, kinds, {s: int(n) for s, n in re.findall(r"([i-z](?:_\d+)?)=(\d+)", sizes)})


def _structure(tensors: list[list[list[str]]], kinds: dict[str, FactorKind], sizes: dict[str, int]) -> Structure:
    places: dict[str, set[tuple[int, int, int]]] = {}
    for tensor, mapping in enumerate(tensors):
        for dim, factors in enumerate(mapping):
            for place, factor in enumerate(factors):
                places.setdefault(factor, set()).add((tensor, dim, place))
    able = [f for f in places if kinds.get(f) is not NEED_REPLICATION and sizes[f] > 1]
    return frozenset((kinds.get(f, PASS_THROUGH), frozenset(places[f])) for f in able)


def differing() -> Iterator[tuple[str, str, str | None]]:
    """The examples whose rules differ in what can be split and at what cost: name, our rule, Shardy's."""
    for name in computed():
        ours, theirs = our_rule(name), shardy_rule(name)
        if our_structure(ours) != shardy_structure(theirs):
            yield name, print_rule(ours), theirs


_NO_RULES = {
    CUSTOM_CALL: "Shardy has no rule for calls of this target",
    "chlo": "Shardy has no rules for CHLO",
}


def _default_reason(name: str) -> str:
    """The reason why Shardy has no rule for a kind of operation that can be split; empty for other operations."""
    operation = operation_of(name)
    default = _NO_RULES.get(operation) or _NO_RULES.get(operation.partition(".")[0], "")
    return default if default and shardy_rule(name) is None and our_structure(our_rule(name)) else ""


DIFFERENCES = {name: reason for name in computed() if (reason := _default_reason(name))}
DIFFERENCES |= {name: example.differs for name, example in EXAMPLES.items() if example.differs}
"""The reason of every difference, by example."""

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


_NO_CHLO = "Shardy has no rules for CHLO"
_FINDS_PART = "ours lets every device find the part that it holds, which is summed; Shardy shifts or gathers"
_REACHES = "a window of most of a dimension reaches into neighbours only in ours; Shardy gathers it"
_STATISTICS = "Shardy has no rule; features are independent of each other, and statistics of the rest are summed"
_TRANSFORMS = "a transformed dimension changes places with another one in ours; Shardy has it whole"
_KERNEL = (
    "in ours a dimension that windows of one element move over passes through, and taps of a kernel are contracted"
)
_SOURCES = "ours splits the source with the operand; Shardy has that of the source whole"

DIFFERENCES: dict[str, str] = {
    **{
        name: _NO_CHLO
        for name in EXAMPLES
        if name.startswith("chlo.") and name not in ("chlo.constant", "chlo.scan (of rows)")
    },
    "stablehlo.custom_call (with a rule of its own)": (
        "a factor that occurs once is one that the call needs whole in ours; JAX writes such rules for batches"
    ),
    "stablehlo.map": "Shardy has no rule; the body sees one element, not where it is",
    "stablehlo.constant": "Shardy has no rule but clones constants for every use; ours makes a part on every device",
    "stablehlo.iota": "Shardy has no rule but clones constants for every use; ours makes a part on every device",
    "stablehlo.sort": "ours sorts a split dimension by exchanging parts of columns; Shardy has it whole",
    "stablehlo.fft": _TRANSFORMS,
    "stablehlo.fft (of real numbers)": _TRANSFORMS,
    "stablehlo.fft (of two dimensions)": _TRANSFORMS,
    "stablehlo.custom_call (Python callback of every device)": (
        "Shardy has no rule; every device calls with the part that it has, whatever that is"
    ),
    "stablehlo.rng": "Shardy has no rule; ours makes the numbers of a part of one seed for all devices",
    "stablehlo.batch_norm_training": _STATISTICS,
    "stablehlo.batch_norm_grad": _STATISTICS,
    "stablehlo.reshape (no common pieces)": (
        "no piece of one side is a piece of the other; Shardy lists the dimensions as factors that occur once"
    ),
    "stablehlo.slice (little kept)": _FINDS_PART,
    "stablehlo.dynamic_slice": _FINDS_PART,
    "stablehlo.dynamic_slice (most kept)": _REACHES,
    "stablehlo.dynamic_update_slice (most written)": _REACHES,
    "stablehlo.gather (windows)": _FINDS_PART,
    "stablehlo.scatter (windows)": "ours writes to every shard what falls into it; Shardy gathers what windows cover",
    "stablehlo.scatter (of two operands)": (
        "ours combines the partial results of each operand by its own reducer; Shardy gathers the updates"
    ),
    "stablehlo.reduce_window (of a dimension)": "ours leaves partial results, as a reduction does",
    "stablehlo.select_and_scatter (overlapping)": _SOURCES,
    "stablehlo.select_and_scatter": _SOURCES,
    "stablehlo.concatenate (equal parts)": (
        "ours keeps the parts split and sends each element where it belongs; Shardy has all parts whole"
    ),
    "stablehlo.concatenate (a large part)": (
        "ours keeps the large part split and has the small one whole; Shardy has all parts whole"
    ),
    "stablehlo.reduce (of two operands)": (
        "partial results of several values are no sum or maximum of each: ours gathers and reduces them once more"
    ),
    "stablehlo.convolution": _KERNEL,
    "stablehlo.convolution (feature groups)": _KERNEL,
    "stablehlo.convolution (batch groups)": _KERNEL,
    "stablehlo.convolution (gradient of a kernel)": (
        "the result may be split as well in ours, by fetching what its windows span"
    ),
    "stablehlo.triangular_solve": "ours passes through right-hand sides, each of which is solved alone",
    "stablehlo.rng_bit_generator (as the platform does)": (
        "which bits an element gets is up to the platform, so that ours makes them all on every device; Shardy splits "
        "them"
    ),
}
DIFFERENCES |= {
    name: "Shardy has no rule for calls of this target"
    for name in computed()
    if operation_of(name) == CUSTOM_CALL and name not in DIFFERENCES
    if shardy_rule(name) is None and our_structure(our_rule(name))
}
"""The reason of every difference, by example."""

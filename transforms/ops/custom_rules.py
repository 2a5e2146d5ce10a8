"""Sharding rules that users write: on an operation in the IR, or for the target of a custom call."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

from gspmd.dialect.axes import Axes
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.dialect.rule_notation import check_rule, parse_rule
from gspmd.dialect.sdy_attrs import write_rule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.op_info import CUSTOM_CALL, InfoReader, OpInfo
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops.kernels import is_compiled_for_shapes, unknown_call
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located

RULE = "sdy.sharding_rule"
_FRONTEND, _BATCH = "mhlo.frontend_attributes", "num_batch_dims"
CUSTOM_PARTITIONING = "CustomSPMDPartitioning"
"""The target of calls that functions of Python split: those of `jax.experimental.custom_partitioning`."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitCall:
    """What a call becomes: a program of one device, and how it takes operands and leaves results.

    `program` is the text of a module whose @main works on local shapes; its collectives name partitions of the whole
    mesh. Shardings divide.
    """

    program: str
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]


class CallPartitioner(abc.ABC):
    """Functions that split the custom calls of a target, for a program that comes with such functions.

    Shardings, of operands and of results, are over a mesh of their own, of all devices. Those given divide; to an
    `inference` they are open where propagation may still change them.
    """

    mesh: Mesh

    @abc.abstractmethod
    def rule(self, info: OpInfo) -> OpShardingRule:
        """What propagation may do at a call, by factors or by an `inference`."""

    @abc.abstractmethod
    def split(
        self, info: OpInfo, operands: tuple[TensorSharding, ...], results: tuple[TensorSharding, ...], held: Axes
    ) -> SplitCall:
        """What becomes of a call for the shardings that were found; manual computations around it hold axes."""


RuleSource = str | Callable[[OpInfo], str] | CallPartitioner
"""The text of a rule, a function that gives it for an operation, or functions that split the call themselves."""


def written_rule(info: OpInfo) -> OpShardingRule | None:
    """The rule that stands on an operation, if one does. Raises AnnotationError with the reason if it is wrong."""
    written = info.attributes.get(RULE)
    return None if written is None else parse_rule(str(written), *_shapes(info))


def executable_rule(info: OpInfo, rule: OpShardingRule) -> OpShardingRule:
    """The rule as far as the same operation on smaller tensors follows it.

    It must not see padding, of which it knows nothing, and a kernel that is compiled for its shapes takes no smaller
    tensors. Factors that would have to communicate are computed whole, and so are those that pass through to some
    results only, which JAX writes for dimensions that nothing is said of.
    """
    target = info.text("call_target_name")
    if target == CUSTOM_PARTITIONING:
        refuse_without_functions(info)
    if info.calls_functions or is_compiled_for_shapes(target):
        raise unknown_call(info)
    read = {f for tensor in rule.operands for dim in tensor for f in dim}
    made = [{f for dim in tensor for f in dim} for tensor in rule.results]
    through = read.intersection(*made) if made else set()
    kinds = tuple(
        kind if (kind is REDUCTION and f in read) or (kind is PASS_THROUGH and f in through) else NEED_REPLICATION
        for f, kind in enumerate(rule.kinds)
    )
    return dataclasses.replace(rule, kinds=kinds, even=frozenset(range(len(kinds))))


def refuse_without_functions(info: OpInfo) -> NoReturn:
    """The rule of a call of `jax.experimental.custom_partitioning` where its functions are not at hand."""
    raise Unsupported(
        f"calls '{CUSTOM_PARTITIONING}', which functions of the Python program that made it split",
        hint="partition that program with gspmd.jit, which calls them; a module has only their number",
        code=Code.CUSTOM_CALL,
    )


def parse_custom_rules(texts: Iterable[str]) -> dict[str, RuleSource]:
    """Rules by target from texts such as `my_target=([i, j])->([i, j])`. Raises UsageError."""
    rules: dict[str, RuleSource] = {}
    for text in texts:
        target, separator, rule = text.partition("=")
        if not separator or not target.strip() or "(" in target:
            raise UsageError(
                f"custom rule '{text}' names no target",
                hint="write it as my_target=([i, j])->([i, j])",
                code=Code.BAD_VALUE,
            )
        if target.strip() in rules:
            raise UsageError(f"custom call '{target.strip()}' has two custom rules", hint="give one")
        try:
            check_rule(rule)
        except AnnotationError as error:
            raise UsageError(f"custom rule of '{target.strip()}': {error.message}", hint=error.hint) from None
        rules[target.strip()] = rule.strip()
    return rules


def attach_rules(custom_calls: Iterable[Operation], rules: Mapping[str, RuleSource]) -> None:
    """Put the rule of its target on every custom call; what is given for a target goes before what is written.

    Calls that JAX marks with a number of batch dimensions, and that have no rule, get the one which this means.
    Raises AnnotationError (located) for a rule that does not fit.
    """
    read = InfoReader()
    for op in custom_calls:
        source = rules.get(text_of(op.attributes["call_target_name"]))
        batch = None if RULE in op.attributes else _batch_dims(op)
        if isinstance(source, CallPartitioner) or (source is None and batch is None):
            continue
        info = read(op, tuple(value.type for value in op.operands), False)
        with located(op):
            if source is not None:
                rule = parse_rule(source if isinstance(source, str) else source(info), *_shapes(info))
            else:
                rule = _batch_rule(info, batch or 0)
        op.attributes[RULE] = write_rule(rule, context_of(op))


def custom_calls(function: Operation) -> Iterator[Operation]:
    """The custom calls in a function, those in regions included."""
    return (op for op in function.walk() if op.name == CUSTOM_CALL)


def _batch_dims(op: Operation) -> int | None:
    """The number of leading dimensions that an operation of JAX's foreign function interface works on one by one."""
    if _FRONTEND not in op.attributes or _BATCH not in op.attributes[_FRONTEND]:
        return None
    text = text_of(op.attributes[_FRONTEND][_BATCH])
    return int(text) if text.isdecimal() else None


def _batch_rule(info: OpInfo, count: int) -> OpShardingRule:
    operands, results = _shapes(info)
    shapes = operands + results
    builder = RuleBuilder(operands, results)
    for dim in range(count):
        sizes = {shape[dim] if dim < len(shape) else None for shape in shapes}
        if len(sizes) != 1 or None in sizes:
            raise AnnotationError(
                f"has '{_BATCH}' {count}, but its operands and results do not share {count} leading dimensions",
                code=Code.RULE,
            )
        builder.factor([dim] * len(operands), [dim] * len(results), shapes[0][dim])
    return builder.build()


def _shapes(info: OpInfo) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return [t.shape for t in info.operands], [t.shape for t in info.results]

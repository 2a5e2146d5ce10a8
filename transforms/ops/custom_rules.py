"""Sharding rules from users: on an operation in the IR, or for the target of a custom call."""

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
"""The target of calls of `jax.experimental.custom_partitioning`, which have Python partitioning functions."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitCall:
    """The replacement of a call: a per-device program, with the shardings of its operands and results.

    `program` is the text of a module whose @main has local shapes; its collectives name partitions of the whole mesh.
    Shardings are even.
    """

    program: str
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]


class CallPartitioner(abc.ABC):
    """Partitioning functions for the custom calls of a target.

    Shardings of operands and results are over the functions' own mesh of all devices. Given shardings are even; for an
    `inference`, dimensions that propagation may still change are open.
    """

    mesh: Mesh

    @abc.abstractmethod
    def rule(self, info: OpInfo) -> OpShardingRule:
        """The rule of a call for propagation, with factors or an `inference`."""

    @abc.abstractmethod
    def split(
        self, info: OpInfo, operands: tuple[TensorSharding, ...], results: tuple[TensorSharding, ...], held: Axes
    ) -> SplitCall:
        """The replacement of a call for the derived shardings; `held` are the manual axes around it."""


RuleSource = str | Callable[[OpInfo], str] | CallPartitioner
"""The text of a rule, a function that returns it for an operation, or partitioning functions."""


def written_rule(info: OpInfo) -> OpShardingRule | None:
    """The rule written on an operation, if any. Raises AnnotationError with the reason if it is wrong."""
    written = info.attributes.get(RULE)
    return None if written is None else parse_rule(str(written), *_shapes(info))


def executable_rule(info: OpInfo, rule: OpShardingRule) -> OpShardingRule:
    """The rule, restricted to factors along which the same operation on smaller tensors is correct.

    An opaque call must not read padding, and a kernel compiled for its shapes accepts no smaller tensors. Factors that
    would need communication are not split, and neither are factors of only some results, which JAX writes for
    dimensions without information.
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
    """The rule of a call of `jax.experimental.custom_partitioning` whose functions are not available."""
    raise Unsupported(
        f"calls '{CUSTOM_PARTITIONING}', whose partitioning functions are in the Python program that made it",
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
    """Write the rule of its target on every custom call; given rules override those on calls.

    Calls without a rule that JAX marks with a number of batch dimensions get the rule for these.
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
    """The custom calls in a function, including its regions."""
    return (op for op in function.walk() if op.name == CUSTOM_CALL)


def _batch_dims(op: Operation) -> int | None:
    """The number of batch dimensions of a call of JAX's foreign function interface."""
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

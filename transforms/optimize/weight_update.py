"""The update of replicated weights, computed in shards: each device updates its shard, and gathers the others.

Source: Xu et al., Automatic Cross-Replica Sharding of Weight Update in Data-Parallel Training (arXiv 2004.13336).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, canonical, overlap, size_of
from gspmd.dialect.errors import UsageError
from gspmd.dialect.notation import print_axes
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops import traits_of
from gspmd.transforms.parsing.attribute_text import as_dictionary
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED

_ALIAS = "tf.aliasing_output"


@dataclasses.dataclass(frozen=True)
class ShardWeightUpdate(Pass):
    """Split the update of weights and the optimizer's state over data-parallel axes.

    Runs after `gspmd-ingest`. An argument is updated if the result that replaces it is computed from it by elementwise
    operations. Other arguments that only such operations use are the optimizer's state, which is split at the boundary
    of the program, too. Weights keep their shardings there.
    """

    argument = "gspmd-shard-weight-update"
    summary = "Split the update of replicated weights and the optimizer's state over data-parallel axes"
    details = ("Gradients are reduce-scattered, updated weights are gathered, and the state takes less memory.",)

    needs = (INGESTED,)

    update_axes: tuple[str, ...] = option((), "mesh axes to split the update of weights over, most major first")
    update_min_bytes: int = option(1024, "smaller weights are updated on every device")

    def run(self, module: Operation) -> None:
        annotated = AnnotatedModule(module)
        if not self.update_axes:
            known = ", ".join(name for name, _ in annotated.mesh.axes)
            raise UsageError(f"pass '{self.argument}' has no axes", hint=f"set update-axes= to some of {known}")
        axes = tuple(annotated.mesh.axis(name) for name in self.update_axes)
        _Update(annotated, canonical(axes), self.update_min_bytes).run()


@dataclasses.dataclass(frozen=True, slots=True)
class _Updated:
    """Argument `argument` is replaced by result `result`, which `chain` computes."""

    argument: int
    result: int
    chain: frozenset[Operation]


class _Update:
    """The update in one program, with the shardings of its arguments and results."""

    def __init__(self, annotated: AnnotatedModule, axes: Axes, min_bytes: int) -> None:
        self._annotated = annotated
        self._axes = axes
        self._min_bytes = min_bytes
        self._block = annotated.function.regions[0]
        self._last = self._block.terminator

    def run(self) -> None:
        arguments, results = list(self._annotated.arguments), list(self._annotated.results)
        found = [updated for pair in self._pairs() if (updated := self._chain(*pair)) is not None]
        updating = {op for updated in found for op in updated.chain}
        for updated in found:
            value = self._block.arguments[updated.argument]
            type_ = value.type
            before = arguments[updated.argument] or replicated(self._annotated.mesh, type_.rank)
            split = self._split(updated, type_, before)
            if split is None:
                continue
            is_state = all(use.op in updating for use in value.uses())
            self._constrain(updated, split)
            arguments[updated.argument] = split if is_state else before.closed()
            results[updated.result] = split if is_state else (results[updated.result] or before).closed()
        self._write(arguments, results)

    def _pairs(self) -> Iterable[tuple[int, int]]:
        """Pairs of arguments and the results that replace them: by donation, else by position and type."""
        types = [value.type for value in self._last.operands]
        attributes = self._annotated.function.attributes
        entries = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
        donated = [(i, ir.IntegerAttr(e[_ALIAS]).value) for i, e in enumerate(entries) if _ALIAS in e]
        if donated:
            return donated
        pairs = enumerate(zip(self._block.arguments, types, strict=False))
        return [(i, i) for i, (argument, type_) in pairs if argument.type == type_]

    def _chain(self, argument: int, result: int) -> _Updated | None:
        """The elementwise operations that compute the result, if they start from the argument."""
        start, made = self._block.arguments[argument], self._last.operands[result]
        if not all(value.type.is_tensor for value in (start, made)):
            return None  # a token
        shape = made.type.shape
        chain: set[Operation] = set()
        stack, reached = [self._last.operands[result]], False
        while stack:
            value = stack.pop()
            reached = reached or value == start
            op = value.op
            if op is None or op in chain or not _keeps_elements(op, shape):
                continue
            chain.add(op)
            stack += [operand for operand in op.operands if operand.type.shape == shape]
        return _Updated(argument, result, frozenset(chain)) if reached and chain else None

    def _split(self, updated: _Updated, type_: TensorType, before: TensorSharding) -> TensorSharding | None:
        """The sharding with the axes added to the largest dimension that they divide, preferably an unsplit one."""
        op = self._last.operands[updated.result].maker
        if bytes_of(type_) < self._min_bytes:
            return None
        axes = tuple(axis for axis in self._axes if not overlap(before.used_axes(), (axis,)))
        if not axes:
            self._decline(op, "its weight is already split over them")
            return None
        count, counts = size_of(axes), before.shard_counts()
        able = [dim for dim, n in enumerate(type_.shape) if n % (counts[dim] * count) == 0]
        if not able:
            shape = "x".join(map(str, type_.shape))
            self._decline(op, f"no dimension of {shape} has shards whose size is a multiple of {count}")
            return None
        best = max(able, key=lambda dim: (counts[dim] == 1, type_.shape[dim] // counts[dim]))
        dims = tuple(canonical(mine + axes) if dim == best else mine for dim, mine in enumerate(before.dim_axes()))
        return before.with_axes(dims)

    def _decline(self, op: Operation, why: str) -> None:
        axes = print_axes(self._axes, self._annotated.mesh)
        remark(op, f"is an update that is not split over {axes} because {why}")

    def _constrain(self, updated: _Updated, split: TensorSharding) -> None:
        value = self._last.operands[updated.result]
        location = self._last.location if value.op is None else value.op.location
        said = {"sharding": self._annotated.codec.write(split)}
        constraint = Operation(CONSTRAINT, [value], [value.type], said, location).insert(Point.at(self._last))
        self._last.operands[updated.result] = constraint.result

    def _write(self, arguments: list[TensorSharding | None], results: list[TensorSharding | None]) -> None:
        """Write the shardings of arguments and results; None keeps the present one."""
        context = self._annotated.codec.context
        attributes = self._annotated.function.attributes
        for name, shardings in (("arg_attrs", arguments), ("res_attrs", results)):
            old = list(attributes[name]) if name in attributes else [ir.DictAttr.get({}, context)] * len(shardings)
            new = []
            for entry, sharding in zip(old, shardings, strict=True):
                pairs = as_dictionary(entry)
                if sharding is not None:
                    pairs["sdy.sharding"] = self._annotated.codec.write(sharding)
                new.append(ir.DictAttr.get(pairs, context))
            attributes[name] = ir.ArrayAttr.get(new, context)


def _keeps_elements(op: Operation, shape: tuple[int, ...]) -> bool:
    if op.name == "sdy.sharding_constraint":
        return bool(op.results[0].type.shape == shape)
    if not traits_of(op.name).elementwise or op.regions or len(op.results) != 1:
        return False
    operands = [operand.type.shape for operand in op.operands]
    return op.results[0].type.shape == shape and all(operand in (shape, ()) for operand in operands)

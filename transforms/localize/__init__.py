"""Localizing: the program of one device, on its shards.

In: a resharded module, in which every operation fits its rule. Out: per-device types, `stablehlo` collectives with
replica groups, and `stablehlo.partition_id`; no `sdy` is left. Its data type is `LocalOp`, an operation with the
shardings of its operands and results, which a localizer turns into per-device operations.

The local form of most operations is the same operation on smaller types. The others have a localizer in the file of
their family in `transforms/ops`. Steps of reshards are read back (`step_notation.py`) and emitted as they were decided.
"""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.own_attributes import UNREDUCED
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.partial_values import partial_sharding
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.modules import context_of, function_types, mesh_operations
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import Signature, ValueSignature, dictionaries, write_signature
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.localize.fitting import RESHARDED
from gspmd.transforms.localize.partial_values import drop_counts
from gspmd.transforms.localize.rewrite import Localizer
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED


@dataclasses.dataclass(frozen=True)
class Localize(Pass):
    """Replace global types by per-device types, and `sdy` collectives by those of StableHLO."""

    argument = "gspmd-localize"
    summary = "Rewrite the resharded program to per-device types and collectives"

    needs = (INGESTED, RESHARDED)

    list_groups_up_to: int = option(
        64, "largest mesh whose replica groups list partition ids; groups of larger meshes name mesh axes"
    )
    replicate_unsupported: bool = option(False, "run unsupported operations on gathered operands on every device")

    def run(self, module: Operation) -> None:
        annotated = AnnotatedModule(module)
        signature = _global_signature(annotated)
        entry = annotated.function.regions[0]
        emit = Emitter(context_of(module), annotated.mesh, entry, self.list_groups_up_to)
        Localizer(annotated, RuleBook(every_row(), self.replicate_unsupported), emit).run()
        emit.finish()
        drop_counts(annotated.function)
        _drop_annotations(annotated, self.list_groups_up_to)
        write_signature(module, signature)


def _global_signature(annotated: AnnotatedModule) -> Signature:
    def value(type_: TensorType, sharding: TensorSharding | None, entry: dict[str, ir.Attribute]) -> ValueSignature:
        sharding = sharding or replicated(annotated.mesh, len(type_.shape))
        if UNREDUCED in entry:
            if not type_.shape or type_.shape[0] != sharding.shard_counts()[0]:
                raise AnnotationError(
                    f"'{UNREDUCED}' on a value whose shape is not that of its summands: {type_.brief}"
                )
            return ValueSignature(type_.shape[1:], type_.element, partial_sharding(sharding))
        return ValueSignature(type_.shape, type_.element, sharding)

    def values(key: str, types: list[TensorType], shardings: list[TensorSharding | None]) -> tuple[ValueSignature, ...]:
        return tuple(map(value, types, shardings, dictionaries(annotated.function, key, len(types))))

    inputs, results = function_types(annotated.function)
    return Signature(
        annotated.mesh,
        values("arg_attrs", inputs, annotated.arguments),
        values("res_attrs", results, annotated.results),
    )


def _drop_annotations(annotated: AnnotatedModule, list_groups_up_to: int) -> None:
    """Remove attributes of earlier stages; the mesh stays if replica groups name it."""
    module, function = annotated.module, annotated.function
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            entries = [
                ir.DictAttr.get({key: value for key, value in entry.items() if key != "sdy.sharding"})
                for entry in dictionaries(function, name, 0)
            ]
            function.attributes[name] = ir.ArrayAttr.get(entries)
    if annotated.mesh.size <= list_groups_up_to:
        for op in mesh_operations(module):
            op.erase()

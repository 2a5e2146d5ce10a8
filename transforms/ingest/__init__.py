"""Ingest: bring the annotations and constructs of all frameworks into the one form that later stages read.

In: a verified module from any framework. Out: one function @main with all calls inlined, one `sdy.mesh` without axes of
size 1, `sdy.sharding` on arguments, results and operations, and `sdy.sharding_constraint` on intermediate values. Its
data type is the `Operation` tree, which it changes in place.

`Ingest.run` lists the steps in order; `survey` finds everything that they need in one walk. The steps that do more than
a change of notation:

- *Constants* (`equal_constants.py`). Equal constants are merged. Each use of a constant, an iota or a broadcast scalar
  gets its own slot later, so merging connects nothing; a third of the operations of an unrolled Transformer are such.
- *Calls* (`inlining.py`). jaxlib's `inline` pass does not inline `func.call`. Operations are counted on the call graph
  first, so that a program that would grow beyond the limit is refused before it does.
- *Shifts* (`shifts.py`). A slice of a slice is one slice, a slice of a reversal is the reversal of a slice, and a slice
  of a concatenation is a concatenation of slices. A value that is concatenated with itself and sliced is a rotation,
  for which shards exchange only the elements that move. The gradient of a roll, a sum of padded values, becomes a
  concatenation.
- *Reversals* (`reversals.py`). The gradient of a reversal is a reversal. If all paths from a reversal lead to reversals
  or to sums along the reversed dimension, none of the values between them is reversed.
- *Look-ups* (`one_per_row.py`). Indices that count along a batch, as in `x[arange(n), i]`, become batching dimensions.
  A scatter of one element into every row of zeros becomes a comparison with positions, which is fused into its
  consumer.
- *Device orders*. If annotations use device orders that do not factor over one mesh, the program gets the order in
  which most bytes enter and leave. Every other annotation is read with its devices renamed (`dialect/orders.py`), and
  `gspmd.device_ids` keeps the order of arguments and results.
- *Smaller meshes* (`repeated_meshes.py`). A mesh of fewer devices than the program has is repeated: it gets one more
  axis, along which groups of devices do the same work.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, Unsupported
from gspmd.dialect.limits import MAX_DEVICES
from gspmd.dialect.sdy_attrs import write_mesh
from gspmd.transforms.analysis.unused import PlainOps, drop_unused
from gspmd.transforms.ingest.annotate import rewrite_annotations
from gspmd.transforms.ingest.annotations import FRONTEND, called_by, read_annotations, stripped
from gspmd.transforms.ingest.batched_lookups import batch_lookups, joins_indices
from gspmd.transforms.ingest.boundaries import drop_copied_results
from gspmd.transforms.ingest.branches import inline_only_branches
from gspmd.transforms.ingest.elements import make_bodies_plain, make_function_plain
from gspmd.transforms.ingest.equal_constants import merge_constants
from gspmd.transforms.ingest.group_lists import list_groups
from gspmd.transforms.ingest.inlining import check_calls, inline_calls
from gspmd.transforms.ingest.legacy import modernise
from gspmd.transforms.ingest.lone_collectives import PARTITION, REPLICA, dissolve_lone
from gspmd.transforms.ingest.manual import convert_calls, manual_calls, manual_meshes, rewrite
from gspmd.transforms.ingest.one_per_row import compare_positions, is_one_per_row
from gspmd.transforms.ingest.orders import rename_devices
from gspmd.transforms.ingest.partial_values import leaves_partial, split_partial
from gspmd.transforms.ingest.repeated_meshes import number_all_devices
from gspmd.transforms.ingest.reversals import REVERSE, cancel_reversals
from gspmd.transforms.ingest.shapes import has_dynamic_shapes, refine, refuse_dynamic_shapes
from gspmd.transforms.ingest.shifts import join_shifts
from gspmd.transforms.ingest.started_collectives import replace_started
from gspmd.transforms.ingest.survey import Survey, find_main, functions_of, survey
from gspmd.transforms.ingest.target import Devices, TargetMesh
from gspmd.transforms.ingest.tuples import flatten_custom_calls, flatten_main, fold, hand_on, has_tuples
from gspmd.transforms.ingest.value_types import check_types
from gspmd.transforms.ir.attribute_kinds import check_module, check_operation, check_signature
from gspmd.transforms.ir.modules import context_of, create_mesh, mesh_operations, symbol
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import GROUP
from gspmd.transforms.ops.custom_rules import attach_rules, custom_calls, parse_custom_rules
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.passes import Pass, option

# The attributes that XLA's converter from HLO puts on every module.
_FROM_HLO = "mhlo.cross_program_prefetches"
_PARTITIONS, _REPLICAS = "mhlo.num_partitions", "mhlo.num_replicas"


@dataclasses.dataclass(frozen=True)
class Ingest(Pass):
    """Read the annotations of all frameworks, inline functions, and express everything on one mesh."""

    argument = "gspmd-ingest"
    summary = "Bring the annotations of all frameworks into the one form that the other passes read"

    num_partitions: int = option(
        0, "number of devices of a program without a mesh; 0 for that of the module", most=MAX_DEVICES
    )
    custom_rules: tuple[str, ...] = option((), "sharding rules of custom calls: TARGET=RULE,...")

    def run(self, module: Operation) -> None:
        self.ingest(module)

    def ingest(self, module: Operation, open_sums: bool = True) -> None:
        """Run the pass; with `open_sums`, sums that manual computations return are taken outside of these."""
        with _in_module(module):
            check_module(module)
            devices = Devices(_module_count(module, _PARTITIONS), self.num_partitions or None)
            _check_replicas(module)
            found = _prepare(module)
            list_groups(module, found.collectives())
            annotations = read_annotations(module, found, devices.said)
            calls = manual_calls(found.all("func.call"))
            has_manual = bool(calls or found.all("sdy.manual_computation"))
            target = TargetMesh(annotations, devices, found.main, has_manual, manual_meshes(annotations, found))
            found = _convert_manual(module, found, calls, target)
            named = {name for op in found.all("stablehlo.custom_call") for name in called_by(op)}
            main = symbol(found.main)
            attach_rules(rewrite_annotations(found, target), parse_custom_rules(self.custom_rules))
            inline_only_branches(found.all("stablehlo.case"))
            may_batch = any(map(joins_indices, found.lookups))
            compares = may_batch or any(map(is_one_per_row, found.lookups))
            inline_calls(found, named)
            if annotations.has_fewer:
                number_all_devices(found.main)
            if target.orders is not None:
                rename_devices(found.main, target.mesh)
            if has_manual or leaves_partial(found.main):
                split_partial(found.main, target, open_sums)
            if found.collectives() or found.all(REPLICA, PARTITION):
                dissolve_lone(found.main, devices.module == 1)
            make_bodies_plain(found.main)
            if may_batch:
                batch_lookups(found.main)
            if compares:
                compare_positions(found.main)
            if REVERSE in found.rearranges:
                cancel_reversals(found.main)
            if found.rearranges:
                join_shifts(found.main)
            drop_unused(found.main.regions[0], PlainOps(calls=False))  # functions may be asked about calls
            if not found.all(GROUP):  # which are about values, not about their uses
                merge_constants(found.main)
            _write_module(module, target)
            _finish(module, main, has_tuples(found.types))


@contextlib.contextmanager
def _in_module(module: Operation) -> Iterator[None]:
    """Errors without an operation get the location of the module, if it has one."""
    try:
        yield
    except Error as error:
        place = source_location(module.location)
        raise error.at(place if place is not None and place.line else None) from None


def _module_count(module: Operation, name: str) -> int | None:
    attribute = module.attributes.get(name)
    return None if attribute is None else int(attribute.value)


def _check_replicas(module: Operation) -> None:
    count = _module_count(module, _REPLICAS)
    if count is not None and count > 1:
        raise Unsupported(
            f"a program of {count} replicas", hint="make the replicas an axis of the mesh", code=Code.REPLICAS
        )


def _prepare(module: Operation) -> Survey:
    """Convert functions, tuples, shapes and legacy operations to current StableHLO; annotations stay as they are."""
    functions = functions_of(module)
    entry = functions[find_main(functions)]
    check_signature(entry)
    flatten_main(entry)
    found = survey(module)
    check_calls(found)
    for op in found.known():
        check_operation(op)
    if has_dynamic_shapes(found):
        found = survey(module) if refine(module, found) else found
        if has_dynamic_shapes(found):
            refuse_dynamic_shapes(found)
    check_types(found)
    if _FROM_HLO in module.attributes:
        drop_copied_results(found.functions)
    changed = hand_on(found.all("stablehlo.tuple", "stablehlo.get_tuple_element"))
    changed |= replace_started(found.all("stablehlo.custom_call"))
    changed |= flatten_custom_calls(found.all("stablehlo.custom_call"))
    if changed:
        found = survey(module)
    return modernise(module, found)


def _convert_manual(module: Operation, found: Survey, calls: list[Operation], target: TargetMesh) -> Survey:
    """Express manual computations in the axes of the target; those written as calls become regions."""
    for op in found.all("sdy.manual_computation"):
        rewrite(op, target)
    if not calls:
        return found
    convert_calls(calls, target)
    return survey(module)


def _write_module(module: Operation, target: TargetMesh) -> None:
    """Declare one mesh and the number of its devices."""
    kept = None
    attribute = write_mesh(target.mesh, context_of(module))
    for op in mesh_operations(module):
        if kept is None and symbol(op) == target.mesh.name and op.attributes["mesh"] == attribute:
            kept = op
        else:
            op.erase()
    if kept is None:
        create_mesh(target.mesh, Point.at_begin(module.regions[0]), module.location)
    attributes = module.attributes
    attributes[_PARTITIONS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), target.mesh.size)
    if FRONTEND in attributes:
        rest = stripped(ir.DictAttr.get({FRONTEND: attributes[FRONTEND]}))
        del attributes[FRONTEND]
        for name, value in rest.items():
            attributes[name] = value


def _named_from(entry: Operation, functions: Mapping[str, Operation]) -> set[str]:
    """The functions that custom calls name in @main, transitively."""
    named: set[str] = set()
    pending = [entry]
    while pending:
        found = {name for op in custom_calls(pending.pop()) for name in called_by(op)} - named
        named |= found
        pending += [functions[name] for name in found if name in functions]
    return named


def _finish(module: Operation, main: str, tuples: bool) -> None:
    """Keep @main, public and without foldable tuples, and the functions that custom calls name; erase the others."""
    functions = functions_of(module)
    entry = functions[main]
    named = _named_from(entry, functions)
    for name, function in functions.items():
        if name in named:
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        if name != main:
            if name in named:
                make_function_plain(function)
            else:
                function.erase()
            continue
        if tuples:
            fold(function)
        function.attributes["sym_name"] = ir.StringAttr.get("main")
        function.attributes["sym_visibility"] = ir.StringAttr.get("public")

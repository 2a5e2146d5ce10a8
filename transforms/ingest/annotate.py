"""Writing annotations: every annotation becomes one of `sdy`, in the axes of the target."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.own_attributes import ANNOTATED, CALL_DEVICE
from gspmd.transforms.ingest.annotations import PREFIX, OpAnnotation, frontend, given, parse_carried, strip
from gspmd.transforms.ingest.boundaries import RESULT_MARKER, ResultMarkers, rewrite_call, rewrite_callee, rewrite_main
from gspmd.transforms.ingest.edits import create
from gspmd.transforms.ingest.groups import constrain_groups
from gspmd.transforms.ingest.manual import dissolve_named
from gspmd.transforms.ingest.markers import convert_markers, target_name
from gspmd.transforms.ingest.partial_values import before_constraints, is_left_partial
from gspmd.transforms.ingest.survey import Survey
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.callbacks import is_callback, is_one_call
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.native import check_fits
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.parsing.mlir import located

# Operations of `sdy` that constrain a value to a sharding. The user writes a reshard.
_CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
_KEPT = {"sdy.manual_computation", "sdy.sharding_group", "sdy.propagation_barrier", "sdy.return", "sdy.mesh"}
_HANDLED = _KEPT | {*_CONSTRAINTS, "sdy.data_flow_edge", "sdy.named_computation"}


def rewrite_annotations(found: Survey, target: TargetMesh) -> list[Operation]:
    """Rewrite all annotations in the functions that @main reaches; returns the remaining custom calls.

    Raises Unsupported (located) for `sdy` operations that are the result of partitioning.
    """
    for name in found.found:
        if name.startswith("sdy.") and name not in _HANDLED:
            with located(found.found[name][0]):
                raise Unsupported(
                    "a collective of a partitioned program",
                    hint="give the program before partitioning",
                    code=Code.COMMUNICATION,
                )
    for op in found.all("sdy.named_computation"):
        dissolve_named(op, target)
    by_name: dict[bool, list[Operation]] = {True: [], False: []}
    for op in found.all("stablehlo.custom_call"):
        by_name[target_name(op) == RESULT_MARKER].append(op)
    markers = ResultMarkers(by_name[True], target)
    others = convert_markers(by_name[False], target)
    for op in (*found.annotated, *others, *found.all("stablehlo.case")):
        _rewrite(op, target)
    for op in found.all(*_CONSTRAINTS, "sdy.data_flow_edge"):
        _rewrite_constraint(op, target)
    for op in found.all("func.call"):
        rewrite_call(op, target)
    for function in found.functions[:-1]:
        rewrite_callee(function, target, markers)
    rewrite_main(found.main, target, markers)
    if found.all("sdy.sharding_group", "stablehlo.custom_call"):
        constrain_groups([op for op in found.main.walk() if op.name == "sdy.sharding_group"], found.main)
    return others


def _rewrite(op: Operation, target: TargetMesh) -> None:
    """An operation: its `sdy.sharding` gives the shardings of its results."""
    if op.name == "stablehlo.reshape" and not op.results[0].is_used:
        op.erase()  # XLA leaves annotated copies of the results of a program
        return
    with located(op):
        said = target.annotations.of(op.attributes)
        if said is not None and is_callback(op) and (device := target.device(said)) is not None:
            if is_one_call(op):
                op.attributes[CALL_DEVICE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), device)
            said = None
        rule = frontend(op.attributes).get(f"{PREFIX}sharding_rule")
        written = None if said is None else target.list_of(said, [value.type for value in op.results])
        strip(op)
        if rule is not None:
            op.attributes["sdy.sharding_rule"] = _carried_rule(rule, context_of(op))
            check_fits(op)
        if written is not None:
            op.attributes["sdy.sharding"] = written
            if any(sharding.says_something() for sharding in target.read_list(written)):
                op.attributes[ANNOTATED] = ir.UnitAttr.get(context_of(op))


def _carried_rule(text: str, context: ir.Context) -> ir.Attribute:
    attribute = parse_carried(text, context)
    if not sdy.OpShardingRuleAttr.isinstance(attribute):
        raise AnnotationError(f"frontend attribute '{PREFIX}sharding_rule' is '{text}'; expected a sharding rule")
    return attribute


def _rewrite_constraint(op: Operation, target: TargetMesh) -> None:
    """A constraint, reshard or data-flow edge; it is erased if it has no effect."""
    attributes = op.attributes
    value = op.operands[0]
    old = given(attributes, "sharding")
    new = None
    if old is not None:
        with located(op):
            new = target.attribute(old, value.type)
            if is_left_partial(OpAnnotation(target.annotations.attribute(old), None), value.type, target):
                new, value = None, before_constraints(value)
    if new is None:
        op.replace([value])
    elif op.name == "sdy.sharding_constraint":
        if new != old:
            attributes["sharding"] = new
        strip(op)
    else:
        op.replace([create("sdy.sharding_constraint", [value], [value.type], {"sharding": new}, op).result])

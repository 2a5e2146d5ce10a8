"""Sharding groups, which connect values beyond the data flow, and propagation barriers, which cut it.

The members of a group share one slot, so they get one sharding; the members of a group marked `gspmd.like` are only
connected by an identity rule. Both operations are removed when shardings are written.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import Axes, canonical, size_of, starts_with
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.notation import print_dims
from gspmd.dialect.own_attributes import LIKE
from gspmd.dialect.rule import Direction
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.manual import ops_in_regions
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import CONSTRAINT, GROUP, PROPAGATION_BARRIER, Op
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import located
from gspmd.transforms.propagate.graph import Graph
from gspmd.transforms.propagate.solver import Node

_DIRECTIONS = {1: Direction.FORWARD, 2: Direction.BACKWARD}


def join_hints(annotated: AnnotatedProgram, graph: Graph, rules: RuleBook) -> None:
    """Add barriers and groups to the graph.

    Errors: AnnotationError (located) for groups of values of different shapes, inside and outside of a manual
    computation, or annotated differently.
    """
    for op in annotated.program.ops:
        if op.info.name == PROPAGATION_BARRIER and op.info.results[0].shape:
            direction = _DIRECTIONS.get(op.info.integer("allowed_direction"))
            if direction is not None:
                rule = rules.identity(op.info.results[0].shape, direction)
                graph.nodes.append(Node(rule, (op.operand_slots[0], op.result_slots[0]), op.index))
    leaders: dict[int, int] = {}
    for members in _groups(annotated):
        if LIKE in members[0].info.attributes:
            _suggest(members, graph, rules)
        else:
            _unite(members, graph, leaders)
    if leaders:
        graph.nodes[:] = [_renamed(node, leaders) for node in graph.nodes]
        graph.leaders.update((slot, _leader(leaders, slot)) for slot in leaders)


def retire_hints(annotated: AnnotatedProgram) -> None:
    """Remove the groups; replace each barrier by a constraint with its sharding."""
    for op in annotated.program.ops:
        if op.info.name == GROUP:
            op.ir.erase()
        elif op.info.name == PROPAGATION_BARRIER:
            result = op.ir.results[0]
            solved = annotated.of_op(op) or (replicated(annotated.mesh, op.info.results[0].rank),)
            said = {"sharding": annotated.codec.write(solved[0])}
            constraint = Operation(CONSTRAINT, op.ir.operands, [result.type], said, op.ir.location)
            op.ir.replace([constraint.insert(Point.at(op.ir)).result])


def _groups(annotated: AnnotatedProgram) -> list[list[Op]]:
    """The members of each group."""
    found: dict[int | tuple[int, int], list[Op]] = {}
    regions: dict[int | tuple[int, int], int] = {}
    if not any(op.info.name == GROUP for op in annotated.program.ops):
        return []
    for op, _, region in ops_in_regions(annotated.program, annotated.codec, annotated.mesh):
        if op.info.name == GROUP:
            number = op.info.integer("group_id")
            key = (number, region) if LIKE in op.info.attributes else number
            found.setdefault(key, []).append(op)
            if regions.setdefault(key, region) != region:
                with located(op.ir):
                    raise AnnotationError(
                        f"puts a value into group {number}, which has members across a manual computation",
                        hint="group values on one side only",
                        code=Code.GROUP,
                    )
    return list(found.values())


def _suggest(members: list[Op], graph: Graph, rules: RuleBook) -> None:
    first = members[0]
    for op in members[1:]:
        shape = op.info.operands[0].shape
        if shape and shape == first.info.operands[0].shape:
            graph.nodes.append(Node(rules.identity(shape), (first.operand_slots[0], op.operand_slots[0]), op.index))


def _unite(members: list[Op], graph: Graph, leaders: dict[int, int]) -> None:
    """Let one slot stand for all members."""
    first, rest = members[0], members[1:]
    for op in rest:
        slot, other = _leader(leaders, first.operand_slots[0]), _leader(leaders, op.operand_slots[0])
        if slot == other:
            continue
        with located(op.ir):
            here, there = op.info.operands[0].shape, first.info.operands[0].shape
            if here != there:
                number = op.info.integer("group_id")
                raise AnnotationError(
                    f"puts a value of shape {list(here)} into group {number} of shape {list(there)}",
                    hint="group values of one shape",
                    code=Code.GROUP,
                )
            graph.initial[slot] = _merged(graph.initial[slot], graph.initial[other])
        leaders[other] = slot


def _leader(leaders: dict[int, int], slot: int) -> int:
    while slot in leaders:
        slot = leaders[slot]
    return slot


def _renamed(node: Node, leaders: dict[int, int]) -> Node:
    if not any(slot in leaders for slot in node.slots):
        return node
    return dataclasses.replace(node, slots=tuple(_leader(leaders, slot) for slot in node.slots))


def _merged(left: TensorSharding, right: TensorSharding) -> TensorSharding:
    """The merged annotation of two members of a group. Raises AnnotationError if they contradict each other."""
    dims = tuple(_merged_dim(a, b) for a, b in zip(left.dims, right.dims, strict=True))
    if any(dim is None for dim in dims):
        raise AnnotationError(
            f"puts a value that is annotated {print_dims(right)} into a group with one that is {print_dims(left)}",
            hint="annotate one of them only, or leave one out of the group",
            code=Code.CONTRADICTION,
        )
    kept: Axes = left.mesh.sorted(tuple({*left.replicated, *right.replicated}))
    made = tuple(dim for dim in dims if dim is not None)
    return dataclasses.replace(left, dims=made, replicated=canonical(kept))


def _merged_dim(left: DimSharding, right: DimSharding) -> DimSharding | None:
    if size_of(left.axes) < size_of(right.axes):
        left, right = right, left
    if not starts_with(left.axes, right.axes) or (left.axes != right.axes and not right.is_open):
        return None
    priorities = [dim.priority for dim in (left, right) if dim.priority is not None]
    is_open = left.is_open and right.is_open
    priority = min(priorities) if priorities and (left.axes or is_open) else None
    return DimSharding(left.axes, is_open, priority)

"""Remove annotations: the program for one device that a module computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.exchange.step_notation import STEPS
from gspmd.transforms.ingest.elements import REDUCING, widen_operands
from gspmd.transforms.ir.modules import codec_of, mesh_operations, symbol
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Attribute, Operation, Point
from gspmd.transforms.ir.program import COMPOSITE
from gspmd.transforms.ir.signature import DONATION, dictionaries, set_dictionaries
from gspmd.transforms.parsing.attribute_text import as_dictionary, text_of
from gspmd.transforms.parsing.mlir import source_location

# Operations that only set the memory of their first operand and return it.
_IDENTITY_OPS = STEPS | {
    "sdy.sharding_constraint",
    "sdy.propagation_barrier",
    "sdy.data_flow_edge",
    "sdy.sharded_to_unreduced",
    "sdy.replicated_to_unreduced",
}
_IDENTITY_CALLS = frozenset(
    ("Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier", "ShardBarrierFrom", "ShardBarrierTo")
)
_ERASED_OPS = frozenset(("sdy.mesh", "sdy.sharding_group"))
_ERASED_CALLS = frozenset(("xla.sdy.ShardingGroup",))
_MANUAL_OPS = frozenset(("sdy.manual_computation",))
_MANUAL_CALLS = frozenset(
    ("SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape")
)
_DROPPED_ATTRIBUTES = ("mhlo.sharding", "mhlo.num_partitions", "mhlo.num_replicas", *DONATION)


def has_manual_regions(module: Operation) -> bool:
    """Whether the program has manual regions (`shard_map`)."""
    return any(_is_manual(op) for op in _operations(module))


def strip(module: Operation) -> None:
    """Remove all annotations of sharding and donation from `module`, in place.

    Errors: Unsupported for a program with manual regions: what those compute depends on the mesh.
    """
    for op in _operations(module):
        if _is_manual(op):
            raise Unsupported(
                "has no meaning on one device",
                op=op.name,
                location=source_location(op.location),
                code=Code.MANUAL,
            )
    _strip(module, keep_manual=False)


def strip_outside_manual_regions(module: Operation) -> Mesh:
    """Remove all annotations except manual regions and their meshes; returns the mesh of the program.

    Errors: Unsupported for manual regions of other forms than `sdy.manual_computation`, or for
    programs whose manual regions are over meshes of different size.
    """
    codec = codec_of(module)
    meshes: set[Mesh] = set()
    for op in _operations(module):
        if _call_target(op) in _MANUAL_CALLS:
            raise Unsupported(
                f"@{_call_target(op)} cannot be run without partitioning",
                op=op.name,
                location=source_location(op.location),
                hint="write the manual region as sdy.manual_computation",
            )
        if op.name in _MANUAL_OPS:
            shardings = (s for key in ("in_shardings", "out_shardings") for s in codec.read_list(op.attributes[key]))
            meshes.update(sharding.mesh for sharding in shardings if sharding.mesh.axes)
    named = [mesh for mesh in codec.meshes.values() if mesh.axes and (mesh in meshes or not meshes)]
    sizes = {mesh.size for mesh in named}
    if len(sizes) != 1:
        raise Unsupported(
            f"program has manual regions over meshes of {len(sizes)} sizes, expected one size", code=Code.MANUAL
        )
    _strip(module, keep_manual=True)
    for op in mesh_operations(module):
        if codec.meshes[symbol(op)].size not in sizes:
            op.erase()
    return named[0]


def _strip(module: Operation, keep_manual: bool) -> None:
    for op in _operations(module):
        name, target = op.name, _call_target(op)
        if keep_manual and name in ("sdy.mesh", *_MANUAL_OPS):
            continue
        if name in _IDENTITY_OPS or target in _IDENTITY_CALLS:
            op.replace([op.operands[0]])
        elif name in _ERASED_OPS or target in _ERASED_CALLS:
            op.erase()
        elif name == "sdy.named_computation":
            op.inline()
        elif name == COMPOSITE:
            _call_decomposition(op)
        else:
            _drop_attributes(op)
            if op.name in REDUCING:
                widen_operands(op)
    _drop_attributes(module)


def _call_decomposition(op: Operation) -> None:
    """Replace a composite by its decomposition, which XLA ignores if it knows an operation of that name."""
    types, callee = [value.type for value in op.results], {"callee": op.attributes["decomposition"]}
    call = Operation("func.call", op.operands, types, callee, op.location).insert(Point.at(op))
    op.replace(call.results)


def _operations(module: Operation) -> list[Operation]:
    """All operations inside the module, inner ones before the enclosing ones."""

    def inside(op: Operation) -> Iterator[Operation]:
        for region in op.regions:
            for inner in region:
                yield from inside(inner)
                yield inner

    return list(inside(module))


def _call_target(op: Operation) -> str:
    if op.name != CUSTOM_CALL:
        return ""
    return text_of(op.attributes["call_target_name"])


def _is_manual(op: Operation) -> bool:
    return op.name in _MANUAL_OPS or _call_target(op) in _MANUAL_CALLS


def _drop_attributes(op: Operation) -> None:
    names = list(op.attributes)
    for name in names:
        if _is_annotation(name):
            del op.attributes[name]
    if "mhlo.frontend_attributes" in names:
        _set_or_delete(op.attributes, "mhlo.frontend_attributes", _frontend(op.attributes))
    if op.name == "func.func":
        for key in ("arg_attrs", "res_attrs"):
            if key in names:
                _drop_value_attributes(op, key)


def _drop_value_attributes(func: Operation, key: str) -> None:
    entries = []
    for entry in dictionaries(func, key, 0):
        kept = {name: attr for name, attr in entry.items() if not _is_annotation(name)}
        if "mhlo.frontend_attributes" in kept:
            _set_or_delete(kept, "mhlo.frontend_attributes", _frontend(kept))
        entries.append(kept)
    set_dictionaries(func, key, entries)


def _is_annotation(name: str) -> bool:
    return name in _DROPPED_ATTRIBUTES or name.startswith(("sdy.", "xla.sdy."))


def _frontend(attributes: Mapping[str, Attribute]) -> ir.DictAttr:
    """Frontend attributes without Shardy's."""
    entries = as_dictionary(attributes["mhlo.frontend_attributes"])
    return ir.DictAttr.get({name: attr for name, attr in entries.items() if not _is_annotation(name)})


def _set_or_delete(attributes: dict[str, Attribute], name: str, value: ir.DictAttr) -> None:
    if len(value):
        attributes[name] = value
    else:
        del attributes[name]

"""Operations without a rule: control flow, constraints, and operations that ingest replaces."""

from __future__ import annotations

from gspmd.transforms.ir.program import BARRIER, MANUAL
from gspmd.transforms.ops.contraction import vector_dot_flops
from gspmd.transforms.ops.traits import MOVED, PLAIN, UNKNOWN, Flops, Traits

_WORDS = {
    "its regions are partitioned, and what enters, leaves or stays in them shares one sharding": (
        "stablehlo.case stablehlo.if stablehlo.while"
    ),
    "every operand and its result share one sharding": "stablehlo.optimization_barrier",
    "ends the region of another operation": "stablehlo.return",
    "folded by ingest": "stablehlo.get_tuple_element stablehlo.tuple",
    "replaced by its decomposition, or by the operation of CHLO that decomposes so": ("stablehlo.composite"),
    "replaced by ingest with what means the same": """
        stablehlo.broadcast stablehlo.create_token stablehlo.dot stablehlo.einsum stablehlo.torch_index_select
        chlo.constant
    """,
}

STRUCTURE: dict[str, str] = {name: words for words, names in _WORDS.items() for name in names.split()}

_CONTROL = Traits(flops=MOVED, pure=False)  # its regions may contain any operation
_TRAITS = {
    _CONTROL: f"stablehlo.case stablehlo.if stablehlo.while {MANUAL}",
    Traits(flops=MOVED, view=True): BARRIER,
    Traits(pure=False): "stablehlo.return",
    Traits(flops=MOVED): """
        stablehlo.broadcast stablehlo.create_token stablehlo.get_tuple_element stablehlo.tuple
    """,
    Traits(flops=Flops("dot", vector_dot_flops)): "stablehlo.dot",
    PLAIN: "stablehlo.einsum stablehlo.torch_index_select chlo.constant",
    UNKNOWN: "stablehlo.composite",
}
OF_SHARDY = Traits(flops=MOVED)
"""The traits of `sdy` operations that annotate a value."""
STRUCTURE_TRAITS: dict[str, Traits] = {name: traits for traits, names in _TRAITS.items() for name in names.split()}
"""Their traits."""

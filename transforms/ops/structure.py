"""Operations that have no rule because they compute nothing, or are something else by then; and who deals with each."""

from __future__ import annotations

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

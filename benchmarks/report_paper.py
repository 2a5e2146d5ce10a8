"""The page of the documentation on the paper's dense Transformers, from what `paper_table.py` stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
_HEAD = """\
# The paper's dense Transformers, compiled for TPU v3

Written by `python benchmarks/paper_table.py --markdown docs/paper_table.md` (needs libtpu, and no TPU).

The models of section 5.1 of the GSPMD paper (arXiv 2105.04663): decoders with tied logits, heads of 256, a vocabulary
of 32,000 and sequences of 1,024; layers scanned and rematerialised, computed in bfloat16, weights in float32, second
moments factored; the finalised 2-D sharding. All are compiled by libtpu for a topology of TPU v3 cores, from the same
annotated function: by gspmd, whose output has nothing left to partition, and by the partitioners inside libtpu. Devices
are in the same order for all.

- *partition*: seconds of the partitioner; of XLA's, its passes in jaxlib's XLA. *compile*: all that libtpu takes.
- *peak*: arguments, results and temporaries of a core, of 16 GiB. *sends*: bytes of a core in a step, by ring
  algorithms, of the collectives that libtpu emitted, loops included.
- *utilisation*: operations of the model, without what is computed again, a second and core, against 61.5 Tflop/s:
  if no communication is hidden, and if all is. Compute is what the compiler estimates in cycles, communication what the
  links allow ([compile.md](compile.md) says how). No figure is measured on a TPU; they compare partitioners.
"""


def page(rows: Mapping[str, Any], hows: Sequence[str], cells: Mapping[str, Any]) -> str:
    """Markdown: a table a model."""
    lines = [_HEAD]
    for name, row in rows.items():
        known = {how: cells[f"{name}, {how}"] for how in hows if f"{name}, {how}" in cells}
        good = [cell for cell in known.values() if "error" not in cell]
        count = f", {good[0]['parameters'] / 1e9:.1f} billion parameters" if good else ""
        lines += [
            f"## {name}: {row.layers} layers of {row.model} x {row.hidden}, {row.heads} heads{count}",
            "",
            f"{row.devices} cores of TPU v3 ({row.chips} chips), mesh {row.x}x{row.y}, batch {row.batch}.",
            "",
            "| partitioner | partition | compile | peak | sends | of it "
            + ", ".join(_short(kind) for kind in _KINDS)
            + " | compute | communication | utilisation |",
            "|---|--:|--:|--:|--:|---|--:|--:|--:|",
            *(_line(how, cell) for how, cell in known.items()),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _short(kind: str) -> str:
    return {"all_gather": "gathered", "reduce_scatter": "reduce-scattered", "all_reduce": "all-reduced"}.get(
        kind, "all-to-all" if kind == "all_to_all" else "permuted"
    )


def _line(how: str, cell: Mapping[str, Any]) -> str:
    if "error" in cell:
        return f"| {how} | {cell['error']} | | | | | | | |"
    by_kind = ", ".join(f"{cell['sent'].get(kind, 0.0) / 2**30:.1f}" for kind in _KINDS)
    used = cell["utilisation"]
    return (
        f"| {how} | {cell['partition_s']:.1f} s | {cell['compile_s']:.0f} s | {cell['peak'] / 2**30:.1f} GiB "
        f"| {sum(cell['sent'].values()) / 2**30:.1f} GiB | {by_kind} | {cell['compute_s']:.2f} s "
        f"| {cell['communication_s']:.2f} s | {used['no_overlap']:.1%} to {used['all_overlap']:.1%} |"
    )

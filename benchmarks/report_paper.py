"""Pages of the documentation on the paper's models, from what `paper_table.py` and `paper_families.py` stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_BOTH, _OVERLAPPED = ("gspmd", "XLA GSPMD"), ", overlapped"
_KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
_HEAD = """\
# The paper's dense Transformers, compiled for TPU v3

Written by `python benchmarks/paper_table.py --markdown docs/measured/paper_table.md` (needs libtpu, and no TPU).

These are the models of section 5.1 of the GSPMD paper (arXiv 2105.04663): decoders with tied logits, heads of 256, a
vocabulary of 32,000 and sequences of 1,024. Layers are scanned and rematerialised and computed in bfloat16, weights are
in float32, second moments are factored, and the sharding is the finalised 2-D one. *128B as published* has the sizes
that the paper's authors published with their code for 2,048 cores: gated hidden units and heads of 128. All rows are
compiled by libtpu for a topology of TPU v3 cores, and all rows of a table from the same annotated function. In the
rows of gspmd, nothing is left for libtpu to partition; in the others, the partitioners inside libtpu run. The order of
devices is the same for all.

- *partition*: seconds of the partitioner; for XLA, of its passes in jaxlib's XLA. *compile*: everything in libtpu.
- *peak*: arguments, results and temporaries of a core, of 16 GiB. *sends*: bytes that a core sends in a step under ring
  algorithms, for the collectives that libtpu emitted, loops included.
- *utilisation*: operations of the model per second and core, without recomputation, relative to 61.5 Tflop/s. The
  three figures are for no hidden communication, for the compiler's schedule, and for all communication hidden. Compute
  is the compiler's estimate in cycles, and communication is estimated from the links ([compile.md](../compile.md) says
  how). No figure is measured on a TPU; they compare partitioners.
- *gathered again*: gspmd keeps gathered operands that both the forward and the backward products of a layer read,
  whereas XLA gathers them twice. With the option `keep-gathered-bytes`, here the size of three gathered activations,
  gspmd gathers those again that it would have to keep longest.
- *overlapped*: libtpu is asked to start gathers and permutes early (`xla_enable_async_all_gather`,
  `xla_enable_async_collective_permute`), for both partitioners; on later TPUs it does so by default. gspmd has
  `overlap=true`. It splits gathers for which products wait. If a reduce-scatter after a product is estimated to take
  longer, it computes the product in steps, whose partial sums are sent by permutes. Other rows have `overlap=false`.
"""

_TEXTS = """\
## Two texts of the same model

The result of a partitioner depends on how a model is written. The first text is
[decoder_lm.py](../../examples/decoder_lm.py), which annotates the results of each block. The second one,
[second_text.py](../../benchmarks/second_text.py), also annotates the values that are resharded in every layer: the
residual stream, the operands of a block's products as gathered over `y`, and their weights as gathered over `x`. The
table shows the bytes that a core sends in a step, and the utilisation, both without hidden communication and with the
communication that the compiler's schedule hides (*overlapped*).
"""

_TEXTS_MEANING = """\
XLA gathers an operand again for products that it partitions in another way. In the backward pass of the first text, it
gathers the operand of the queries, keys and values four times, and two of the weights twice. The annotations of the
second text avoid this: for the models of the paper's table, both partitioners then send equally much, to 1 %, and are
equally fast with nothing hidden. If only the residual stream, heads and hidden units are annotated, XLA sends 76.2 GiB
for 64B; with the gathered weights, too, 74.6 GiB; and with the operands of products, 63.4 GiB. gspmd's programs for
these three are nearly the same (62.8 to 63.0 GiB). The remaining difference is in the communication that the schedule
hides: up to 1.6 points of utilisation more.

On 128B as published, a core has 8192 / 64 = 128 elements of bfloat16 of the residual stream. libtpu replaces
reduce-scatters with 128 such elements in their results by all-reduces
([compile.md](../compile.md#reduce-scatters-in-libtpu)): of the 265 GiB that a core sends in XLA's program for the
second text, 158 are all-reduced. gspmd also sent 265 GiB, and now gives these values a layout with which libtpu keeps
the reduce-scatters, in both texts:

| gspmd | sends | of it reduce-scattered, all-reduced | compute | communication | utilisation | overlapped |
|---|--:|---|--:|--:|--:|--:|
| first text, before | 264.7 GiB | 3.9, 158.1 | 5.41 s | 1.53 s | 50.3% | 54.1% |
| first text, now | {first} |
| second text, before | 264.6 GiB | 3.9, 158.1 | 5.38 s | 1.52 s | 50.6% | 54.1% |
| second text, now | {second} |

The authors of that configuration expect 62,000 tokens per second, which is 8.5 s for its batch of 512 sequences of
1,024. The estimates here are for the program of this page, whose attention has no relative position bias.

For TPU v3, libtpu can start permutes early, but not reduce-scatters. So in the overlapped rows, gspmd computes products
of 64B, 128B and 1T in steps whose partial sums are sent by permutes
([collective matmul](../optimization.md#gspmd-collective-matmul)). The compiler's estimate for the products of all steps
is 2 to 3 % above that for whole products, and the permutes are hidden behind them. For 256B and 128B as published, the
products of the steps would be too small. The following table has the communication that stays exposed there, in the
first text, by the compiler's schedule. Each column is the time that the step would save if these collectives took none:

| model | unhidden | reduce-scatters | gathers of activations | gathers of weights |
|---|--:|--:|--:|--:|
| 256B | 1.84 s of 21.86 s | 1.37 s | 0.35 s | 0.09 s |
| 128B as published | 0.60 s of 5.95 s | 0.48 s | 0.10 s | 0.00 s |

Gathering the weights of a layer during the previous layer would hide the last column, which is at most 0.4% of a step,
and would keep the weights of two layers live. So gspmd does not do it.
"""


_FAMILIES = """\
# The paper's other models, compiled for TPUs

Written by `python benchmarks/paper_families.py --markdown docs/measured/paper_families.md` (needs libtpu, and no TPU).

These are training steps of the [examples](../../examples), at sizes of the GSPMD paper (arXiv 2105.04663, sections 5.2
to 5.6), on the topologies of the paper or similar ones. They are computed in bfloat16 and rematerialised, except for
the U-Net, which is in float32. Columns are those of [paper_table.md](paper_table.md). Nothing is measured on a TPU.
"""

_GROWING = """\
## One program on more and more devices

The program is a decoder of 2 scanned layers of 2048 x 8192. *module* is the size of gspmd's module, and *HLO* that of
libtpu's HLO for it; *groups* and *permutes* are the lists of devices in the HLO. gspmd writes groups as names of mesh
axes. With jaxlib 0.12 they arrive in that form, as `mesh['x'=8,'y'=16] {'y'}`. The figures are from jaxlib 0.10, which
writes modules for plugins in StableHLO 1.13, where groups can only be lists. libtpu prints these lists unchanged,
whereas groups from the partitioner inside libtpu can have the form `[64,32]<=[2048]`. The sources and targets of
permutes have no compact form anywhere. Lists grow linearly with the number of devices, and nothing grows with its
square.
"""


def page(rows: Mapping[str, Any], hows: Sequence[str], cells: Mapping[str, Any]) -> str:
    """Markdown: the texts side by side, and a table for each model in each text."""
    lines = [_HEAD, _TEXTS, *_texts(rows, cells), "", _meaning(cells)]
    for name, row in rows.items():
        known = _known(name, hows, cells)
        gated = " and a gate" if row.gated else ""
        title = (
            f"{name}: {row.layers} layers of {row.model} x {row.hidden}{gated}, {row.heads} heads of {row.head_size}"
        )
        where = f"{row.devices} cores of TPU v3 ({row.chips} chips), mesh {row.x}x{row.y}, batch {row.batch}."
        lines += [f"## {title}{_parameters(known)}", "", where, "", *_table(known), ""]
    return "\n".join(lines).rstrip() + "\n"


def families(rows: Mapping[str, Any], growing: Mapping[str, Any], hows: Sequence[str], cells: Mapping[str, Any]) -> str:
    """The same of other models, and of one program on ever more devices what its size is."""
    lines = [_FAMILIES]
    for name, row in rows.items():
        known = _known(name, hows, cells)
        mesh = ", ".join(f"{axis}={size}" for axis, size in row.mesh.items())
        where = (
            f"{row.summary[0].upper()}{row.summary[1:]}; `{row.target}`, mesh {mesh}, batch {row.settings['batch']}."
        )
        lines += [f"## {name}{_parameters(known)}", "", where, "", *_table(known), ""]
    lines += [_GROWING, *_growing(growing, hows, cells)]
    return "\n".join(lines).rstrip() + "\n"


def _texts(rows: Mapping[str, Any], cells: Mapping[str, Any]) -> list[str]:
    """A line for each row: what gspmd and XLA GSPMD send, and how busy that leaves a core."""
    lines = [
        "| model | gspmd sends | XLA GSPMD | utilisation of gspmd | XLA GSPMD | gspmd, overlapped | XLA GSPMD |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in rows:
        plain, hidden = ([cells.get(f"{name}, {who}{how}", {}) for who in _BOTH] for how in ("", _OVERLAPPED))
        if any("utilisation" not in cell for cell in (*plain, *hidden)):
            continue
        sends = [f"{sum(cell['sent'].values()) / 2**30:.1f} GiB" for cell in plain]
        used = [f"{cell['utilisation']['no_overlap']:.1%}" for cell in plain]
        used += [f"{cell['utilisation']['scheduled']:.1%}" for cell in hidden]
        lines.append(f"| {name} | {' | '.join(sends + used)} |")
    return lines


def _meaning(cells: Mapping[str, Any]) -> str:
    """What the texts show, with the figures of the published configuration as they are now."""
    now = []
    for name in ("128B as published", "128B as published second text"):
        plain, hidden = (cells.get(f"{name}, {_BOTH[0]}{how}", {}) for how in ("", _OVERLAPPED))
        if any("utilisation" not in cell for cell in (plain, hidden)):
            now.append("not measured | | | | |")
            continue
        sent = plain["sent"]
        parts = (
            f"{sum(sent.values()) / 2**30:.1f} GiB",
            ", ".join(f"{sent.get(kind, 0.0) / 2**30:.1f}" for kind in ("reduce_scatter", "all_reduce")),
            _seconds(plain["compute_s"]),
            _seconds(plain["communication_s"]),
            f"{plain['utilisation']['no_overlap']:.1%}",
            f"{hidden['utilisation']['scheduled']:.1%}",
        )
        now.append(" | ".join(parts))
    return _TEXTS_MEANING.format(first=now[0], second=now[1])


def _growing(rows: Mapping[str, Any], hows: Sequence[str], cells: Mapping[str, Any]) -> list[str]:
    lines = ["| topology | mesh | partitioner | partition | compile | module | HLO | its groups | its permutes |"]
    lines.append("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for name, row in rows.items():
        for how, cell in _known(name, hows, cells).items():
            where = f"{row.target.removeprefix('tpu:')} | {'x'.join(map(str, row.mesh.values()))} | {how}"
            if "error" in cell:
                lines.append(f"| {where} | {cell['error']} | | | | | |")
                continue
            module = f"{cell['module_bytes'] / 1e3:.0f} kB" if "module_bytes" in cell else ""
            sizes = " | ".join(f"{cell[key] / 1e3:.0f} kB" for key in ("hlo_bytes", "group_bytes", "pair_bytes"))
            lines.append(f"| {where} | {cell['partition_s']:.2f} s | {cell['compile_s']:.0f} s | {module} | {sizes} |")
    return lines


def _known(name: str, hows: Sequence[str], cells: Mapping[str, Any]) -> dict[str, Any]:
    return {how: cells[f"{name}, {how}"] for how in hows if f"{name}, {how}" in cells}


def _parameters(known: Mapping[str, Any]) -> str:
    counts = [cell["parameters"] for cell in known.values() if "error" not in cell]
    if not counts:
        return ""
    return (
        f", {counts[0] / 1e9:.1f} billion parameters"
        if counts[0] > 1e8
        else f", {counts[0] / 1e6:.0f} million parameters"
    )


def _table(known: Mapping[str, Any]) -> list[str]:
    kinds = ", ".join(_short(kind) for kind in _KINDS)
    return [
        f"| partitioner | partition | compile | peak | sends | of it {kinds} | compute | communication | utilisation |",
        "|---|--:|--:|--:|--:|---|--:|--:|--:|",
        *(_line(how, cell) for how, cell in known.items()),
    ]


def _short(kind: str) -> str:
    return {"all_gather": "gathered", "reduce_scatter": "reduce-scattered", "all_reduce": "all-reduced"}.get(
        kind, "all-to-all" if kind == "all_to_all" else "permuted"
    )


def _line(how: str, cell: Mapping[str, Any]) -> str:
    if "error" in cell:
        return f"| {how} | {cell['error']} | | | | | | | |"
    by_kind = ", ".join(f"{cell['sent'].get(kind, 0.0) / 2**30:.1f}" for kind in _KINDS)
    used = ", ".join(f"{cell['utilisation'][key]:.1%}" for key in ("no_overlap", "scheduled", "all_overlap"))
    return (
        f"| {how} | {cell['partition_s']:.1f} s | {cell['compile_s']:.0f} s | {_peak(cell)} "
        f"| {sum(cell['sent'].values()) / 2**30:.1f} GiB | {by_kind} | {_seconds(cell['compute_s'])} "
        f"| {_seconds(cell['communication_s'])} | {used} |"
    )


def _peak(cell: Mapping[str, Any]) -> str:
    limit = f" of {cell['limit'] / 2**30:.0f}" if "limit" in cell else ""
    return f"{cell['peak'] / 2**30:.1f}{limit} GiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"

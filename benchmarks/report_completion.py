"""The comparison of completions as text and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from comparison import Comparison

from gspmd.tables import table

Found = Mapping[str, Sequence[Comparison]]


def lines(name: str, comparisons: Sequence[Comparison]) -> list[str]:
    """One program: a line a peer, and one a region of differing values."""
    out = []
    for c in comparisons:
        out.append(
            f"{name}, {c.peer}: {c.differing} of {c.values} values differ; bytes sent {c.our_bytes:,} with ours, "
            f"{c.their_bytes:,} with {c.peer}'s"
        )
        out += [
            f"    {region.where}: ours {region.ours}, {c.peer} {region.theirs}"
            f" ({len(region.names)} values; {c.peer}'s {_cost(region.extra_bytes)})"
            for region in c.regions
        ]
    return out


def _cost(extra: int) -> str:
    if not extra:
        return "costs the same"
    return f"costs {abs(extra):,} bytes {'more' if extra > 0 else 'less'}"


def summary(found: Found) -> list[str]:
    """All programs: how many values were compared with each peer, how many differ, and the bytes of either."""
    rows = [["peer", "programs", "values", "differ", "bytes, ours", "bytes, peer's", "ours dearer on"]]
    for peer in dict.fromkeys(c.peer for comparisons in found.values() for c in comparisons):
        mine = [c for comparisons in found.values() for c in comparisons if c.peer == peer]
        rows.append(
            [
                peer,
                str(len(mine)),
                f"{sum(c.values for c in mine):,}",
                f"{sum(c.differing for c in mine):,}",
                f"{sum(c.our_bytes for c in mine):,}",
                f"{sum(c.their_bytes for c in mine):,}",
                str(sum(c.our_bytes > c.their_bytes for c in mine)),
            ]
        )
    return table(rows, right=range(1, 7))


def page(found: Found) -> str:
    """The page `docs/measured/completion.md`."""
    out = [_HEAD]
    out.append(
        "| program | peer | values | differ | bytes sent with ours | with the peer's |\n|---|---|--:|--:|--:|--:|"
    )
    out += [
        f"| `{name}` | {c.peer} | {c.values} | {c.differing} | {c.our_bytes:,} | {c.their_bytes:,} |"
        for name, comparisons in found.items()
        for c in comparisons
    ]
    out.append("\n## Every difference\n")
    out.append("Adjacent values that differ are in one row, which names the first of them.\n")
    out.append("| program | peer | value | ours | peer's | values | the peer's costs |\n|---|---|---|---|---|--:|--:|")
    for name, comparisons in found.items():
        for c in comparisons:
            for region in c.regions:
                cost = f"{region.extra_bytes:+,}" if region.extra_bytes else "the same"
                out.append(
                    f"| `{name}` | {c.peer} | {region.where} | `{region.ours}` | `{region.theirs}` | "
                    f"{len(region.names)} | {cost} |"
                )
    return "\n".join(out) + "\n"


_HEAD = """# Completed shardings beside Shardy's and XLA's

Written by `python benchmarks/completion.py --markdown docs/measured/completion.md`. The same annotated program is
completed by `gspmd-propagate`, by Shardy (`sdy-propagation-pipeline`) and by XLA (`sharding-propagation`), all in
jaxlib 0.10.2, and compared value by value, except for constants, of which every use gets its own shard. Bytes are those
that a device sends in one call of the program if gspmd partitions it by each completion, so that only the completion
differs. XLA is left out if GSPMD has no equivalent for an annotation of the program.
"""

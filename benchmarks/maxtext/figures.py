"""What a compiled program does in a call, read from its optimised HLO in the same way whoever partitioned it."""

from __future__ import annotations

from typing import Any

import hlo_counts


def figures(compiled: Any) -> dict[str, Any]:
    """Bytes sent and collectives by kind, arithmetic, and memory of one device; `compiled` is JAX's or gspmd's.

    `sent_scattered` counts all-reduces of which every device goes on with its own part as reduce-scatters.
    """
    text = compiled.as_text()
    counts = hlo_counts.count(text)
    return {
        "sent": counts.sent,
        "sent_scattered": counts.scattered_bytes,
        "collectives": counts.number,
        "flops": counts.flops,
        "unknown_loops": counts.unknown_loops,
        "memory": memory(compiled.memory_analysis()),
    }


def memory(stats: Any) -> dict[str, int]:
    """Bytes of a device by what is in them, and the most that there is at once as far as XLA says."""
    found = {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
    }
    found["peak"] = found["arguments"] + found["results"] - found["aliased"] + found["temporaries"]
    return found

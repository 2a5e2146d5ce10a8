"""What communication and memory traffic cost in time, per device.

Ring formulas: a collective over k devices sends (k - 1) / k of the gathered or scattered bytes over a
device's link, an all-reduce twice that. Units: bytes and seconds.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Hardware:
    """A device and its links. The defaults are of the order of a current accelerator."""

    link_bytes_per_s: float = 1e11
    collective_latency_s: float = 1e-6
    memory_bytes_per_s: float = 1e12
    flops_per_s: float = 1e14


def sent_bytes(kind: str, local_bytes: float, devices: int) -> float:
    """Bytes a device sends in one collective; `local_bytes` is the size of its operand."""
    if kind == "all_gather":
        return local_bytes * (devices - 1)
    if kind == "all_reduce":
        return 2 * local_bytes * (devices - 1) / devices
    if kind in ("reduce_scatter", "all_to_all"):
        return local_bytes * (devices - 1) / devices
    if kind == "collective_permute":
        return local_bytes
    return 0.0


def collective_time(kind: str, local_bytes: float, devices: int, hardware: Hardware) -> float:
    """Seconds for one collective on an operand of `local_bytes` over groups of `devices`."""
    return hardware.collective_latency_s + sent_bytes(kind, local_bytes, devices) / hardware.link_bytes_per_s

"""Writes docs/targets.md: the hardware that is known by name, with the figures that programs are priced by.

Run `python docs/generate.py targets` after a change to a target.
"""

from __future__ import annotations

from pathlib import Path

from gspmd.transforms.machine import targets as known
from gspmd.transforms.machine.targets import GIB, TARGETS, TOPOLOGIES, Network, Target

PAGE = Path(__file__).with_name("targets.md")

_INTRODUCTION = f"""# Targets

These are the targets that `--target` knows by name. The page is written by `docs/generate_targets.py`, and
[cost.md](cost.md#targets) says how to describe other hardware. Figures are per device. Arithmetic is in operations per
second on elements of a type; types that are not listed have the lowest rate. Links are in bytes per second one way. A
dimension of a torus is a ring if its length is a multiple of the number given.

In the name of a topology, such as `tpu:v5p:4x4x8`, the version is one of
{", ".join(f"`{each}`" for each in TOPOLOGIES)}.
There, a chip of two cores is two devices, each with half of the figures of the chip; `-megacore` is the chip as one
device. Several slices are `tpu:v5p:4x4x8*2`, and hosts or racks of GPUs `gpu:h100:8*4`.
[cost.md](cost.md#communication) says what else such a name may have.
"""
_HEAD = ("target", "a device is", "arithmetic", "memory", "bandwidth", "network inside", "devices", "outside")


def targets() -> str:
    """The page."""
    lines = [_INTRODUCTION, f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    lines += [f"| {' | '.join(_row(target))} |" for target in TARGETS.values()]
    sources = (known.__doc__ or "").split("\n\n", 1)[1].strip()
    return "\n".join([*lines, "", "## Sources", "", sources]) + "\n"


def _row(target: Target) -> tuple[str, ...]:
    rates = [f"{element} {flops / 1e12:g} T" for element, flops in target.flops.items()]
    return (
        f"`{target.name}`",
        _device(target),
        ", ".join(rates),
        _bytes(target.memory_bytes),
        f"{target.memory_bytes_per_s / 1e9:g} GB/s",
        _network(target.network),
        str(target.domain),
        f"{target.outside.bytes_per_s / 1e9:g} GB/s" if target.outside else "",
    )


def _device(target: Target) -> str:
    if not target.network.dims:
        return "a GPU"
    if target.chip_devices == 1:
        return "a chip"
    return f"a chip of {target.chip_devices} cores" if target.fused else "a core"


def _bytes(count: float) -> str:
    return f"{count / GIB:g} GiB" if count % GIB == 0 else f"{count / 1e9:g} GB"


def _network(network: Network) -> str:
    link = f"{network.bytes_per_s / 1e9:g} GB/s, {network.latency_s * 1e6:g} us"
    if not network.dims:
        return f"switch, {link}"
    return f"{network.dims}D torus, {link} a link, rings at multiples of {network.wrap}"

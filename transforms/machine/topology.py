"""Names of machines by shape: `tpu:v5p:4x4x8` is a torus of chips, `tpu:v5e:16x16*2` two slices.

`gpu:h100:8*4` is four domains (hosts, or racks where NVLink spans these) of eight GPUs. After `@` the name has the
device order (`device_order.py`); without one, meshes get the best placement.
Source: the topology names of libtpu, such as `v5p:8x8x8`.
"""

from __future__ import annotations

import re

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.transforms.machine.device_order import Order, order_text, parse_order
from gspmd.transforms.machine.targets import GPUS, TOPOLOGIES, Target
from gspmd.transforms.machine.torus import Torus

_KINDS = {"tpu": TOPOLOGIES, "gpu": GPUS}
_SHAPE = re.compile(r"([1-9][0-9]{0,9}(?:x[1-9][0-9]{0,9})*)(?:\*([1-9][0-9]{0,9}))?")


def is_machine(text: str) -> bool:
    """Whether a target has a topology. Raises UsageError unless it is a text."""
    if not isinstance(text, str):
        raise UsageError(f"target is {shown(text)}, expected a name or a path", code=Code.BAD_VALUE)
    kind, _, rest = text.partition(":")
    return kind in _KINDS and bool(rest) and not rest.isdigit()


def is_topology(text: str) -> bool:
    """Whether a target is a torus of chips, such as `tpu:v5p:8x8x8`, for which programs can be compiled anywhere."""
    return is_machine(text) and text.startswith("tpu:")


def version_in(text: str) -> str:
    """The version in such a name, such as `v5p`."""
    return text.split(":")[1]


def read_machine(text: str) -> Target:
    """The target with such a name. Errors: UsageError for an unknown or invalid one."""
    name, at, order = text.partition("@")
    kind, _, rest = name.partition(":")
    version, _, shape = rest.partition(":")
    target = _KINDS[kind].get(version)
    if target is None:
        raise UsageError(
            f"unknown {kind.upper()} '{version}' in target '{text}'",
            hint=f"known are {', '.join(_KINDS[kind])}",
            code=Code.UNKNOWN_TARGET,
        )
    match = _SHAPE.fullmatch(shape)
    if match is None:
        raise UsageError(
            f"target '{text}' has no topology",
            hint=f"write it as {kind}:{example_of(version)}",
            code=Code.UNKNOWN_TARGET,
        )
    dims, slices = tuple(map(int, match[1].split("x"))), int(match[2] or 1)
    found = target.on(dims, slices)
    if not at:
        return found
    assert found.torus is not None, "a machine has places"
    return target.on(dims, slices, parse_order(order, found.torus))


def machine_text(kind: str, version: str, torus: Torus, order: Order = ()) -> str:
    """The name of a machine of kind `tpu` or `gpu`, which `read_machine` reads."""
    name = f"{kind}:{version}:{torus.text}"
    return f"{name}@{order_text(order, torus)}" if order else name


def example_of(version: str) -> str:
    """An example topology of a version, such as `v5p:4x4x4`."""
    target = TOPOLOGIES.get(version)
    shape = "x".join(["4"] * target.network.dims) if target else str(GPUS[version].domain)
    return f"{version}:{shape}"

"""Which device orders @main's arguments and results are annotated with."""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.transforms.support.mlir import main_function
from gspmd.transforms.support.signature import (
    DEVICE_IDS,
    DeviceIds,
    device_orders,
    dictionaries,
    set_dictionaries,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """The device at each mesh position of every argument and result; None where any order will do."""

    arguments: tuple[DeviceIds | None, ...]
    results: tuple[DeviceIds | None, ...]


def take_boundary(module: ir.Module) -> Boundary | None:
    """What is written on a partitioned @main, which is taken off; None if nothing is."""
    func = main_function(module).operation
    found = Boundary(*device_orders(func))
    if not any(order is not None for order in (*found.arguments, *found.results)):
        return None
    with module.context:
        for key, orders in (("arg_attrs", found.arguments), ("res_attrs", found.results)):
            entries = dictionaries(func, key, len(orders))
            for entry in entries:
                entry.pop(DEVICE_IDS, None)
            set_dictionaries(func, key, entries)
    return found

"""Which device orders @main's arguments and results are annotated with."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.own_attributes import DEVICE_IDS, EXCHANGED
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import DeviceIds, device_orders, dictionaries, set_dictionaries


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """The device at each mesh position of every argument and result; None where any order will do.

    Those `exchanged` are brought from their order, or into it, by the program: to it they are values in its own order,
    that differ on all devices.
    """

    arguments: tuple[DeviceIds | None, ...]
    results: tuple[DeviceIds | None, ...]
    exchanged: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


def take_boundary(module: Operation) -> Boundary | None:
    """What is written on a partitioned @main, which is taken off; None if nothing is."""
    func = main_function(module)
    found = Boundary(*device_orders(func))
    if not any(order is not None for order in (*found.arguments, *found.results)):
        return None
    exchanged = []
    for key, orders in (("arg_attrs", found.arguments), ("res_attrs", found.results)):
        entries = dictionaries(func, key, len(orders))
        exchanged.append(frozenset(index for index, entry in enumerate(entries) if EXCHANGED in entry))
        for entry in entries:
            for name in (DEVICE_IDS, EXCHANGED):
                entry.pop(name, None)
        set_dictionaries(func, key, entries)
    return dataclasses.replace(found, exchanged=(exchanged[0], exchanged[1]))

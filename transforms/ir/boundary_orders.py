"""The device orders of arguments and results of @main, as attributes from `gspmd-ingest` to `gspmd-order`.

A device order is the device at each position of the mesh. Ingest chooses the orders; this file reads and writes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.common_mesh import order_of
from gspmd.dialect.device_order import DeviceOrder, expand
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.dialect.own_attributes import DEVICE_IDS, EXCHANGED
from gspmd.transforms.ir.modules import context_of, function_types
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries

DeviceIds: TypeAlias = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryOrders:
    """The device order of every argument and result; None if any order will do.

    The program itself permutes those in `exchanged`, arguments and results by number, from or to their order: to other
    stages they are values in the order of the mesh that differ on all devices.
    """

    arguments: tuple[DeviceIds | None, ...]
    results: tuple[DeviceIds | None, ...]
    exchanged: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    @property
    def given(self) -> list[DeviceIds]:
        """The orders that are not None."""
        return [order for order in (*self.arguments, *self.results) if order is not None]

    def distinct(self, mesh: Mesh) -> list[DeviceIds]:
        """All orders; that of the mesh is the first.

        Empty if no value has an order, so that large meshes are not listed.

        Errors: AnnotationError for one that is not a permutation of the devices.
        """
        if not self.given:
            return []
        own = expand(order_of(mesh))
        orders = list(dict.fromkeys([own, *self.given]))
        for order in orders:
            if sorted(order) != sorted(own):
                raise AnnotationError(
                    f"'{DEVICE_IDS}' is not an order of the {mesh.size} devices of the mesh {print_mesh(mesh)}",
                    hint="only gspmd-ingest writes it",
                    code=Code.DEVICE_LIST,
                )
        return orders


def order_attribute(order: DeviceOrder, context: ir.Context) -> ir.Attribute:
    """The attribute `DEVICE_IDS` of an argument, a result or a manual computation."""
    return ir.DenseI64ArrayAttr.get(list(expand(order)), context)


def read_orders(function: Operation) -> BoundaryOrders:
    """The orders on @main."""
    said: list[tuple[DeviceIds | None, ...]] = []
    exchanged: list[frozenset[int]] = []
    for entries in _entries(function).values():
        given = [entry.get(DEVICE_IDS) for entry in entries]
        said.append(tuple(None if order is None else tuple(ir.DenseI64ArrayAttr(order)) for order in given))
        exchanged.append(frozenset(index for index, entry in enumerate(entries) if EXCHANGED in entry))
    return BoundaryOrders(said[0], said[1], (exchanged[0], exchanged[1]))


def take_orders(function: Operation) -> BoundaryOrders | None:
    """Remove and return the orders on @main; None without any."""
    found = read_orders(function)
    if not found.given:
        return None
    for key, entries in _entries(function).items():
        for entry in entries:
            for name in (DEVICE_IDS, EXCHANGED):
                entry.pop(name, None)
        set_dictionaries(function, key, entries)
    return found


def mark_exchanged(
    function: Operation, arguments: Collection[int], results: Collection[int], own: Sequence[int]
) -> None:
    """Mark that the program permutes these from or to their order; those without one are in its `own`."""
    context = context_of(function)
    for (key, entries), chosen in zip(_entries(function).items(), (arguments, results), strict=True):
        for index in chosen:
            entries[index][EXCHANGED] = ir.UnitAttr.get(context)
            entries[index].setdefault(DEVICE_IDS, ir.DenseI64ArrayAttr.get(list(own), context))
        if chosen:
            set_dictionaries(function, key, entries)


def _entries(function: Operation) -> dict[str, list[dict[str, ir.Attribute]]]:
    """The attributes of all arguments, then those of all results."""
    keys, types = ("arg_attrs", "res_attrs"), function_types(function)
    return {key: dictionaries(function, key, len(of)) for key, of in zip(keys, types, strict=True)}

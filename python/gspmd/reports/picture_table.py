"""The pictures of a report, one per shape and sharding."""

from __future__ import annotations

from typing import Any

from gspmd.dialect.sharding import TensorSharding
from gspmd.pictures.shards import Parts, ShardPicture, devices_label, shard_picture

_MAX = 12  # rows and columns
_LISTED_DEVICES = 64  # largest mesh whose devices are listed one by one


class PictureTable:
    """Numbers pictures by shape and sharding."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[int, ...], TensorSharding], int] = {}

    def number(self, shape: tuple[int, ...], sharding: TensorSharding) -> int:
        """The number of the picture of a value; -1 inside a manual computation, where values belong to one device."""
        if sharding.manual or sharding.rank != len(shape):
            return -1
        return self._numbers.setdefault((shape, sharding), len(self._numbers))

    def pictures(self) -> tuple[dict[str, Any], ...]:
        """All pictures, in the order of their numbers."""
        return tuple(
            _described(shard_picture(shape, sharding, _MAX, _MAX), sharding.mesh.size <= _LISTED_DEVICES)
            for shape, sharding in self._numbers
        )


def _described(picture: ShardPicture, is_listed: bool) -> dict[str, Any]:
    """A picture as a JSON value; a cell is the text of its devices and their numbers, or only the first of them."""
    return {
        "shape": picture.shape,
        "local_shape": picture.local_shape,
        "is_even": picture.is_even,
        "rows": _parts(picture.rows),
        "columns": _parts(picture.columns),
        "layers": [
            {
                "title": layer.title,
                "cells": [
                    [(devices_label(cell, picture.copies), cell if is_listed else cell[:1]) for cell in row]
                    for row in layer.cells
                ],
            }
            for layer in picture.layers
        ],
        "layers_left_out": picture.layers_left_out,
    }


def _parts(parts: Parts) -> dict[str, Any]:
    return {"dim": parts.dim, "ranges": parts.ranges, "left_out": parts.left_out}

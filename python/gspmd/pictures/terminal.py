"""A picture of shards in characters, with a color for each group of devices, as wide as a terminal at most."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TypeVar

from gspmd.dialect.sharding import TensorSharding
from gspmd.pictures.shards import Layer, Parts, ShardPicture, devices_label, shard_picture

WIDTH = 80
_CELL = 7  # columns of a cell, with its border, that are needed for the number of a device
_WIDEST = 17
_MAX_ROWS = 12
_COLORS = ("blue", "green", "red", "cyan", "magenta", "yellow")
_BACKGROUNDS = tuple(f"black on {bright}{color}" for bright in ("", "bright_") for color in _COLORS)
_GAP = "..."
_T = TypeVar("_T")


def picture_text(shape: tuple[int, ...], sharding: TensorSharding, width: int = WIDTH, colored: bool = False) -> str:
    """The shards of a value as lines of text, with the escape codes of terminals if `colored`."""
    margin = max(len(f"{size}:{size}") for size in (0, *shape)) + 3
    fits = max((width - margin - 1) // max(_CELL, margin), 1)
    split = sum(count > 1 for count in sharding.shard_counts())
    picture = shard_picture(shape, sharding, _MAX_ROWS, fits if split else 1)
    drawing = _Drawing(picture, margin, width)
    for layer in picture.layers:
        drawing.layer(layer)
    if picture.layers_left_out:
        drawing.line(f"  and {picture.layers_left_out} more such layers")
    return drawing.rendered(colored)


class _Drawing:
    """Lines of pieces, each with its style."""

    def __init__(self, picture: ShardPicture, margin: int, width: int) -> None:
        self.picture, self.margin = picture, margin
        labels = [
            devices_label(cell, picture.copies) for layer in picture.layers for row in layer.cells for cell in row
        ]
        room = (width - margin - 1) // _count(picture.columns)
        wanted = max(len(text) for text in (*labels, *map(_range_text, picture.columns.ranges))) + 3
        self.cell = max(min(max(wanted, _CELL), room), 2) - 1
        if _count(picture.columns) == 1:
            self.cell = max(self.cell, min(room - 1, 2 * _WIDEST))
        self.lines: list[list[tuple[str, str]]] = []
        self.styles: dict[tuple[int, ...], str] = {}

    def line(self, text: str) -> None:
        self.lines.append([(text, "")])

    def layer(self, layer: Layer) -> None:
        """One sheet: ranges of elements above and beside it, and the devices in its cells."""
        rows, columns = self.picture.rows, self.picture.columns
        if layer.title:
            self.line(f"  {layer.title}")
        if columns.dim is not None:
            cells = [self._fitted(_range_text(part)) for part in columns.ranges]
            self.line(" " * self.margin + " " + " ".join(_with_gap(columns, cells, self._fitted(_GAP))))
        self._border("┌┬┐")
        for index, (part, cells_of_row) in enumerate(zip(rows.ranges, layer.cells, strict=True)):
            if index == len(rows.ranges) - 1 and rows.left_out:
                self._row(_GAP, None)
                self._border("├┼┤")
            self._row(_range_text(part) if rows.dim is not None else "", cells_of_row)
            self._border("├┼┤" if index < len(rows.ranges) - 1 else "└┴┘")

    def rendered(self, colored: bool) -> str:
        """The lines as text."""
        if not colored:
            return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)
        from rich.console import Console
        from rich.text import Text

        stream = io.StringIO()
        console = Console(file=stream, force_terminal=True, color_system="standard", width=10_000, highlight=False)
        for line in self.lines:
            console.print(Text.assemble(*line), soft_wrap=True)
        return stream.getvalue().rstrip("\n")

    def _row(self, label: str, cells: Sequence[tuple[int, ...]] | None) -> None:
        """A row of cells; without any, one that stands for those left out."""
        columns = self.picture.columns
        texts = [(_GAP, "")] * len(columns.indices) if cells is None else [self._cell(cell) for cell in cells]
        line: list[tuple[str, str]] = [(f"{label:>{self.margin - 1}} │", "")]
        for text, style in _with_gap(columns, texts, (_GAP, "")):
            line += [(self._fitted(text), style), ("│", "")]
        self.lines.append(line)

    def _cell(self, devices: tuple[int, ...]) -> tuple[str, str]:
        if devices not in self.styles:
            self.styles[devices] = _BACKGROUNDS[len(self.styles) % len(_BACKGROUNDS)]
        return devices_label(devices, self.picture.copies), self.styles[devices]

    def _border(self, corners: str) -> None:
        left, middle, right = corners[0], corners[1], corners[2]
        count = _count(self.picture.columns)
        self.line(" " * self.margin + left + middle.join(["─" * self.cell] * count) + right)

    def _fitted(self, text: str) -> str:
        if len(text) > self.cell:
            text = text[: max(self.cell - 1, 1)] + "…" if self.cell > 1 else text[: self.cell]
        return text.center(self.cell)


def _count(parts: Parts) -> int:
    """The number of rows or columns that are drawn, with that of what is left out."""
    return len(parts.indices) + (1 if parts.left_out else 0)


def _with_gap(parts: Parts, items: list[_T], gap: _T) -> list[_T]:
    return [*items[:-1], gap, items[-1]] if parts.left_out else items


def _range_text(part: tuple[int, int]) -> str:
    start, stop = part
    return f"{start}:{stop}" if stop > start else "padding"

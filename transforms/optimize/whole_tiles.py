"""Reduce-scatters that a compiler would make all-reduces, laid out in memory so that they stay what they are."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import size_of
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import ScatterTiles
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option, same_option

_WHAT = "kept a reduce-scatter by its layout"


@dataclasses.dataclass(frozen=True)
class ScatterWholeTiles(CollectivePass):
    """Lay out what is reduce-scattered so that every device is left with whole tiles of the memory.

    The compilers of some targets keep a reduce-scatter only then, and make an all-reduce of any other, which sends
    twice as much. Dimensions lie in tiles by their order in memory, and another order may have whole tiles where the
    usual one has not. Products write their results in any order; any other value is copied, which takes less time than
    sending it over the links of these targets.
    """

    argument = "gspmd-scatter-whole-tiles"
    summary = "Lay out reduce-scattered values so that the compiler does not make all-reduces of them"

    tiles_min_bytes: int = option(1 << 20, "smallest value to be scattered for this")
    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        tiles = read_hardware(self.target, program.mesh).scatter_tiles
        if tiles is None:
            return
        for scatter in program.collectives("reduce_scatter"):
            if size_of(scatter.axes) == program.mesh.size:
                continue  # a sum over all devices, for which the shape of the torus decides, and not the layout
            type_, dim = scatter.result.type, scatter.dimension("scatter_dimension")
            if type_.element not in tiles.last:
                program.decline(scatter.op, _WHAT, f"the compiler makes an all-reduce of every one of {type_.element}")
                continue
            if _leaves_tiles(tiles, type_.element, type_.shape[dim], type_.rank - 1 - dim):
                continue
            order = _order_of_tiles(tiles, type_.element, type_.shape, dim)
            if order is None:
                program.decline(scatter.op, _WHAT, f"{type_.shape[dim]} elements make whole tiles in no order")
            elif scatter.bytes < self.tiles_min_bytes:
                why = f"{scatter.bytes:.0f} bytes are scattered, less than {self.tiles_min_bytes}"
                program.decline(scatter.op, _WHAT, why)
            else:
                _lay_out(program, scatter, order)


def stays_scatter(tiles: ScatterTiles | None, shard: TensorType, dim: int) -> bool:
    """Whether a reduce-scatter along a dimension that leaves a device with such a shard stays one, in some layout."""
    if tiles is None:
        return True
    if shard.element not in tiles.last:
        return False
    whole = _leaves_tiles(tiles, shard.element, shard.shape[dim], shard.rank - 1 - dim)
    return whole or _order_of_tiles(tiles, shard.element, shard.shape, dim) is not None


def _leaves_tiles(tiles: ScatterTiles, element: str, count: int, place: int) -> bool:
    """Whether so many elements are whole tiles along the dimension at this place in memory, 0 for the last one."""
    multiple = (tiles.last[element], tiles.rows)[place] if place < 2 else 1
    return count % multiple == 0


def _order_of_tiles(tiles: ScatterTiles, element: str, shape: tuple[int, ...], dim: int) -> tuple[int, ...] | None:
    """The dimensions in an order in memory in which dimension `dim` of a shard has whole tiles, None if there is none.

    The last dimension fills rows of tiles and the one before it their columns, as far as there is something to fill.
    """
    others = [other for other in range(len(shape)) if other != dim]
    if not others or shape[others[-1]] < tiles.lanes:
        return None
    if _leaves_tiles(tiles, element, shape[dim], 1):
        return (*others[:-1], dim, others[-1])
    if len(others) > 1 and shape[others[-2]] >= tiles.rows:
        return (*others[:-2], dim, *others[-2:])
    return None


def _lay_out(program: DeviceProgram, scatter: LocalCollective, order: tuple[int, ...]) -> None:
    emit = program.emitter(scatter.op)
    scatter.op.operands[0] = emit.laid_out(scatter.operand, order)
    program.changed()

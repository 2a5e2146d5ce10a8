"""Choose layouts with which a compiler does not replace reduce-scatters by all-reduces."""

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
    """Lay out reduce-scattered values such that the shards consist of whole memory tiles.

    The compilers of some targets keep only such reduce-scatters, and replace others by all-reduces, which send twice as
    much. The order of dimensions in memory determines the tiles, and another order may have whole tiles if the default
    one has not. Products write their results in any order. Any other value is copied, which takes less time than
    sending it over the links of these targets.
    """

    argument = "gspmd-scatter-whole-tiles"
    summary = "Lay out reduce-scattered values so that the compiler keeps the reduce-scatters"

    tiles_min_bytes: int = option(1 << 20, "smallest value to be scattered")
    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        tiles = read_hardware(self.target, program.mesh).scatter_tiles
        if tiles is None:
            return
        for scatter in program.collectives("reduce_scatter"):
            if size_of(scatter.axes) == program.mesh.size:
                continue  # over all devices, the shape of the torus decides, not the layout
            type_, dim = scatter.result.type, scatter.dimension("scatter_dimension")
            if type_.element not in tiles.last:
                program.decline(
                    scatter.op, _WHAT, f"the compiler replaces every reduce-scatter of {type_.element} by an all-reduce"
                )
                continue
            if _leaves_tiles(tiles, type_.element, type_.shape[dim], type_.rank - 1 - dim):
                continue
            order = _order_of_tiles(tiles, type_.element, type_.shape, dim)
            if order is None:
                program.decline(
                    scatter.op, _WHAT, f"{type_.shape[dim]} elements fill whole tiles in no order of dimensions"
                )
            elif scatter.bytes < self.tiles_min_bytes:
                why = f"{scatter.bytes:.0f} bytes are scattered, less than {self.tiles_min_bytes}"
                program.decline(scatter.op, _WHAT, why)
            else:
                _lay_out(program, scatter, order)


def stays_scatter(tiles: ScatterTiles | None, shard: TensorType, dim: int) -> bool:
    """Whether the compiler keeps a reduce-scatter along a dimension with this shard, in some layout."""
    if tiles is None:
        return True
    if shard.element not in tiles.last:
        return False
    whole = _leaves_tiles(tiles, shard.element, shard.shape[dim], shard.rank - 1 - dim)
    return whole or _order_of_tiles(tiles, shard.element, shard.shape, dim) is not None


def _leaves_tiles(tiles: ScatterTiles, element: str, count: int, level: int) -> bool:
    """Whether `count` elements fill whole tiles along the dimension at a level of the memory order, 0 for the last."""
    multiple = (tiles.last[element], tiles.rows)[level] if level < 2 else 1
    return count % multiple == 0


def _order_of_tiles(tiles: ScatterTiles, element: str, shape: tuple[int, ...], dim: int) -> tuple[int, ...] | None:
    """An order of the dimensions in memory in which dimension `dim` of a shard has whole tiles; None if there is none.

    The last dimension fills the rows of tiles, and the one before it their columns.
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

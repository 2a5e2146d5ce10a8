"""All-gathers of an operand of a dot, done behind the dot where its result is smaller."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import size_of
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.products import DOT, ProductDims, product_of_parts
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.uniformity import Uniformity
from gspmd.transforms.passes import same_option


@dataclasses.dataclass(frozen=True)
class GatherBehindProducts(CollectivePass):
    """Gather the result of a dot instead of an operand, along a dimension that is not summed over.

    That sends less where the result is smaller, and the devices share the arithmetic, of which the other operand has to
    be the same for all of them. It is what is left of a value moved in parts (`move_in_parts.py`): operations choose
    how they run before sums are taken apart for that.
    """

    argument = "gspmd-gather-behind-products"
    summary = "Gather the result of a matmul in place of an operand where it is smaller"

    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        gathers = program.collectives("all_gather")
        hardware = planned_for(self.target if gathers else "", program.mesh)
        uniform: Uniformity | None = None
        for gather in gathers:
            dot = gather.result.only_user
            if dot is None or dot.name != DOT or dot.block != gather.op.block or dot.operands[0] == dot.operands[1]:
                continue
            dims, side = ProductDims.of(dot), 0 if dot.operands[0] == gather.result else 1
            dim = gather.dimension("all_gather_dim")
            if dim not in dims.free[side] or not program.is_along_axes(gather) or not _is_faster(gather, dot, hardware):
                continue
            uniform = uniform or Uniformity(program.module, program.mesh)
            varying = uniform.varying(dot.operands[1 - side])
            if any(axis.name in varying for axis in gather.axes):
                why = "the product's other operand may differ along the same axes"
                program.decline(gather.op, "gathered behind the product", why)
                continue
            emit = program.emitter(dot)
            operands = [gather.operand if each == gather.result else each for each in dot.operands]
            part = product_of_parts(emit, dot, operands[0], operands[1])
            _, result_dim = dims.of_operand(side, dim)
            assert result_dim is not None
            emit.location = gather.op.location
            dot.replace([emit.all_gather(part, result_dim, gather.axes, gather.cause)])
            gather.erase()
            program.changed()


def _is_faster(gather: LocalCollective, dot: Operation, hardware: Hardware) -> bool:
    """Whether the result of a dot is gathered in less time than its operand."""
    devices = size_of(gather.axes)

    def seconds(local_bytes: float) -> float:
        return collective_time(gather.kind, local_bytes, devices, hardware, gather.axes)

    return seconds(bytes_of(dot.results[0].type) / devices) < seconds(gather.bytes)

"""All-gathers in chunks before dots: the dot with the first chunk runs while the others are on their way."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from gspmd.dialect.limits import MAX_UNROLLED
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import WHILE
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.ops import traits_of
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.products import DOT, ProductDims, dot_seconds, product_of_parts
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option, same_option

_WHAT = "gathered in pieces"
_COUNTS = (2, 4, 8)
"""The numbers of pieces that are looked at where none is asked for."""


@dataclasses.dataclass(frozen=True)
class GatherInPieces(CollectivePass):
    """All-gather in chunks, with a dot for each, what no dot before it can hide.

    Compilers that begin gathers early hide them behind dots that need not wait for them. Where these take less time
    than the gather, it is done in chunks along another dimension: the first chunk is waited for, the others arrive
    during the dots. All links stay in use, and no sum is split that was not before.
    """

    argument = "gspmd-gather-in-pieces"
    summary = "All-gather what matmuls wait for in chunks, each with a matmul of its own"

    gather_pieces: int = option(0, "chunks of a gather; 0 for the number that is fastest", most=MAX_UNROLLED)
    pieces_min_bytes: int = option(1 << 20, "smallest gathered value for this")
    use_cost_model: bool = same_option(CollectiveMatmul, "use_cost_model")
    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for gather in program.collectives("all_gather"):
            products = _products_of(program, gather)
            if not products:
                continue
            whole = bytes_of(gather.result.type)
            if whole < self.pieces_min_bytes:
                program.decline(gather.op, _WHAT, f"{whole:.0f} bytes are gathered, less than {self.pieces_min_bytes}")
                continue
            counts = (self.gather_pieces,) if self.gather_pieces else _COUNTS
            ways = {count: dim for count in counts if (dim := _free_dim(gather, products, count)) is not None}
            if not ways:
                why = f"no other dimension that all products keep is a multiple of {counts[0]}"
                program.decline(gather.op, _WHAT, why)
                continue
            pieces = self._fastest(program, gather, products, ways) if self.use_cost_model else min(ways)
            if pieces > 1:
                _split(program, gather, products, ways[pieces], pieces)

    def _fastest(
        self, program: DeviceProgram, gather: LocalCollective, products: list[_Product], counts: Iterable[int]
    ) -> int:
        """The number of pieces that gains most; 1 if none gains anything.

        All pieces but the first arrive while there are dots with those before. Each has a latency of its own, and what
        the dots give is put together in memory.
        """
        assert program.mesh is not None
        hardware = read_hardware(self.target, program.mesh)
        devices = round(bytes_of(gather.result.type) / gather.bytes)

        def seconds(pieces: int) -> float:
            return collective_time(gather.kind, gather.bytes / pieces, devices, hardware, gather.axes)

        waiting = seconds(1) - _hidden_s(gather, products[0].dot, hardware)
        if waiting <= 0:
            program.decline(gather.op, _WHAT, "products before those that need it take longer than it does")
            return 1
        dots = sum(dot_seconds(product.dot, hardware) for product in products)
        joined = 2 * sum(bytes_of(p.dot.results[0].type) for p in products) / hardware.memory_bytes_per_s
        gains = {
            pieces: min(waiting, dots) * (1 - 1 / pieces) - (pieces * seconds(pieces) - seconds(1)) for pieces in counts
        }
        pieces = max(gains, key=gains.__getitem__)
        if joined >= gains[pieces]:
            times = f"putting results together takes {joined * 1e6:.1f} us, {gains[pieces] * 1e6:.1f} us are gained"
            program.decline(gather.op, _WHAT, times)
            return 1
        return pieces


@dataclasses.dataclass(frozen=True, slots=True)
class _Product:
    """A dot with what is gathered as operand `side`."""

    dot: Operation
    side: int
    dims: ProductDims

    def of(self, dim: int) -> tuple[int | None, int | None]:
        """The dimensions of the other operand and of the result that go with one of what is gathered."""
        return self.dims.of_operand(self.side, dim)


def _products_of(program: DeviceProgram, gather: LocalCollective) -> list[_Product]:
    """The dots in the gather's block that use its result, in program order; none if anything else does."""
    using = gather.result.users
    dots = [op for op in using if op.name == DOT and op.block == gather.op.block]
    if not dots:
        return []
    if len(dots) < len(using) or any(dot.operands[0] == dot.operands[1] for dot in dots):
        program.decline(gather.op, _WHAT, "something else than one operand of a product uses all of it")
        return []
    found = [_Product(dot, 0 if dot.operands[0] == gather.result else 1, ProductDims.of(dot)) for dot in dots]
    order = {op.results[0]: i for i, op in enumerate(gather.op.neighbours()) if op.name == DOT}
    return sorted(found, key=lambda product: order[product.dot.results[0]])


def _free_dim(gather: LocalCollective, products: list[_Product], pieces: int) -> int | None:
    """The most major dimension to cut, one that is neither gathered nor summed over by a dot; None if there is none."""
    gathered = gather.dimension("all_gather_dim")
    for dim, size in enumerate(gather.result.type.shape):
        if dim != gathered and size and size % pieces == 0 and all(p.of(dim)[1] is not None for p in products):
            return dim
    return None


def _hidden_s(gather: LocalCollective, first: Operation, hardware: Hardware) -> float:
    """Seconds of the dots before `first` that neither give the gather's operand nor need its result."""
    before = []
    for op in gather.op.neighbours():
        if op == first:
            break
        before.append(op)
    needed = {gather.operand}
    for op in reversed(before):
        if any(result in needed for result in op.results):
            needed.update(op.operands)
    seconds = 0.0
    for op in before:
        if any(result in needed for result in op.results):
            continue
        if op.name == WHILE or _is_convolution(op):
            return math.inf  # as long as any gather
        if op.name == DOT:
            seconds += dot_seconds(op, hardware)
    return seconds


def _is_convolution(op: Operation) -> bool:
    flops = traits_of(op.name).flops
    return flops is not None and flops.kind == "convolution"


def _split(program: DeviceProgram, gather: LocalCollective, products: list[_Product], dim: int, count: int) -> None:
    emit = program.emitter(gather.op)
    size = gather.operand.type.shape[dim] // count
    gathered, axes, cause = gather.dimension("all_gather_dim"), gather.axes, gather.cause
    pieces = []
    for i in range(count):
        emit.location = gather.op.location
        pieces.append(emit.all_gather(emit.slice_dim(gather.operand, dim, i * size, size), gathered, axes, cause))
    for product in products:
        emit = program.emitter(product.dot, product.dot.location)
        parts = [_part(emit, product, piece, dim, i * size) for i, piece in enumerate(pieces)]
        result = product.dot.results[0].type
        joined = emit.op("stablehlo.concatenate", parts, [result], dimension=emit.i64(product.of(dim)[1] or 0))
        product.dot.results[0].replace_all_uses_with(joined)
        product.dot.erase()
    gather.op.erase()
    program.changed()


def _part(emit: Emitter, product: _Product, piece: Value, dim: int, start: int) -> Value:
    """The dot with one chunk, which begins at `start` of the dimension that is cut."""
    other, (other_dim, _) = product.dot.operands[1 - product.side], product.of(dim)
    if other_dim is not None:
        other = emit.slice_dim(other, other_dim, start, piece.type.shape[dim])
    left, right = (piece, other) if product.side == 0 else (other, piece)
    return product_of_parts(emit, product.dot, left, right)

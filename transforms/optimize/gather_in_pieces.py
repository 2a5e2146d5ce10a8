"""Chunked all-gathers before dots: the dot with the first chunk runs while the others arrive."""

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
from gspmd.transforms.optimize.products import DOT, Arithmetic, ProductDims, product_of_parts
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option, same_option

_WHAT = "gathered in chunks"
_COUNTS = (2, 4, 8)
"""The numbers of chunks that are compared if the option gives none."""


@dataclasses.dataclass(frozen=True)
class GatherInPieces(CollectivePass):
    """Split all-gathers that no earlier dot can hide into chunks, with a dot for each chunk.

    Compilers that start gathers early hide them behind dots that do not depend on them. If these dots take less time
    than the gather, it is split along another dimension. The dots wait only for the first chunk; the others arrive
    during the dots. All links stay in use, and no sum is split.
    """

    argument = "gspmd-gather-in-pieces"
    summary = "Split all-gathers that matmuls wait for into chunks, each with a matmul of its own"

    gather_pieces: int = option(0, "chunks of a gather; 0 for the fastest number", most=MAX_UNROLLED)
    pieces_min_bytes: int = option(1 << 20, "smallest gathered value")
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
            dims = {count: dim for count in counts if (dim := _splittable_dim(gather, products, count)) is not None}
            if not dims:
                why = f"no other dimension that all products keep is a multiple of {counts[0]}"
                program.decline(gather.op, _WHAT, why)
                continue
            chunks = self._fastest(program, gather, products, dims) if self.use_cost_model else min(dims)
            if chunks > 1:
                _split(program, gather, products, dims[chunks], chunks)

    def _fastest(
        self, program: DeviceProgram, gather: LocalCollective, products: list[_Product], counts: Iterable[int]
    ) -> int:
        """The fastest number of chunks; 1 if chunks are not faster.

        All chunks but the first arrive during dots with earlier chunks. Every chunk has a latency of its own, and the
        results of the dots are concatenated in memory.
        """
        assert program.mesh is not None
        hardware = read_hardware(self.target, program.mesh)
        devices = round(bytes_of(gather.result.type) / gather.bytes)

        def seconds(chunks: int) -> float:
            return collective_time(gather.kind, gather.bytes / chunks, devices, hardware, gather.axes)

        waiting = seconds(1) - _hidden_s(gather, products[0].dot, hardware)
        if waiting <= 0:
            program.decline(gather.op, _WHAT, "the products before its consumers take longer than the gather")
            return 1
        dots = sum(Arithmetic.of(product.dot).seconds(hardware) for product in products)
        joined = 2 * sum(bytes_of(p.dot.results[0].type) for p in products) / hardware.memory_bytes_per_s
        gains = {
            chunks: min(waiting, dots) * (1 - 1 / chunks) - (chunks * seconds(chunks) - seconds(1)) for chunks in counts
        }
        chunks = max(gains, key=gains.__getitem__)
        if joined >= gains[chunks]:
            times = (
                f"concatenating the results takes {joined * 1e6:.1f} us, and chunks save {gains[chunks] * 1e6:.1f} us"
            )
            program.decline(gather.op, _WHAT, times)
            return 1
        return chunks


@dataclasses.dataclass(frozen=True, slots=True)
class _Product:
    """A dot whose operand `side` is the gathered value."""

    dot: Operation
    side: int
    dims: ProductDims

    def of(self, dim: int) -> tuple[int | None, int | None]:
        """The dimensions of the other operand and of the result that correspond to one of the gathered operand."""
        return self.dims.of_operand(self.side, dim)


def _products_of(program: DeviceProgram, gather: LocalCollective) -> list[_Product]:
    """The dots in the gather's block that use its result, in program order; none if there are other consumers."""
    using = gather.result.users
    dots = [op for op in using if op.name == DOT and op.block == gather.op.block]
    if not dots:
        return []
    if len(dots) < len(using) or any(dot.operands[0] == dot.operands[1] for dot in dots):
        program.decline(gather.op, _WHAT, "not every use of it is one operand of a product in its block")
        return []
    found = [_Product(dot, 0 if dot.operands[0] == gather.result else 1, ProductDims.of(dot)) for dot in dots]
    order = {op.results[0]: i for i, op in enumerate(gather.op.neighbours()) if op.name == DOT}
    return sorted(found, key=lambda product: order[product.dot.results[0]])


def _splittable_dim(gather: LocalCollective, products: list[_Product], chunks: int) -> int | None:
    """The most major dimension that is neither gathered nor contracted by a dot, and that divides evenly; else None."""
    gathered = gather.dimension("all_gather_dim")
    for dim, size in enumerate(gather.result.type.shape):
        if dim != gathered and size and size % chunks == 0 and all(p.of(dim)[1] is not None for p in products):
            return dim
    return None


def _hidden_s(gather: LocalCollective, first: Operation, hardware: Hardware) -> float:
    """Seconds of the dots before `first`, except those that compute the operand of the gather."""
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
            return math.inf  # longer than any gather
        if op.name == DOT:
            seconds += Arithmetic.of(op).seconds(hardware)
    return seconds


def _is_convolution(op: Operation) -> bool:
    flops = traits_of(op.name).flops
    return flops is not None and flops.kind == "convolution"


def _split(program: DeviceProgram, gather: LocalCollective, products: list[_Product], dim: int, count: int) -> None:
    emit = program.emitter(gather.op)
    size = gather.operand.type.shape[dim] // count
    gathered, axes, cause = gather.dimension("all_gather_dim"), gather.axes, gather.cause
    chunks = []
    for i in range(count):
        emit.location = gather.op.location
        chunks.append(emit.all_gather(emit.slice_dim(gather.operand, dim, i * size, size), gathered, axes, cause))
    for product in products:
        emit = program.emitter(product.dot, product.dot.location)
        parts = [_part(emit, product, chunk, dim, i * size) for i, chunk in enumerate(chunks)]
        result = product.dot.results[0].type
        joined = emit.op("stablehlo.concatenate", parts, [result], dimension=emit.i64(product.of(dim)[1] or 0))
        product.dot.results[0].replace_all_uses_with(joined)
        product.dot.erase()
    gather.op.erase()
    program.changed()


def _part(emit: Emitter, product: _Product, chunk: Value, dim: int, start: int) -> Value:
    """The dot with one chunk, which starts at `start` of the split dimension."""
    other, (other_dim, _) = product.dot.operands[1 - product.side], product.of(dim)
    if other_dim is not None:
        other = emit.slice_dim(other, other_dim, start, chunk.type.shape[dim])
    left, right = (chunk, other) if product.side == 0 else (other, chunk)
    return product_of_parts(emit, product.dot, left, right)

"""gather, scatter, dynamic_slice and dynamic_update_slice in plain numpy, written from the StableHLO specification."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
Body = Callable[[list[Any], list[Any]], list[Any]]


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Dimension numbers of a gather or a scatter, by the names that the gather has.

    In a scatter, `offset` are `update_window_dims`, `collapsed` are `inserted_window_dims`, and `start` are
    `scatter_dims_to_operand_dims`.
    """

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    start: tuple[int, ...]
    vector_dim: int

    def windows(self, rank: int) -> list[int]:
        """The operand's dimensions that have a dimension in the window."""
        return [d for d in range(rank) if d not in self.collapsed and d not in self.operand_batching]

    def batches(self, rank: int) -> list[int]:
        """The dimensions of the result, or of the updates, that come from the indices."""
        return [d for d in range(rank) if d not in self.offset]

    def full_start(self, indices: Array, batch: Index, rank: int) -> list[int]:
        """Where the window of a batch index begins in the operand: `full_start_index + full_batching_index`."""
        where = list(batch)
        where.insert(self.vector_dim, 0)
        begin = [0] * rank
        for component, dim in enumerate(self.start):
            if self.vector_dim < indices.ndim:
                where[self.vector_dim] = component
                begin[dim] = int(indices[tuple(where)])
            else:
                begin[dim] = int(indices[batch])
        places = [d for d in range(indices.ndim) if d != self.vector_dim]
        for dim, index_dim in zip(self.operand_batching, self.indices_batching, strict=True):
            begin[dim] = batch[places.index(index_dim)]
        return begin

    def full_offset(self, window: Index, rank: int) -> list[int]:
        """An index of the window as one of the operand: `full_offset_index`."""
        offset = [0] * rank
        for dim, place in zip(self.windows(rank), window, strict=True):
            offset[dim] = place
        return offset


def _every(shape: Sequence[int]) -> Iterator[Index]:
    return itertools.product(*map(range, shape))


def _joined(rank: int, batches: list[int], batch: Index, offset: tuple[int, ...], window: Index) -> Index:
    found = [0] * rank
    for dim, place in itertools.chain(zip(batches, batch, strict=True), zip(offset, window, strict=True)):
        found[dim] = place
    return tuple(found)


def gather(operand: Array, indices: Array, numbers: Numbers, sizes: Index, shape: Index) -> Array:
    """The result, of shape `shape`. Starts are clamped, so that windows are inside the operand."""
    result = np.zeros(shape, operand.dtype)
    rank, batches = operand.ndim, numbers.batches(len(shape))
    for batch in _every([shape[d] for d in batches]):
        start = numbers.full_start(indices, batch, rank)
        begin = [min(max(s, 0), n - w) for s, n, w in zip(start, operand.shape, sizes, strict=True)]
        for window in _every([shape[d] for d in numbers.offset]):
            offset = numbers.full_offset(window, rank)
            place = _joined(len(shape), batches, batch, numbers.offset, window)
            result[place] = operand[tuple(b + o for b, o in zip(begin, offset, strict=True))]
    return result


def scatter(inputs: list[Array], indices: Array, updates: list[Array], numbers: Numbers, body: Body) -> list[Array]:
    """The results. A window that does not fit into the operand is dropped; others come in the order of the indices.

    The specification leaves the order to the implementation; this is that of XLA on CPU.
    """
    results = [value.copy() for value in inputs]
    shape, operand = updates[0].shape, inputs[0].shape
    rank, batches = len(operand), numbers.batches(len(shape))
    window_shape = [shape[d] for d in numbers.offset]
    extent = [max(n, 1) for n in numbers.full_offset(tuple(window_shape), rank)]
    for batch in _every([shape[d] for d in batches]):
        begin = numbers.full_start(indices, batch, rank)
        if any(b < 0 or b + w > n for b, w, n in zip(begin, extent, operand, strict=True)):
            continue
        for window in _every(window_shape):
            offset = numbers.full_offset(window, rank)
            at = tuple(b + o for b, o in zip(begin, offset, strict=True))
            place = _joined(len(shape), batches, batch, numbers.offset, window)
            new = body([r[at] for r in results], [u[place] for u in updates])
            for result, value in zip(results, new, strict=True):
                result[at] = value
    return results


def dynamic_slice(operand: Array, starts: Sequence[int], sizes: Index) -> Array:
    begin = [min(max(s, 0), n - w) for s, n, w in zip(starts, operand.shape, sizes, strict=True)]
    return operand[tuple(slice(b, b + w) for b, w in zip(begin, sizes, strict=True))]


def dynamic_update_slice(operand: Array, update: Array, starts: Sequence[int]) -> Array:
    result = operand.copy()
    begin = [min(max(s, 0), n - w) for s, n, w in zip(starts, operand.shape, update.shape, strict=True)]
    result[tuple(slice(b, b + w) for b, w in zip(begin, update.shape, strict=True))] = update
    return result

"""The error of a result."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gspmd.runtime.dtypes import float_limits, is_float
from gspmd.runtime.layout import part_indices
from gspmd.runtime.sharded_array import ShardedArray

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The largest error of a result, and whether NaN and infinities are at the right elements.

    `max_abs_error` is over the finite elements of the reference; `scale` is their largest magnitude. `mismatch`
    describes a difference that is not a numerical error; "" if there is none.
    """

    max_abs_error: float
    scale: float
    mismatch: str = ""

    @property
    def max_rel_error(self) -> float:
        """The error relative to the largest magnitude of the reference."""
        if self.max_abs_error == 0:
            return 0.0
        return self.max_abs_error / self.scale if self.scale else float("inf")

    def worse_of(self, other: Difference) -> Difference:
        return Difference(max(self.max_abs_error, other.max_abs_error), self.scale, self.mismatch or other.mismatch)


def default_rtol(dtype: np.dtype[Any]) -> float:
    """Allowed error relative to the largest magnitude of a result; 0 for types that must be exact.

    Splitting a sum of up to 4096 terms into 8 was measured to cost up to 8 eps in float32 and float64, which XLA
    accumulates in the same type, and 2 eps in shorter types, which it accumulates in float32. The rest is a margin for
    programs that are many operations deep; types of at most 8 bits, where 1 is a few eps, have no margin.
    """
    if not (is_float(dtype) or dtype.kind == "c"):
        return 0.0
    limits = float_limits(dtype)
    if limits.bits >= 32:
        return 168 * float(limits.eps)
    return (4 if limits.bits == 16 else 2) * float(limits.eps)


def count_nonfinite(array: Array) -> int:
    """The number of NaN and infinite elements."""
    if not (is_float(array.dtype) or array.dtype.kind == "c"):
        return 0
    return int(array.size - np.count_nonzero(np.isfinite(_wide(array))))


def has_nan(array: Array) -> bool:
    return bool(np.isnan(_wide(array)).any()) if is_float(array.dtype) or array.dtype.kind == "c" else False


def compare(expected: Array, actual: Array) -> Difference:
    """Compare two arrays of the same shape and dtype."""
    scale = _scale(expected)
    return _compare_part(expected, actual, scale)


def compare_sharded(expected: Array, actual: ShardedArray) -> Difference:
    """Compare the assembled array, and every replica on a device that differs from it."""
    whole = actual.to_numpy()
    worst = compare(expected, whole)
    if actual.placement.unreduced:
        return _with_equal_copies(worst, actual)
    for shard in actual.shards:
        part = shard.to_numpy()
        if part.tobytes() != whole[shard.index].tobytes():
            found = _compare_part(expected[shard.index], part, worst.scale)
            where = f"copy on partition {shard.partition}: "
            worst = worst.worse_of(dataclasses.replace(found, mismatch=found.mismatch and where + found.mismatch))
    return worst


def _with_equal_copies(found: Difference, actual: ShardedArray) -> Difference:
    """Compare the summands of an unreduced array: replicas of one summand must agree."""
    indices, first = part_indices(actual.placement), dict[tuple[int, ...], bytes]()
    for shard in actual.shards:
        content = shard.to_numpy().tobytes()
        if first.setdefault(indices[shard.partition], content) != content:
            text = f"copy on partition {shard.partition}: another summand than its copies elsewhere"
            found = dataclasses.replace(found, mismatch=found.mismatch or text)
    return found


def _wide(array: Array) -> Array:
    """The numbers as float64 (complex ones as complex128), which holds every float type exactly."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _scale(expected: Array) -> float:
    wide = _wide(expected)
    finite = np.abs(wide[np.isfinite(wide)])
    return float(finite.max()) if finite.size else 0.0


def _compare_part(expected: Array, actual: Array, scale: float) -> Difference:
    left, right = _wide(expected), _wide(actual)
    if not (is_float(expected.dtype) or expected.dtype.kind == "c"):
        wrong = int(np.count_nonzero(expected != actual))
        error = float(np.abs(left - right).max()) if wrong else 0.0
        return Difference(error, scale, f"{wrong} of {expected.size} elements differ" if wrong else "")
    if left.dtype.kind == "c":
        left, right = (np.stack([part.real, part.imag]) for part in (left, right))
    mismatch = _misplaced("NaN", np.isnan(left), np.isnan(right))
    for sign, name in ((np.inf, "inf"), (-np.inf, "-inf")):
        mismatch = mismatch or _misplaced(name, left == sign, right == sign)
    both = np.isfinite(left) & np.isfinite(right)
    errors = np.abs(left[both] - right[both])
    return Difference(float(errors.max()) if errors.size else 0.0, scale, mismatch)


def _misplaced(name: str, expected: Array, actual: Array) -> str:
    missing = int(np.count_nonzero(expected & ~actual))
    added = int(np.count_nonzero(actual & ~expected))
    if missing or added:
        return f"{name} in {added} wrong places, missing in {missing}"
    return ""

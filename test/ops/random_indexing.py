"""Random gathers, scatters, dynamic slices and updates, partitioned and compared with numpy.

Run as `python test/ops/random_indexing.py [--seed N] [--count N]`; a seed names a case. Each is run with its factors
split at random, and as a program with random annotations through all stages. Cases that fail are printed, and the exit
code is 1 if there are any. Where XLA's own program for one device differs from the specification is counted.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "reshard")]

import indexing_reference as reference
import numpy as np
from indexing_reference import Array, Numbers
from random_shardings import random_mesh, random_sharding
from single_op import assignments, partition, rule_of

import gspmd
from gspmd import runtime
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.rule import NEED_REPLICATION
from gspmd.dtypes import filled, is_integer, numpy_dtype

SIZES = (1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 12)
ELEMENTS = ("f32", "f32", "f32", "bf16", "f64", "i32", "ui8", "i64", "i1", "complex<f32>", "f8E4M3FN", "f8E5M2FNUZ")
INDICES = ("i32", "i32", "i64", "ui32", "i8", "ui8", "ui64", "i16")
REDUCERS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor", "set", "subtract", "mixed", "swapped")
MOST_ELEMENTS = 3000


@dataclasses.dataclass(frozen=True)
class Case:
    """One operation: what is in the function, its inputs, and what it must give."""

    name: str
    types: tuple[str, ...]
    results: tuple[str, ...]
    text: str
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]

    def module(self, mesh: str = "", given: Sequence[str] = ()) -> str:
        """The program; `given` are the annotations of arguments, then of results."""
        notes = [f" {{sdy.sharding = #sdy.sharding{text}}}" if text else "" for text in given]
        notes += [""] * (len(self.types) + len(self.results) - len(notes))
        count = len(self.types)
        arguments = ", ".join(f"%a{i}: {t}{n}" for i, (t, n) in enumerate(zip(self.types, notes, strict=False)))
        results = ", ".join(f"{t}{n}" for t, n in zip(self.results, notes[count:], strict=True))
        names = ", ".join(f"%0#{i}" if len(self.results) > 1 else "%0" for i in range(len(self.results)))
        operands = ", ".join(f"%a{i}" for i in range(count))
        defined = f"%0:{len(self.results)}" if len(self.results) > 1 else "%0"
        return (
            f"{mesh}func.func public @main({arguments}) -> ({results}) {{\n"
            f'  {defined} = "stablehlo.{self.name}"({operands}) {self.text}'
            f" : ({', '.join(self.types)}) -> ({', '.join(self.results)})\n"
            f"  return {names} : {', '.join(self.results)}\n}}\n"
        )


class Maker:
    """Makes up one case."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def case(self) -> Case:
        kinds = (self.gather, self.gather, self.scatter, self.scatter, self.dynamic_slice, self.dynamic_update_slice)
        return self.rng.choice(kinds)()

    # ---- values ----

    def values(self, shape: Sequence[int], element: str, special: bool = True) -> Array:
        """Small integers, with the worst of the type among them if `special`."""
        dtype = numpy_dtype(element)
        found = self.numpy.integers(0, 2 if element == "i1" else 3, shape).astype(dtype)
        if special and found.size:
            worst = filled(found.shape, dtype, "nan")
            found = np.where(self.numpy.random(shape) < 0.15, worst, found)
        return np.asarray(found, dtype)

    def starts(self, shape: Sequence[int], element: str, most: int) -> Array:
        """In range for the most part; some just outside, some extremes of the type."""
        dtype = numpy_dtype(element)
        limits = np.iinfo(dtype)
        low, high = max(-3, int(limits.min)), min(most + 3, int(limits.max))
        found = self.numpy.integers(max(0, low), min(most, high) + 1, shape)
        rough = self.numpy.integers(low, high + 1, shape)
        found = np.where(self.numpy.random(shape) < 0.2, rough, found).astype(dtype)
        extreme = np.where(self.numpy.random(shape) < 0.5, limits.min, limits.max).astype(dtype)
        return np.asarray(np.where(self.numpy.random(shape) < 0.07, extreme, found), dtype)

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        while True:
            found = tuple(self.rng.choice(SIZES) for _ in range(self.rng.randint(least, most)))
            if np.prod(found) <= MOST_ELEMENTS:
                return found

    def window(self, size: int) -> int:
        rng = self.rng
        pick = rng.random()
        return 1 if pick < 0.35 else size if pick < 0.5 else rng.randint(0, size) if pick < 0.55 else rng.randint(1, size)

    # ---- gather and scatter ----

    def numbers(self, shape: Sequence[int], whole: float) -> tuple[Numbers, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Dimension numbers for an operand of this shape, the shape of the indices, of the result, and of windows."""
        rng, rank = self.rng, len(shape)
        dims = list(range(rank))
        batching = sorted(rng.sample(dims, rng.choice([0, 0, 0, 1, min(2, rank)]))) if rng.random() < 0.6 else []
        rest = [d for d in dims if d not in batching]
        start = rng.sample(rest, rng.randint(0, len(rest)))
        sizes = [1 if d in batching else n if d not in start and rng.random() < whole else self.window(n) for d, n in enumerate(shape)]
        collapsed = [d for d in rest if sizes[d] == 1 and rng.random() < 0.6]
        batch = [("batching", d) for d in batching] + [("free", 0)] * rng.choice([0, 1, 1, 1, 2])
        rng.shuffle(batch)
        batch_shape = [shape[d] if kind == "batching" else rng.choice(SIZES) for kind, d in batch]
        implicit = len(start) == 1 and rng.random() < 0.3
        vector_dim = len(batch) if implicit else rng.randint(0, len(batch))
        indices = list(batch_shape)
        if not implicit:
            indices.insert(vector_dim, len(start))
        at = {d: place + (not implicit and place >= vector_dim) for place, (kind, d) in enumerate(batch) if kind == "batching"}
        windows = [d for d in rest if d not in collapsed]
        total = len(batch) + len(windows)
        offset = sorted(rng.sample(range(total), len(windows)))
        result = [0] * total
        for place, d in zip(offset, windows, strict=True):
            result[place] = sizes[d]
        for place, size in zip([d for d in range(total) if d not in offset], batch_shape, strict=True):
            result[place] = size
        numbers = Numbers(tuple(offset), tuple(collapsed), tuple(batching), tuple(at[d] for d in batching), tuple(start), vector_dim)
        return numbers, tuple(indices), tuple(result), tuple(sizes)

    def indexed(self, whole: float) -> tuple[tuple[int, ...], Numbers, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        while True:
            shape = self.shape()
            numbers, indices, result, sizes = self.numbers(shape, whole)
            if np.prod(result) <= MOST_ELEMENTS and np.prod(indices) <= MOST_ELEMENTS:
                return shape, numbers, indices, result, sizes

    def gather(self) -> Case:
        shape, numbers, indices, result, sizes = self.indexed(0.7)
        element, index = self.rng.choice(ELEMENTS), self.rng.choice(INDICES)
        operand, places = self.values(shape, element), self.starts(indices, index, max(shape))
        is_sorted = indices and len(numbers.start) == 1 and self.rng.random() < 0.2
        if is_sorted:
            places = np.sort(places, axis=None).reshape(indices)
        text = (
            f"{{dimension_numbers = #stablehlo.gather<offset_dims = {list(numbers.offset)}, "
            f"collapsed_slice_dims = {list(numbers.collapsed)}, "
            f"operand_batching_dims = {list(numbers.operand_batching)}, "
            f"start_indices_batching_dims = {list(numbers.indices_batching)}, start_index_map = {list(numbers.start)}, "
            f"index_vector_dim = {numbers.vector_dim}>, slice_sizes = {_array(sizes)}, "
            f"indices_are_sorted = {'true' if is_sorted else 'false'}}}"
        )
        expected = reference.gather(operand, places, numbers, sizes, result)
        types = (tensor(shape, element), tensor(indices, index))
        return Case("gather", types, (tensor(result, element),), text, (operand, places), (expected,))

    def scatter(self) -> Case:
        shape, numbers, indices, updates, _ = self.indexed(0.5)
        rng, index = self.rng, self.rng.choice(INDICES)
        count = rng.choice([1, 1, 1, 2])
        first = rng.choice(REDUCERS)
        names = [first] * count if rng.random() < 0.4 or first == "swapped" else [first, *rng.choices(REDUCERS[:-1], k=count - 1)]
        names = ["set" if name == "swapped" and count == 1 else name for name in names]
        elements = [rng.choice([e for e in ELEMENTS if _allows(name, e)]) for name in names]
        if names[0] == "swapped" or len({e for e in elements if not is_integer(numpy_dtype(e)) and e != "i1"}) > 1:
            # XLA has no scatters of floats of several types.
            names, elements = [names[0]] * count, [elements[0]] * count
        special = [name in ("set", "swapped") and count == 1 for name in names]
        inputs = [self.values(shape, e, s) for e, s in zip(elements, special, strict=True)]
        new = [self.values(updates, e, s) for e, s in zip(elements, special, strict=True)]
        places = self.starts(indices, index, max(shape))
        text = (
            f"({{\n  {_region(names, elements)}\n  }}) {{scatter_dimension_numbers = #stablehlo.scatter<"
            f"update_window_dims = {list(numbers.offset)}, inserted_window_dims = {list(numbers.collapsed)}, "
            f"input_batching_dims = {list(numbers.operand_batching)}, "
            f"scatter_indices_batching_dims = {list(numbers.indices_batching)}, "
            f"scatter_dims_to_operand_dims = {list(numbers.start)}, index_vector_dim = {numbers.vector_dim}>, "
            f"unique_indices = {self._unique(shape, places, updates, numbers)}}}"
        )
        expected = reference.scatter(inputs, places, new, numbers, _body(names))
        types = [tensor(shape, e) for e in elements]
        arguments = [*types, tensor(indices, index), *(tensor(updates, e) for e in elements)]
        return Case("scatter", tuple(arguments), tuple(types), text, (*inputs, places, *new), tuple(expected))

    @staticmethod
    def _unique(shape: tuple[int, ...], places: Array, updates: tuple[int, ...], numbers: Numbers) -> str:
        """Whether no element of the result is updated twice."""
        counts = [np.zeros(shape, np.int64)]
        ones = [np.ones(updates, np.int64)]
        (found,) = reference.scatter(counts, places, ones, numbers, lambda a, b: [a[0] + b[0]])
        return "true" if np.all(found < 2) else "false"

    # ---- dynamic slices ----

    def dynamic_slice(self) -> Case:
        shape = self.shape()
        element, index = self.rng.choice(ELEMENTS), self.rng.choice(INDICES)
        sizes = tuple(n if self.rng.random() < 0.3 else self.window(n) for n in shape)
        operand = self.values(shape, element)
        starts = [self.starts((), index, n) for n in shape]
        expected = reference.dynamic_slice(operand, list(map(int, starts)), sizes)
        types = (tensor(shape, element), *[f"tensor<{index}>"] * len(shape))
        text = f"{{slice_sizes = {_array(sizes)}}}"
        return Case("dynamic_slice", types, (tensor(sizes, element),), text, (operand, *starts), (expected,))

    def dynamic_update_slice(self) -> Case:
        shape = self.shape()
        element, index = self.rng.choice(ELEMENTS), self.rng.choice(INDICES)
        sizes = tuple(n if self.rng.random() < 0.3 else self.window(n) for n in shape)
        operand, update = self.values(shape, element), self.values(sizes, element)
        starts = [self.starts((), index, n) for n in shape]
        expected = reference.dynamic_update_slice(operand, update, list(map(int, starts)))
        type_ = tensor(shape, element)
        types = (type_, tensor(sizes, element), *[f"tensor<{index}>"] * len(shape))
        return Case("dynamic_update_slice", types, (type_,), "", (operand, update, *starts), (expected,))


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def _allows(name: str, element: str) -> bool:
    """Types that a body is valid and exact for."""
    if name in ("set", "swapped"):
        return True
    if name in ("maximum", "minimum"):
        return not element.startswith("complex")
    if name in ("and", "or", "xor", "mixed", "subtract"):
        integers = is_integer(numpy_dtype(element))
        return integers or (name in ("and", "or", "xor") and element == "i1")
    return element in ("i32", "ui8", "i64", "i1", "f64")


_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "subtract": np.subtract, "set": lambda a, b: b,
    "mixed": lambda a, b: a + a + b,
}  # fmt: skip


def _body(names: list[str]) -> reference.Body:
    def apply(olds: list[Any], news: list[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            if names[0] == "swapped":
                return news[::-1]
            return [_NUMPY[name](a, b) for name, a, b in zip(names, olds, news, strict=True)]

    return apply


def _region(names: list[str], elements: list[str]) -> str:
    count = len(names)
    types = [f"tensor<{element}>" for element in elements]
    arguments = ", ".join(f"%b{i}: {type_}" for i, type_ in enumerate(types * 2))
    lines, returned = [f"^bb0({arguments}):"], []
    for i, (name, type_) in enumerate(zip(names, types, strict=True)):
        a, b = f"%b{i}", f"%b{count + i}"
        if name == "mixed":
            lines.append(f"%t{i} = stablehlo.add {a}, {a} : {type_} %r{i} = stablehlo.add %t{i}, {b} : {type_}")
        elif name not in ("set", "swapped"):
            lines.append(f"%r{i} = stablehlo.{name} {a}, {b} : {type_}")
        returned.append(f"%b{2 * count - 1 - i}" if name == "swapped" else b if name == "set" else f"%r{i}")
    return " ".join([*lines, f"stablehlo.return {', '.join(returned)} : {', '.join(types)}"])


# ---- running ----


def equal(have: Array, want: Array) -> bool:
    """NaN is equal to NaN, and zeros to each other."""
    if have.shape != want.shape:
        return False
    if have.dtype.kind == "V":
        have, want = have.astype(np.float32), want.astype(np.float32)
    return bool(np.all((have == want) | ((have != have) & (want != want))))


def _wrong_shards(executable: Any, case: Case) -> list[int]:
    """Devices with a wrong part of some result."""
    found = set()
    for want, result in zip(case.expected, executable(*case.inputs), strict=True):
        found |= {s.partition for s in result.shards if not equal(s.to_numpy(), want[s.index])}
    return sorted(found)


def failures(seed: int, splits: int = 2, pipelines: int = 1) -> list[str]:
    """What is wrong with a case; empty if nothing is."""
    case, rng = Maker(seed).case(), random.Random(seed)
    found = []
    text = case.module()
    for _ in range(splits):
        mesh, rule = random_mesh(rng), rule_of(text)
        if all(kind is NEED_REPLICATION or n <= 1 for kind, n in zip(rule.kinds, rule.sizes, strict=True)):
            break
        axes = rng.choice(list(assignments(rule, mesh, 4, seed)))
        module = partition(text, mesh, axes)
        wrong = _wrong_shards(runtime.compile(module, padding="nan"), case)
        if wrong:
            found.append(f"devices {wrong} are wrong with factors {axes}\n{text}\n{module}")
    for _ in range(pipelines):
        mesh = random_mesh(rng)
        ranks = [t.count("x") - t.count("complex") for t in case.types + case.results]
        given = [print_sharding(random_sharding(rng, mesh, r)) if rng.random() < 0.7 and r else "" for r in ranks]
        program = case.module(f"sdy.mesh @mesh = {print_mesh(mesh)}\n", given)
        partitioned = gspmd.partition(program)
        wrong = _wrong_shards(runtime.compile(partitioned, padding="nan"), case)
        if wrong:
            found.append(f"devices {wrong} are wrong\n{program}\n{partitioned.module_text}")
    return found


def is_right_on_one_device(seed: int) -> bool:
    """Whether XLA's unpartitioned program agrees with the specification."""
    case = Maker(seed).case()
    results = runtime.compile_single(case.module())(*case.inputs)
    return all(equal(r.to_numpy(), want) for r, want in zip(results, case.expected, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--verbose", action="store_true", help="print the programs of failures")
    options = parser.parse_args()
    kinds, wrong, differs, begin = collections.Counter[str](), 0, [], time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        kinds[Maker(seed).case().name] += 1
        try:
            found = failures(seed)
        except Exception:
            found = [traceback.format_exc()]
        if found:
            wrong += 1
            print(f"seed {seed}: {Maker(seed).case().name}: {found[0] if options.verbose else found[0][-300:]}")
        if not is_right_on_one_device(seed):
            differs.append(seed)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(kinds.items()))
    print(f"{options.count} cases ({counts}), {wrong} wrong, {time.monotonic() - begin:.0f} s")
    print(f"XLA on one device differs from the specification in {len(differs)}: {differs[:20]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

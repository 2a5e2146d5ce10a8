"""Gathers, scatters, dynamic slices and updates made up from a seed, with what they must give."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gspmd.runtime.dtypes import filled, is_integer, numpy_dtype
from support import indexing_reference as reference
from support.indexing_reference import Array, Numbers

Shape = tuple[int, ...]
SIZES = (1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 12)
ELEMENTS = ("f32", "f32", "f32", "bf16", "f64", "i32", "ui8", "i64", "i1", "complex<f32>", "f8E4M3FN", "f8E5M2FNUZ")
INDICES = ("i32", "i32", "i64", "ui32", "i8", "ui8", "ui64", "i16")
REDUCERS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor", "set", "subtract", "mixed", "swapped")
MAX_ELEMENTS = 3000


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
        extreme = np.where(self.numpy.random(shape) < 0.5, dtype.type(limits.min), dtype.type(limits.max))
        return np.asarray(np.where(self.numpy.random(shape) < 0.07, extreme, found), dtype)

    def shape(self, least: int = 1, most: int = 4) -> Shape:
        while True:
            found = tuple(self.rng.choice(SIZES) for _ in range(self.rng.randint(least, most)))
            if np.prod(found) <= MAX_ELEMENTS:
                return found

    def window(self, size: int) -> int:
        pick = self.rng.random()
        if pick < 0.5:
            return 1 if pick < 0.35 else size
        return self.rng.randint(0 if pick < 0.55 else 1, size)

    # ---- gather and scatter ----

    def indexed(self, whole: float) -> tuple[Shape, Numbers, Shape, Shape, Shape]:
        """The shape of an operand, and as `numbers`."""
        while True:
            shape = self.shape()
            numbers, indices, result, sizes = self.numbers(shape, whole)
            if np.prod(result) <= MAX_ELEMENTS and np.prod(indices) <= MAX_ELEMENTS:
                return shape, numbers, indices, result, sizes

    def numbers(self, shape: Shape, whole: float) -> tuple[Numbers, Shape, Shape, Shape]:
        """Dimension numbers for an operand of this shape, the shape of the indices, of the result, and of windows.

        Dimensions without indices have whole windows with probability `whole`.
        """
        rng, rank = self.rng, len(shape)
        dims = list(range(rank))
        batching = sorted(rng.sample(dims, rng.choice([0, 0, 0, 1, min(2, rank)]))) if rng.random() < 0.6 else []
        rest = [d for d in dims if d not in batching]
        start = rng.sample(rest, rng.randint(0, len(rest)))
        sizes = [1] * rank
        for d in rest:
            sizes[d] = shape[d] if d not in start and rng.random() < whole else self.window(shape[d])
        collapsed = [d for d in rest if sizes[d] == 1 and rng.random() < 0.6]
        batch = [("batching", d) for d in batching] + [("free", -1)] * rng.choice([0, 1, 1, 1, 2])
        rng.shuffle(batch)
        batch_shape = [shape[d] if kind == "batching" else rng.choice(SIZES) for kind, d in batch]
        implicit = len(start) == 1 and rng.random() < 0.3
        vector_dim = len(batch) if implicit else rng.randint(0, len(batch))
        indices = list(batch_shape)
        if not implicit:
            indices.insert(vector_dim, len(start))
        at = {d: place + (not implicit and place >= vector_dim) for place, (_, d) in enumerate(batch) if d in batching}
        windows = [d for d in rest if d not in collapsed]
        total = len(batch) + len(windows)
        offset = sorted(rng.sample(range(total), len(windows)))
        result = [0] * total
        for place, d in zip(offset, windows, strict=True):
            result[place] = sizes[d]
        for place, size in zip([d for d in range(total) if d not in offset], batch_shape, strict=True):
            result[place] = size
        pairs = (tuple(batching), tuple(at[d] for d in batching))
        numbers = Numbers(tuple(offset), tuple(collapsed), *pairs, tuple(start), vector_dim)
        return numbers, tuple(indices), tuple(result), tuple(sizes)

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
        alike = rng.random() < 0.4 or first == "swapped"
        names = [first] * count if alike else [first, *rng.choices(REDUCERS[:-1], k=count - 1)]
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
    def _unique(shape: Shape, places: Array, updates: Shape, numbers: Numbers) -> str:
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

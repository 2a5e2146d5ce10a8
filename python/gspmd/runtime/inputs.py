"""Arguments for a run: random ones from a seed, and ones read from `.npz` files."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, UsageError, reason_of, shown
from gspmd.runtime.arguments import check_shape, describe
from gspmd.runtime.dtypes import float_limits, integer_limits, is_float, is_integer, numpy_dtype
from gspmd.transforms.ir.signature import ValueSignature

Array = np.ndarray[Any, Any]
_LARGEST_INDEX = 7  # random integers are 0..7, so that most are valid where they serve as indices


def random_inputs(
    values: Sequence[ValueSignature], seed: int = 0, signed: bool = True, bound: float = 1.0
) -> tuple[Array, ...]:
    """Random global arguments, which depend only on the seed and their index.

    Floats and the parts of complex numbers are uniform in (-bound, bound), or in [0, bound) if not `signed`;
    integers are 0..7, as far as the type goes; bools are fair coins. Raises UsageError for a negative seed.
    """
    if not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed is {shown(seed)}, expected a whole number of at least 0", code=Code.BAD_VALUE)
    return tuple(_random(value, np.random.default_rng([seed, i]), signed, bound) for i, value in enumerate(values))


def _random(value: ValueSignature, generator: np.random.Generator, signed: bool, bound: float) -> Array:
    dtype, shape = numpy_dtype(value.element_type), value.shape
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if is_integer(dtype):
        largest = min(_LARGEST_INDEX, integer_limits(dtype)[1])
        return generator.integers(0, largest, shape, endpoint=True).astype(dtype)
    if is_float(dtype):
        lowest = -bound if signed and float_limits(dtype).min < 0 else 0.0  # float8_e8m0fnu has no sign
        return generator.uniform(lowest, bound, shape).astype(dtype)
    lowest = -bound if signed else 0.0
    real, imaginary = (generator.uniform(lowest, bound, shape) for _ in range(2))
    return np.asarray(real + 1j * imaginary).astype(dtype)


def perturbed(arrays: Sequence[Array], seed: int = 0) -> tuple[Array, ...]:
    """The same arguments with every float changed by one rounding error; other types are unchanged."""
    return tuple(_perturbed(array, np.random.default_rng([seed, i])) for i, array in enumerate(arrays))


def _perturbed(array: Array, generator: np.random.Generator) -> Array:
    if not (is_float(array.dtype) or array.dtype.kind == "c"):
        return array
    eps = float(float_limits(array.dtype).eps)
    factor = 1.0 + eps * generator.choice((-1.0, 1.0), array.shape)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return np.asarray(array.astype(wide) * factor).astype(array.dtype)


def read_inputs(path: str | os.PathLike[str], values: Sequence[ValueSignature]) -> tuple[Array, ...]:
    """Arguments from an `.npz` file whose arrays are named `0`, `arg0`, `arr_0`, or like the argument.

    Dtypes are checked when a program is called. Errors: InputError if the file cannot be read; UsageError for missing
    and unknown names; ExecutionError for wrong shapes, before unpacking an array that may be larger than memory.
    """
    with _npz(path) as archive:
        return _arguments(archive, os.fspath(path), values)


def _arguments(archive: Any, path: str, values: Sequence[ValueSignature]) -> tuple[Array, ...]:
    stored = archive.files
    chosen: list[str] = []
    for index, value in enumerate(values):
        names = (str(index), f"arg{index}", f"arr_{index}", *((value.name,) if value.name else ()))
        name = next((name for name in names if name in stored), None)
        if name is None:
            raise UsageError(
                f"'{path}' has no array for argument {describe(index, value)}; "
                f"it has {', '.join(sorted(stored)) or 'none'}",
                hint=f"call it '{names[-1] if value.name else names[0]}'",
                code=Code.ARGUMENTS,
            )
        chosen.append(name)
    unused = sorted(set(stored) - set(chosen))
    if unused:
        raise UsageError(
            f"'{path}' has arrays that are not arguments: {', '.join(unused)}",
            hint=f"the program has {len(values)} arguments, called 0, 1, ...",
            code=Code.ARGUMENTS,
        )
    for index, (name, value) in enumerate(zip(chosen, values, strict=True)):
        check_shape(index, value, _shape(archive, name))
    return tuple(
        _typed(archive[name], numpy_dtype(value.element_type)) for name, value in zip(chosen, values, strict=True)
    )


@contextlib.contextmanager
def _npz(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open the archive without reading arrays. Raises InputError for an invalid archive, also on later reads."""
    name = os.fspath(path)
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError(
                f"'{name}' is a single array, not an .npz archive", hint="use numpy.savez", code=Code.BAD_FILE
            )
        with archive:
            yield archive
    except OSError as error:
        raise InputError(f"cannot read '{name}': {reason_of(error).lower()}", code=Code.CANNOT_READ) from None
    except Error:
        raise
    except Exception as error:  # noqa: BLE001 - numpy, zipfile and zlib may raise anything for arbitrary bytes
        raise InputError(
            f"'{name}' is not an .npz archive: {error.args[0] if error.args else error}",
            hint="use numpy.savez",
            code=Code.BAD_FILE,
        ) from None


def _shape(archive: Any, name: str) -> tuple[int, ...]:
    """The header of an array, without unpacking data that may be larger than memory."""
    with archive.zip.open(f"{name}.npy" if f"{name}.npy" in archive.zip.namelist() else name) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape: tuple[int, ...] = read(member)[0]
    return shape


def _typed(array: Array, dtype: np.dtype[Any]) -> Array:
    """View the bytes of types that numpy's files do not support (bfloat16, float8) as these types."""
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array


def npz(arrays: Mapping[str, Array]) -> bytes:
    """The contents of an `.npz` file.

    Types that numpy's files do not support are stored as bytes; `read_inputs` views them as the type of the argument.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()

"""The numpy dtypes of MLIR's element types, and the padding values of each."""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np

from gspmd.dialect.errors import Unsupported

Padding = Literal["zero", "nan"]

_NUMPY = {
    "i1": "bool",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "f4E2M1FN": "float4_e2m1fn",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
_FLOAT_LIMITS: Any = ml_dtypes.finfo
_INTEGER_LIMITS: Any = ml_dtypes.iinfo


def numpy_dtype(element_type: str) -> np.dtype[Any]:
    """The dtype of an MLIR element type. Raises Unsupported for types without a dtype."""
    name = _NUMPY.get(element_type)
    if name is None:
        raise Unsupported(f"values of element type '{element_type}' cannot be passed to a program")
    return np.dtype(getattr(ml_dtypes, name, name))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is a real floating-point type, numpy's own or one of `ml_dtypes`."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(("float", "bfloat")))


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is an integer type, numpy's own or one of `ml_dtypes`; not bool."""
    return dtype.kind in "iu" or (dtype.kind == "V" and dtype.name.startswith(("int", "uint")))


def float_limits(dtype: np.dtype[Any]) -> Any:
    """`finfo` of a floating-point or complex dtype (of its real part)."""
    return _FLOAT_LIMITS(dtype)


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    limits = _INTEGER_LIMITS(dtype)
    return int(limits.min), int(limits.max)


def filled(shape: tuple[int, ...], dtype: np.dtype[Any], padding: Padding) -> np.ndarray[Any, Any]:
    """An array of padding: zeros, or for "nan" the values that do most harm if they are read.

    These are NaN (or the largest value of a type without NaN), alternately the smallest and the largest integer, and
    True.
    """
    array = np.zeros(shape, dtype)
    if padding == "zero":
        return array
    if is_integer(dtype):
        smallest, largest = integer_limits(dtype)
        flat = array.reshape(-1)
        flat[0::2] = largest
        flat[1::2] = smallest
    elif dtype.kind == "b":
        array[...] = True
    elif dtype.kind == "c":
        array[...] = complex(np.nan, np.nan)
    else:
        array[...] = np.nan
        if not np.isnan(array.astype(np.float32)).all():
            array[...] = float_limits(dtype).max
    return array

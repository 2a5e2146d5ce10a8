"""Put an argument of a call onto the devices, or raise a precise error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.notation import print_sharding
from gspmd.runtime import placing
from gspmd.runtime.dtypes import Padding, is_float, is_integer, numpy_dtype
from gspmd.runtime.familiar_errors import ArgumentTypeMismatch, ProgramFailed
from gspmd.runtime.sharded_array import Devices, ShardedArray, unreduced_axes
from gspmd.transforms.ir.signature import ValueSignature


def check_count(values: Sequence[ValueSignature], count: int) -> None:
    """Raise ExecutionError unless there is one argument for each of `values`."""
    if count != len(values):
        expected = ", ".join(describe(i, value) for i, value in enumerate(values)) or "none"
        raise ExecutionError(f"got {count} arguments, expected {len(values)}: {expected}", code=Code.ARGUMENTS)


def check_donation(values: Sequence[ValueSignature], args: Sequence[Any]) -> None:
    """Raise ExecutionError if an array given to a donated argument is given to another one too."""
    check_donated_once([value.donated for value in values], args)


def check_donated_once(donated: Sequence[bool], args: Sequence[Any]) -> None:
    """The same for arguments with a flag that says whether they are donated."""
    givers = {id(arg): i for i, (gives, arg) in enumerate(zip(donated, args, strict=True)) if gives}
    for i, arg in enumerate(args):
        other = givers.get(id(arg), i)
        if other != i and isinstance(arg, jax.Array):
            raise ProgramFailed(
                f"argument {i} is also donated as argument {other}",
                hint="pass a copy, or a numpy array for one",
                code=Code.DONATED,
            )


def describe(index: int, value: ValueSignature) -> str:
    """`0 'w': f32[8,3]`."""
    name = f" '{value.name}'" if value.name else ""
    return f"{index}{name}: {value.element_type}[{','.join(map(str, value.shape))}]"


def place(index: int, value: ValueSignature, arg: Any, devices: Devices, padding: Padding) -> ShardedArray:
    """The argument on the devices, placed as `value` requires; an array with that placement is not copied.

    Errors: ExecutionError naming the argument, with expected and actual shape or dtype.
    """
    name, dtype = _name(index, value), numpy_dtype(value.element_type)
    if isinstance(arg, jax.Array):
        _check_alive(name, arg.is_deleted())
        _check_type(name, arg.shape, arg.dtype, value.shape, dtype)
        if unreduced_axes(arg) and not placing.lies_so(arg, value.sharding, devices):
            arg = _summed(name, arg, value)
        placed = placing.place(arg, value.sharding, devices, padding)
    else:
        placed = placing.from_host(to_host(index, value, arg), value.sharding, devices, padding)
    return placed.in_memory(value.memory_kind)


def _summed(name: str, array: jax.Array, value: ValueSignature) -> np.ndarray[Any, Any]:
    """The sum of an unreduced array's summands, on the host. Raises ExecutionError for a `jax.Array`."""
    if isinstance(array, ShardedArray):
        return array.to_numpy()
    axes = ", ".join(unreduced_axes(array))
    raise ExecutionError(
        f"{name} is unreduced over {axes}, and the program wants it as {print_sharding(value.sharding)}",
        hint="sum it first, with jax.sharding.reshard, or pass a numpy array",
        code=Code.ARGUMENTS,
    )


def to_host(index: int, value: ValueSignature, arg: Any) -> np.ndarray[Any, Any]:
    """The argument as a global numpy array; a Python number becomes an array of rank 0. Errors: as `place`."""
    name, dtype = _name(index, value), numpy_dtype(value.element_type)
    if isinstance(arg, bool | int | float | complex) and not isinstance(arg, np.generic):
        array = _scalar(name, arg, dtype)
    else:
        try:
            array = np.asarray(arg)
        except ValueError as error:
            raise ArgumentTypeMismatch(f"{name} is not an array: {error}", code=Code.ARGUMENTS) from None
    _check_type(name, array.shape, array.dtype, value.shape, dtype)
    return array


def _name(index: int, value: ValueSignature) -> str:
    return f"argument {index}" + (f" '{value.name}'" if value.name else "")


def check(index: int, value: ValueSignature, arg: Any, aval: Any) -> None:
    """Raise ExecutionError unless an argument has the shape and dtype that the program was compiled for."""
    if isinstance(arg, jax.Array):
        _check_type(_name(index, value), arg.shape, arg.dtype, tuple(aval.shape), aval.dtype)
    elif isinstance(arg, np.ndarray | np.generic) and arg.dtype.kind in "biufc":
        dtype = jax.dtypes.canonicalize_dtype(arg.dtype)  # the dtype to which JAX converts it
        _check_type(_name(index, value), arg.shape, dtype, tuple(aval.shape), aval.dtype)
    elif not isinstance(arg, jax.Ref):
        to_host(index, value, arg)


def check_unused(name: str, arg: Any, aval: Any) -> None:
    """The same for an argument that the program does not use; a Python number is only checked to be a number."""
    dtype = getattr(arg, "dtype", aval.dtype)
    if isinstance(dtype, np.dtype):
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    if not isinstance(arg, jax.Ref):
        _check_type(name, np.shape(arg), dtype, tuple(aval.shape), aval.dtype)


def gone(name: str) -> ProgramFailed:
    return ProgramFailed(
        f"{name} was donated to an earlier call and is gone: Array has been deleted",
        hint="pass that call's result, or a numpy array, which is copied",
        code=Code.DONATED,
    )


def _check_alive(name: str, deleted: bool) -> None:
    if deleted:
        raise gone(name)


def _check_type(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    expected_shape: tuple[int, ...],
    expected_dtype: np.dtype[Any],
) -> None:
    if tuple(shape) != expected_shape:
        raise _other_shape(name, shape, expected_shape)
    if dtype != expected_dtype:
        raise ArgumentTypeMismatch(
            f"{name} has dtype {dtype}, expected {expected_dtype.name}",
            hint=f"convert it, e.g. with .astype('{expected_dtype.name}')",
            code=Code.ARGUMENTS,
        )


def check_shape(index: int, value: ValueSignature, shape: tuple[int, ...]) -> None:
    """Raise ExecutionError unless the shape is that of the argument."""
    if shape != value.shape:
        raise _other_shape(_name(index, value), shape, value.shape)


def _other_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> ArgumentTypeMismatch:
    return ArgumentTypeMismatch(
        f"{name} has shape {tuple(shape)}, expected the global shape {expected}",
        hint="pass the whole array, not the shard of one device",
        code=Code.ARGUMENTS,
    )


def _scalar(name: str, number: complex, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A Python number as an array of rank 0, if the dtype can hold numbers of its kind."""
    rank = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2 if isinstance(number, float) else 3
    holds = 0 if dtype.kind == "b" else 1 if is_integer(dtype) else 2 if is_float(dtype) else 3
    if rank > holds or (rank == 0 and holds > 0):
        raise ArgumentTypeMismatch(
            f"{name} is the {type(number).__name__} {number}, expected {dtype.name}",
            hint="convert it",
            code=Code.ARGUMENTS,
        )
    try:
        array = np.asarray(number).astype(dtype) if holds > 1 else np.array(number, dtype)
    except OverflowError:
        array = None
    if array is None or (holds == 1 and int(array) != number):
        raise ArgumentTypeMismatch(f"{name} is {number}, which {dtype.name} cannot hold", code=Code.ARGUMENTS)
    return array

"""Bring one argument of a call onto the devices, or say what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from gspmd import layout
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.notation import print_sharding
from gspmd.dtypes import Padding, is_float, is_integer, numpy_dtype
from gspmd.sharded_array import Devices, ShardedArray, from_host, from_jax, jax_can_hold, reshard_jax, unreduced_axes
from gspmd.transforms.support.signature import ValueSignature


def check_count(values: Sequence[ValueSignature], count: int) -> None:
    """Raise ExecutionError unless there is one argument for each of `values`."""
    if count != len(values):
        expected = ", ".join(describe(i, value) for i, value in enumerate(values)) or "none"
        raise ExecutionError(f"got {count} arguments, expected {len(values)}: {expected}")


def check_donation(values: Sequence[ValueSignature], args: Sequence[Any]) -> None:
    """Raise ExecutionError if an array given to a donated argument is given to another one too."""
    donated = {id(arg): i for i, (value, arg) in enumerate(zip(values, args, strict=True)) if value.donated}
    for i, arg in enumerate(args):
        other = donated.get(id(arg), i)
        if other != i and isinstance(arg, ShardedArray | jax.Array):
            raise ExecutionError(
                f"argument {i} is also donated as argument {other}", hint="pass a copy, or a numpy array for one"
            )


def describe(index: int, value: ValueSignature) -> str:
    """`0 'w': f32[8,3]`."""
    name = f" '{value.name}'" if value.name else ""
    return f"{index}{name}: {value.element_type}[{','.join(map(str, value.shape))}]"


def place(index: int, value: ValueSignature, arg: Any, devices: Devices, padding: Padding) -> ShardedArray:
    """The argument as `value` asks, on the devices; what already lies right is used as it is.

    Errors: ExecutionError naming the argument, with expected and actual shape or dtype.
    """
    name, dtype = _name(index, value), numpy_dtype(value.element_type)
    kind = value.memory_kind
    if isinstance(arg, ShardedArray):
        _check_alive(name, arg.is_deleted)
        _check_type(name, arg.shape, arg.dtype, value.shape, dtype)
        if arg.devices == devices and _same_parts(arg, value):
            arg = arg.in_memory(kind)
            return ShardedArray(arg.shape, arg.dtype, value.sharding, devices, arg.buffers)
        is_array = jax_can_hold(arg.sharding, arg.shape) and not arg.sharding.unreduced
        arg = arg.to_jax() if is_array else arg.to_numpy()
    if isinstance(arg, jax.Array):
        _check_alive(name, arg.is_deleted())
        _check_type(name, arg.shape, arg.dtype, value.shape, dtype)
        return _place_jax(name, arg, value, devices, padding).in_memory(kind)
    return from_host(to_host(index, value, arg), value.sharding, devices, padding).in_memory(kind)


def to_host(index: int, value: ValueSignature, arg: Any) -> np.ndarray[Any, Any]:
    """The argument as a global numpy array; Python numbers become arrays of rank 0. Errors: as `place`."""
    name, dtype = _name(index, value), numpy_dtype(value.element_type)
    if isinstance(arg, bool | int | float | complex) and not isinstance(arg, np.generic):
        array = _scalar(name, arg, dtype)
    else:
        try:
            array = np.asarray(arg)
        except ValueError as error:
            raise ExecutionError(f"{name} is not an array: {error}") from None
    _check_type(name, array.shape, array.dtype, value.shape, dtype)
    return array


def _name(index: int, value: ValueSignature) -> str:
    return f"argument {index}" + (f" '{value.name}'" if value.name else "")


def _place_jax(name: str, array: jax.Array, value: ValueSignature, devices: Devices, padding: Padding) -> ShardedArray:
    placed = from_jax(array, value.sharding, devices)
    if placed is not None:
        return placed
    axes = unreduced_axes(array.sharding)
    if axes:
        raise ExecutionError(
            f"{name} is unreduced over {', '.join(axes)}, and the program wants it as {print_sharding(value.sharding)}",
            hint="sum it first, with jax.sharding.reshard, or pass a numpy array",
        )
    if jax_can_hold(value.sharding, value.shape) and not value.sharding.unreduced:
        return reshard_jax(array, value.sharding, devices)
    if not array.is_fully_addressable:
        raise ExecutionError(
            f"{name} is partly on devices of other processes, and its shards are uneven",
            hint="pass the same numpy array in every process",
        )
    return from_host(np.asarray(array), value.sharding, devices, padding)


def _same_parts(array: ShardedArray, value: ValueSignature) -> bool:
    """Whether every partition holds the part that it should, however the axes are called."""
    have, want = array.sharding, value.sharding
    if have.mesh == want.mesh and have.dim_axes() == want.dim_axes() and have.unreduced == want.unreduced:
        return True
    same_size = have.mesh.size == want.mesh.size and have.shard_counts() == want.shard_counts()
    return same_size and layout.part_indices(have) == layout.part_indices(want)


def _check_alive(name: str, deleted: bool) -> None:
    if deleted:
        raise ExecutionError(
            f"{name} was donated to an earlier call and is gone",
            hint="pass that call's result, or a numpy array, which is copied",
        )


def _check_type(
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    expected_shape: tuple[int, ...],
    expected_dtype: np.dtype[Any],
) -> None:
    if tuple(shape) != expected_shape:
        raise ExecutionError(
            f"{name} has shape {tuple(shape)}, expected the global shape {expected_shape}",
            hint="pass the whole array, not one device's part",
        )
    if dtype != expected_dtype:
        raise ExecutionError(
            f"{name} has dtype {dtype}, expected {expected_dtype.name}",
            hint=f"convert it, e.g. with .astype('{expected_dtype.name}')",
        )


def _scalar(name: str, number: complex, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A Python number as an array of rank 0, if the dtype can hold numbers of its kind."""
    rank = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2 if isinstance(number, float) else 3
    holds = 0 if dtype.kind == "b" else 1 if is_integer(dtype) else 2 if is_float(dtype) else 3
    if rank > holds or (rank == 0 and holds > 0):
        raise ExecutionError(
            f"{name} is the {type(number).__name__} {number}, expected {dtype.name}", hint="convert it"
        )
    try:
        array = np.asarray(number).astype(dtype) if holds > 1 else np.array(number, dtype)
    except OverflowError:
        array = None
    if array is None or (holds == 1 and int(array) != number):
        raise ExecutionError(f"{name} is {number}, which {dtype.name} cannot hold")
    return array

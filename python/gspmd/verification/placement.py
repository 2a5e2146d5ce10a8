"""The shard of an argument or result that each device has, by its annotation."""

from __future__ import annotations

from gspmd.transforms.ir.signature import ValueSignature
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.index_maps import IndexMap, Label, counted, dim, pointwise


def parts(devices: DeviceDigits, signature: ValueSignature) -> dict[Label, IndexMap]:
    """For each dimension, the index in the whole value as a function of the device and of the index in its shard.

    Indices beyond the end are padding.
    """
    found = {}
    for d, (size, axes) in enumerate(zip(signature.local_shape, signature.sharding.dim_axes(), strict=True)):
        index = counted(dim(d), size)
        if axes:
            shard = devices.shard(signature.sharding.mesh, axes)
            index = pointwise(lambda s, i, size=size: s * size + i, shard, index)
        found[dim(d)] = index
    return found

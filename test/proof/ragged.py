"""Random ragged all-to-alls, and what they make of their operands according to a model in numpy.

Meshes of one to three axes; groups along several of them, in any order, or of `axis_index_groups`; manual computations
that leave axes free, along which rows are split; several slices for each device; slices that are packed, or lie
anywhere: empty ones, overlapping ones, and ones that reach out of what there is.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import jax
import ml_dtypes
import numpy as np
import numpy.typing as npt
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import gspmd

P = PartitionSpec
Array = np.ndarray[Any, Any]
Ints = npt.NDArray[np.int64]
_MESHES = ((8,), (4, 2), (2, 4), (2, 2, 2), (1, 4), (3, 2))
_ELEMENTS = (
    *("float32", "int32", "bool", "complex64", "int8", "uint8", "float16"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
)
_NUMBERS = ("int32", "int8", "uint8", "int16", "uint32")


@dataclasses.dataclass(frozen=True)
class Slices:
    """Of every device of the manual axes, `[devices, slices]`: as `jax.lax.ragged_all_to_all` takes them."""

    input_offsets: Ints
    send_sizes: Ints
    output_offsets: Ints
    recv_sizes: Ints


@dataclasses.dataclass(frozen=True)
class RaggedCase:
    """One exchange.

    `held` are the manual axes, `axes` those of them that it is along, in its order; `groups` is `axis_index_groups`.
    Rows and outputs are `[devices of the manual axes, rows, ...]`, and `split` is along which axes their last dimension
    is split.
    """

    mesh: dict[str, int]
    held: tuple[str, ...]
    axes: tuple[str, ...]
    groups: list[list[int]] | None
    rows: Array
    output: Array
    slices: Slices
    numbers: tuple[str, ...]
    split: tuple[str, ...]

    def peers(self) -> list[list[int]]:
        """The devices of the manual axes, in the groups that exchange."""
        sizes = [self.mesh[name] for name in self.held]
        places = np.arange(np.prod(sizes)).reshape(sizes)
        order = [self.held.index(name) for name in self.axes]
        rest = [dim for dim in range(len(sizes)) if dim not in order]
        count = int(np.prod([self.mesh[name] for name in self.axes]))
        groups = places.transpose(rest + order).reshape(-1, count)
        return [list(row[chosen]) for row in groups for chosen in self.groups or [list(range(count))]]

    def expected(self) -> Array:
        """What the outputs become: slices are written in the order of their senders."""
        result, slices = self.output.copy(), self.slices
        for group in self.peers():
            each = slices.send_sizes.shape[1] // len(group)
            for rank, receiver in enumerate(group):
                for sender in group:
                    for index in range(rank * each, (rank + 1) * each):
                        start, place = slices.input_offsets[sender, index], slices.output_offsets[sender, index]
                        for step in range(slices.send_sizes[sender, index]):
                            read, written = start + step, place + step
                            if 0 <= read < self.rows.shape[1] and 0 <= written < self.output.shape[1]:
                                result[receiver, written] = self.rows[sender, read]
        return result

    def arguments(self) -> tuple[Array, ...]:
        vectors = dataclasses.astuple(self.slices)
        return self.rows, self.output, *(v.astype(n) for v, n in zip(vectors, self.numbers, strict=True))

    def jitted(self) -> Any:
        """The function of gspmd that exchanges."""
        names = tuple(self.mesh)
        devices = np.array(jax.devices()[: int(np.prod(list(self.mesh.values())))])
        mesh = Mesh(devices.reshape(list(self.mesh.values())), names, axis_types=(AxisType.Auto,) * len(names))

        def exchange(*operands: Any) -> Any:
            result = jax.lax.ragged_all_to_all(
                *(operand[0] for operand in operands), axis_name=self.axes, axis_index_groups=self.groups
            )
            return result[None]

        spec = P(self.held)
        mapped = jax.shard_map(
            exchange, mesh=mesh, in_specs=spec, out_specs=spec, axis_names=set(self.held), check_vma=False
        )
        whole = NamedSharding(mesh, spec)
        rows = NamedSharding(mesh, P(self.held, *[None] * (self.rows.ndim - 2), self.split)) if self.split else whole
        return gspmd.jit(mapped, mesh=mesh, in_shardings=(rows, rows, *[whole] * 4))

    def described(self) -> str:
        return (
            f"mesh {self.mesh}, manual {self.held}, along {self.axes}, groups {self.groups}, rows {self.rows.shape} "
            f"{self.rows.dtype}, output {self.output.shape}, split {self.split}, numbers {self.numbers}, {self.slices}"
        )


def ragged_case(seed: int) -> RaggedCase:
    """The exchange of a seed."""
    draw, random_ = random.Random(seed), np.random.default_rng(seed)
    sizes = draw.choice(_MESHES)
    mesh = dict(zip("xyz", sizes, strict=False))
    axes = tuple(draw.sample(list(mesh), draw.randint(1, len(mesh))))
    held = tuple(name for name in mesh if name in axes or draw.random() < 0.4)
    free = tuple(name for name in mesh if name not in held)
    count = int(np.prod([mesh[name] for name in axes]))
    groups = None
    if len(axes) == 1 and count % 2 == 0 and draw.random() < 0.3:
        order = draw.sample(range(count), count)
        members = draw.choice([n for n in (1, 2, 4) if count % n == 0])
        groups = [order[i : i + members] for i in range(0, count, members)]
    peers, devices = len(groups[0]) if groups else count, int(np.prod([mesh[name] for name in held]))
    shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(0, 2)))
    rows, kept = draw.randint(0, 9), draw.randint(0, 9)
    element = np.dtype(draw.choice(_ELEMENTS))
    case = RaggedCase(
        mesh,
        held,
        axes,
        groups,
        random_.integers(-7, 8, (devices, rows, *shape)).astype(element),
        random_.integers(-7, 8, (devices, kept, *shape)).astype(element),
        Slices(*[np.zeros((devices, 0), np.int64)] * 4),
        tuple(draw.choice(_NUMBERS) for _ in range(4)),
        free if shape and draw.random() < 0.7 else (),
    )
    each = draw.randint(1, 3)
    slices = _packed(case, peers, each, random_) if draw.random() < 0.5 else _anywhere(case, peers, each, random_)
    return dataclasses.replace(case, slices=slices)


def _packed(case: RaggedCase, peers: int, each: int, random_: np.random.Generator) -> Slices:
    """Slices one after the other, where they are read as where they are written, as far as there are rows."""
    count, devices = peers * each, case.rows.shape[0]
    sizes = random_.multinomial(case.rows.shape[1], [1 / (count + 1)] * (count + 1), devices)[:, :-1]
    filled = dict.fromkeys(range(devices), 0)
    places = np.zeros((devices, count), np.int64)
    for group in case.peers():
        for sender in group:
            for index in range(count):
                receiver = group[index // each]
                sizes[sender, index] = min(sizes[sender, index], case.output.shape[1] - filled[receiver])
                places[sender, index] = filled[receiver]
                filled[receiver] += sizes[sender, index]
    starts = np.cumsum(sizes, 1) - sizes
    return Slices(starts, sizes, places, _received(case, sizes, each))


def _anywhere(case: RaggedCase, peers: int, each: int, random_: np.random.Generator) -> Slices:
    """Slices that may be empty, overlap, or reach out of what there is at either end, as far as their types can."""
    shape = case.rows.shape[0], peers * each
    low = [0 if name.startswith("u") else -3 for name in case.numbers]
    starts, sizes, places = (random_.integers(least, 12, shape) for least in low[:3])
    if case.numbers[3].startswith("u"):
        sizes = np.maximum(sizes, 0)
    return Slices(starts, sizes, places, _received(case, sizes, each))


def _received(case: RaggedCase, sizes: Ints, each: int) -> Ints:
    """The sizes as the receivers of slices know them."""
    result = np.zeros_like(sizes)
    for group in case.peers():
        for rank, receiver in enumerate(group):
            for number, sender in enumerate(group):
                result[receiver, number * each : (number + 1) * each] = sizes[sender, rank * each : (rank + 1) * each]
    return result


def difference(case: RaggedCase) -> str:
    """What is wrong with a case as gspmd runs it; empty if nothing is."""
    found, wanted = np.asarray(case.jitted()(*case.arguments())), case.expected()
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    wrong = np.argwhere(found != wanted)
    return f"element {tuple(wrong[0])} of {len(wrong)}" if len(wrong) else ""

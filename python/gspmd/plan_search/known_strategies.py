"""Well-known parallelisms, as limits on the shardings of arguments.

Data parallel: the batch over all axes, weights replicated. Fully sharded: weights over all axes, too, along the
dimension that most of them share, as in FSDP and ZeRO-3. Tensor parallel: weights over the last axis, examples over the
others. Two-dimensional: the dimension that most weights have over all axes but the last, others over the last, as the
paper finalizes its models (arXiv 2105.04663, section 5.1). Everything else is chosen by cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.plan_search.plan_problem import Mask
from gspmd.plan_search.roles import DecidedRole, Roles

DATA, FULLY_SHARDED, TENSOR, TWO_DIMENSIONAL = "data parallel", "fully sharded", "tensor parallel", "two-dimensional"


def known_strategies(roles: Roles, mesh: Mesh) -> Iterator[tuple[str, Mask]]:
    """The limits on shardings by name; none if the batch dimension is unknown."""
    axes = tuple(axis for axis in mesh.all_axes() if axis.size > 1)
    batch = roles.batch_color([axis.size for axis in axes])
    if batch is None:
        return
    held: dict[int, float] = defaultdict(float)
    for role in roles.roles:
        for color in set(role.colors) if role.arguments and batch not in role.colors else ():
            held[color] += role.bytes
    main = max(held, key=lambda color: (held[color], -color), default=batch)
    first, last = axes[:-1], axes[-1:]

    def way(weights: Mask, data: Mask) -> Mask:
        return lambda role, sharding: (data if batch in role.colors else weights)(role, sharding)

    def examples(over: Axes) -> Mask:
        return lambda role, sharding: sharding.dim_axes() == _along(role, mesh, [batch], over).dim_axes()

    def fully(role: DecidedRole, sharding: TensorSharding) -> bool:
        order = sorted(set(role.colors), key=lambda color: (-held[color], color))
        return sharding.dim_axes() == _along(role, mesh, order, axes).dim_axes()

    def in_two(role: DecidedRole, sharding: TensorSharding) -> bool:
        pairs = list(zip(role.colors, sharding.dim_axes(), strict=True))
        wanted = _along(role, mesh, [main], first).dim_axes()
        is_main = all(each == want for (color, each), want in zip(pairs, wanted, strict=True) if color == main)
        return is_main and all(set(each) <= set(last) for color, each in pairs if color != main)

    yield DATA, way(lambda _, sharding: not sharding.used_axes(), examples(axes))
    yield FULLY_SHARDED, way(fully, examples(axes))
    yield TENSOR, way(lambda _, sharding: set(sharding.used_axes()) <= set(last), examples(first))
    if first:
        yield TWO_DIMENSIONAL, way(in_two, examples(first))


def _along(role: DecidedRole, mesh: Mesh, colors: Sequence[int], over: Axes) -> TensorSharding:
    """Split the first dimension of these colors that all axes divide, or else that most axes divide.

    The others are whole.
    """
    best: tuple[int, tuple[Axes, ...]] = (1, ((),) * role.type.rank)
    for color in colors:
        dimension = role.colors.index(color) if color in role.colors else -1
        split: Axes = ()
        for axis in over if dimension >= 0 else ():
            if role.type.shape[dimension] % size_of((*split, axis)) == 0:
                split = (*split, axis)
        if size_of(split) > best[0]:
            best = size_of(split), tuple(split if n == dimension else () for n in range(role.type.rank))
    return replicated(mesh, role.type.rank).with_axes(best[1])

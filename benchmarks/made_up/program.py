"""Programs as plain values: steps that JAX traces, meshes and annotations. They can be kept, cut down and lowered."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from made_up.operations import OPERATIONS, argument_type
from made_up.step import Dims, Step


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, and which of their values are results, each with its annotation or None.

    A trained program gives the gradient of the mean square of its results, in all arguments that are no indices.
    """

    mesh: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]
    results: tuple[tuple[int, Dims | None], ...]
    trained: bool = False

    @property
    def devices(self) -> int:
        return math.prod(size for _, size in self.mesh)

    @property
    def arguments(self) -> list[int]:
        return [number for number, step in enumerate(self.steps) if step.is_argument]

    @property
    def kinds(self) -> list[str]:
        """The operations, without what brings values into the program."""
        return [step.kind for step in self.steps if not step.is_argument]

    def lowered(self) -> str:
        """StableHLO with Shardy's annotations, as JAX lowers it."""
        from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

        names, sizes = zip(*self.mesh, strict=True)
        mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))

        def sharding(dims: Dims | None) -> Any:
            if dims is None:
                return None
            return NamedSharding(mesh, PartitionSpec(*(PartitionSpec.UNCONSTRAINED if d is None else d for d in dims)))

        return _lowered(self, sharding)

    def without_unused(self) -> Program:
        """The program without the steps that no result needs."""
        needed = {number for number, _ in self.results}
        for number in reversed(range(len(self.steps))):
            if number in needed:
                needed |= set(self.steps[number].operands)
        kept = sorted(needed)
        place = {number: index for index, number in enumerate(kept)}
        steps = tuple(
            dataclasses.replace(self.steps[n], operands=tuple(place[o] for o in self.steps[n].operands)) for n in kept
        )
        return dataclasses.replace(self, steps=steps, results=tuple((place[n], dims) for n, dims in self.results))


def _lowered(program: Program, sharding: Any) -> str:
    import jax
    import jax.numpy as jnp

    arguments = program.arguments

    def forward(*given: Any) -> tuple[Any, ...]:
        values: list[Any] = []
        rest = iter(given)
        for step in program.steps:
            if step.is_argument:
                values.append(next(rest))
                continue
            value = OPERATIONS[step.kind](step.numbers, *(values[o] for o in step.operands))
            if step.dims is not None:
                value = jax.lax.with_sharding_constraint(value, sharding(step.dims))
            values.append(value)
        return tuple(values[number] for number, _ in program.results)

    def loss(*given: Any) -> Any:
        return sum(jnp.mean(jnp.square(value.astype(jnp.float32))) for value in forward(*given))

    taken = [sharding(program.steps[n].dims) for n in arguments]
    if program.trained:
        floats = tuple(i for i, n in enumerate(arguments) if program.steps[n].kind == "argument")
        function: Any = jax.grad(loss, argnums=floats)
        asked = program.results[0][1] is not None  # whether gradients are to lie as what they are gradients of
        given = tuple(taken[i] if asked else None for i in floats)
    else:
        function = forward
        given = tuple(sharding(dims) for _, dims in program.results)
    jitted = jax.jit(function, in_shardings=tuple(taken), out_shardings=given, keep_unused=True)
    traced = jitted.trace(*(argument_type(program.steps[n]) for n in arguments))
    return str(traced.lower(lowering_platforms=("cpu",)).as_text())

"""A model as something to run step by step: what every example makes of its configuration and a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from gspmd.examples.common.optimizers import Optimizer
from gspmd.examples.common.settings import choose

Tree = Any  # a pytree of arrays
DTYPES = {"float32": jax.numpy.float32, "bfloat16": jax.numpy.bfloat16}
Metrics = dict[str, Any]  # arrays by name; a curve shows "loss", or what comes first


@dataclasses.dataclass(frozen=True)
class Program:
    """`step(state, batch)` gives the next state and metrics; specs are prefixes of the pytrees they are for."""

    step: Callable[[Tree, Tree], tuple[Tree, Metrics]]
    init: Callable[[], Tree]
    batch: Callable[[int], Tree]
    state_specs: Tree
    batch_specs: Tree

    @property
    def shardings(self) -> dict[str, Any]:
        """The arguments of `gspmd.jit` that say how states and batches are split. The state is donated."""
        return {
            "in_shardings": (self.state_specs, self.batch_specs),
            "out_shardings": (self.state_specs, None),
            "donate_argnums": 0,
        }

    def abstract(self) -> tuple[Tree, Tree]:
        """Shapes and dtypes of state and batch."""
        return jax.eval_shape(self.init), jax.eval_shape(lambda: self.batch(0))


def training(
    loss: Callable[[Tree, Tree], Any],
    init: Callable[[], Tree],
    specs: Tree,
    batch: Callable[[int], Tree],
    batch_specs: Tree,
    optimizer: Optimizer,
    moment_specs: Tree | None = None,
    dtype: str = "float32",
) -> Program:
    """Steps of training: `loss(params, batch)` is a scalar, or a scalar and further metrics.

    `specs` has a `PartitionSpec` for every parameter; the optimizer's state is split as these are, or as `moment_specs`
    says of every parameter. `init` gives parameters, `batch(i)` the data of step i. `loss` is given parameters in the
    type `dtype`, of those in `DTYPES`; they are kept in float32. Errors: UsageError for another type.
    """
    computed = choose("dtype", dtype, DTYPES)

    def measured(params: Tree, data: Tree) -> tuple[Any, Metrics]:
        found = loss(jax.tree.map(lambda p: p.astype(computed), params), data)
        return found if isinstance(found, tuple) else (found, {})

    def step(state: Tree, data: Tree) -> tuple[Tree, Metrics]:
        (value, metrics), gradient = jax.value_and_grad(measured, has_aux=True)(state["params"], data)
        params, moments = optimizer.update(gradient, state["moments"], state["params"], state["step"])
        return {"params": params, "moments": moments, "step": state["step"] + 1}, {"loss": value, **metrics}

    def state() -> Tree:
        params = init()
        return {"params": params, "moments": optimizer.init(params), "step": jax.numpy.zeros((), jax.numpy.int32)}

    moments = optimizer.specs(specs if moment_specs is None else moment_specs)
    state_specs = {"params": specs, "moments": moments, "step": PartitionSpec()}
    return Program(step, state, batch, state_specs, batch_specs)


def lower(program: Program, mesh: Mesh) -> Any:
    """One step lowered by JAX alone, with all annotations in it, for programs that read what `jax.jit` makes."""

    def placed(specs: Tree) -> Tree:
        is_spec = lambda spec: spec is None or isinstance(spec, PartitionSpec)  # noqa: E731
        return jax.tree.map(lambda spec: None if spec is None else NamedSharding(mesh, spec), specs, is_leaf=is_spec)

    state, batch = placed(program.state_specs), placed(program.batch_specs)
    auto = AbstractMesh(
        mesh.axis_sizes, mesh.axis_names, axis_types=(jax.sharding.AxisType.Auto,) * len(mesh.axis_names)
    )
    step = jax.jit(program.step, in_shardings=(state, batch), out_shardings=(state, None), donate_argnums=0)
    with jax.sharding.use_abstract_mesh(auto):
        return step.lower(*program.abstract())

"""What XLA is told of a module that needs no partitioning any more."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxlib.mlir import ir

import gspmd
from gspmd.executable_module import read_partitioned
from gspmd.transforms.support.signature import main_function

LOOP = "stablehlo.while"


def test_a_loop_gets_results_of_another_one_marked() -> None:
    """Of marked and unmarked operands XLA takes the latter for replicated, and may then refuse the loop."""

    def twice(x: jax.Array) -> jax.Array:
        first = jax.lax.fori_loop(0, 3, lambda _, x: jnp.sin(x), x)
        return jax.lax.fori_loop(0, 3, lambda _, x: x + first, first)

    x = np.arange(16, dtype=np.float32)
    lowered = gspmd.jit(twice, mesh={"x": 8}, in_shardings=PartitionSpec("x")).lower(x)
    module, _ = read_partitioned(lowered.partitioned.module)
    loops = [op.operation for op in main_function(module).operation.regions[0].blocks[0] if op.operation.name == LOOP]
    assert len(loops) == 2
    makers = [value.owner for value in loops[1].operands if isinstance(value.owner, ir.OpView | ir.Operation)]
    assert all("mhlo.sharding" in maker.operation.attributes for maker in makers)
    np.testing.assert_allclose(lowered.compile()(x), twice(x), rtol=1e-6)

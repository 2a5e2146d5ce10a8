"""Broadcasts, which XLA for CPUs cannot run, are run there."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

import gspmd

_NAMED = tuple(map(int, stablehlo.get_current_version().split("."))) >= (1, 20, 0)


def program(operands: str, types: str, attribute: str) -> str:
    """Along x of a mesh of 4 by 2, over which rows are split; columns are split along y, which stays free."""
    return f"""
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func @main(%a: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}, %r: tensor<1xi32>)
        -> tensor<8x4xf32> {{
      %0 = sdy.manual_computation(%a, %r) in_shardings=[<@mesh, [{{"x", ?}}, {{?}}]>, <@mesh, [{{}}]>]
          out_shardings=[<@mesh, [{{"x", ?}}, {{?}}]>] manual_axes={{"x"}} (%b: tensor<2x4xf32>, %c: tensor<1xi32>) {{
        %1 = "stablehlo.collective_broadcast"({operands}) {{{attribute} channel_handle =
          #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[4, 0, 2, 6], [5, 1, 3, 7]]> : tensor<2x4xi64>}} : ({types}) -> tensor<2x4xf32>
        sdy.return %1 : tensor<2x4xf32>
      }} : (tensor<8x4xf32>, tensor<1xi32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }}
    """


VALUES = np.arange(32, dtype=np.float32).reshape(8, 4)


def test_the_first_device_of_a_group_sends() -> None:
    partitioned = gspmd.partition(program("%b", "tensor<2x4xf32>", ""))
    (sent,) = partitioned.collectives
    assert (sent.kind, sent.axes, sent.bytes) == ("collective_broadcast", '"x"', 2 * 2 * 4)
    (found,) = gspmd.compile(partitioned)(VALUES, np.zeros(1, np.int32))
    np.testing.assert_array_equal(found.to_numpy(), np.tile(VALUES[4:6], (4, 1)))


@pytest.mark.skipif(not _NAMED, reason="this version of StableHLO has no broadcast of a device that is data")
@pytest.mark.parametrize("root", range(4))
def test_the_device_that_an_operand_names_sends(root: int) -> None:
    text = program("%b, %c", "tensor<2x4xf32>, tensor<1xi32>", "has_dynamic_root,")
    (found,) = gspmd.compile(gspmd.partition(text))(VALUES, np.array([root], np.int32))
    sender = (2, 0, 1, 3)[root]
    np.testing.assert_array_equal(found.to_numpy(), np.tile(VALUES[2 * sender : 2 * sender + 2], (4, 1)))

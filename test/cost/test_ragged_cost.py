"""What a ragged all-to-all costs, whose sizes are data."""

from __future__ import annotations

import pytest

import gspmd
from gspmd.costs.cost_report import report_lines

PROGRAM = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<32x8xf32>, %b: tensor<ROWSx8xf32>, %c: tensor<16xi32>) -> tensor<ROWSx8xf32> {
  %0 = sdy.manual_computation(%a, %b, %c) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>, <@mesh, [{"x"}]>]
      out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"}
      (%d: tensor<8x8xf32>, %e: tensor<KEPTx8xf32>, %f: tensor<4xi32>) {
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %e, %f, %f, %f, %f) {api_version = 4 : i32, backend_config =
      {channel_id = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}}
      : (tensor<8x8xf32>, tensor<KEPTx8xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>)
      -> tensor<KEPTx8xf32>
    sdy.return %1 : tensor<KEPTx8xf32>
  } : (tensor<32x8xf32>, tensor<ROWSx8xf32>, tensor<16xi32>) -> tensor<ROWSx8xf32>
  return %0 : tensor<ROWSx8xf32>
}
"""


@pytest.mark.parametrize(("kept", "sent"), [(4, 4 * 8 * 4), (32, 8 * 8 * 4)])
def test_the_smaller_one_of_what_is_read_and_written_is_the_most(kept: int, sent: int) -> None:
    program = PROGRAM.replace("ROWS", str(4 * kept)).replace("KEPT", str(kept))
    report = gspmd.cost(program)
    (cost,) = report.collectives
    assert (cost.collective.kind, cost.collective.at_most) == ("ragged_all_to_all", True)
    assert report.sent_bytes == cost.collective.bytes == sent
    assert not report.notes
    row = next(line for line in report_lines(report) if "ragged_all_to_all  x" in line)
    assert f"at most {sent} B" in row


def test_explanations_say_that_it_is_the_most() -> None:
    program = PROGRAM.replace("ROWS", "128").replace("KEPT", "32")
    (conflict,) = gspmd.explain(program).conflicts
    (collective,) = conflict.collectives
    assert collective.at_most
    assert conflict.to_dict()["collectives"][0]["at_most"] is True

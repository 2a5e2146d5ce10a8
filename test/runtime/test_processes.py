"""Two processes of four devices each, joined by jax.distributed, run one program."""

from __future__ import annotations

from pathlib import Path

from support.handwritten import partitioned
from support.two_processes import run_twice

PROGRAM = """
import sys
import jax
import numpy as np
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from gspmd.runtime import executable as runtime
from gspmd.dialect.errors import ExecutionError

executable = runtime.load(sys.argv[3], jax.devices(), padding="nan")
total, rows = executable(np.arange(15, dtype=np.float32))
assert [shard.partition for shard in rows.shards] == [4 * jax.process_index() + i for i in range(4)]
assert np.asarray(total).tolist() == [120.0 - 15.0], np.asarray(total)
again, _ = executable(rows)
assert np.asarray(again).tolist() == [105.0]
try:
    rows.to_numpy()
except ExecutionError as error:
    assert "4 of 8 parts of the array are on devices of other processes" in str(error), error
else:
    raise AssertionError("half of the array is not here")
print("done", [shard.to_numpy().tolist() for shard in rows.shards])
"""


def test_a_program_runs_over_two_processes(tmp_path: Path) -> None:
    body = """%z = stablehlo.constant dense<0.0> : tensor<2xf32>
      %f = stablehlo.is_finite %0 : (tensor<2xf32>) -> tensor<2xi1>
      %m = stablehlo.select %f, %0, %z : tensor<2xi1>, tensor<2xf32>
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %l = stablehlo.reduce(%m init: %c) applies stablehlo.add across dimensions = [0]
        : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      %r = stablehlo.reshape %l : (tensor<f32>) -> tensor<1xf32>
      %g = "stablehlo.all_reduce"(%r) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}
        : (tensor<1xf32>) -> tensor<1xf32>
      return %g, %0 : tensor<1xf32>, tensor<2xf32>"""
    text = partitioned('<["x"=8]>', ['f32[15] [{"x"}]'], ["f32[1] [{}]", 'f32[15] [{"x"}]'], body)
    (tmp_path / "program.mlir").write_text(text)
    (tmp_path / "main.py").write_text(PROGRAM)
    ends = run_twice(tmp_path / "main.py", str(tmp_path / "program.mlir"))
    assert [end.returncode for end in ends] == [0, 0], ends
    last = [end.stdout.splitlines()[-1] for end in ends]
    assert last[0] == "done [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]"
    assert last[1] == "done [[8.0, 9.0], [10.0, 11.0], [12.0, 13.0], [14.0]]"

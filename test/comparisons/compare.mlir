// RUN: gspmd compare %s --no-run --max-increase 0 | FileCheck %s --check-prefix=PEERS
// RUN: gspmd-opt %s -o %t.mlir
// RUN: gspmd compare %s %t.mlir | FileCheck %s --check-prefix=SAME
// RUN: not gspmd compare %s %t.mlir --max-increase memory=much 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: gspmd check %s --bisect | FileCheck %s --check-prefix=RIGHT

// PEERS: x=4 (4 devices), target neutral
// PEERS: gspmd     XLA GSPMD    XLA Shardy
// PEERS: results {{.*}}not run
// PEERS: bytes sent {{.*}} 3.0 KiB
// PEERS: all_reduce x {{.*}} in 1
// PEERS: collectives
// PEERS: bytes held
// PEERS: step, all overlaps
// PEERS: step, nothing overlaps
// PEERS: compile time
// PEERS: the traffic of every line is the same for all

// SAME: x=4 (4 devices), target neutral
// SAME: bytes sent {{.*}}same
// SAME: the traffic of every line is the same

// WRONG: error: argument --max-increase: 'memory=much' is not a fraction such as 0.05 or 5%

// RIGHT: PASS: 1 results agree
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                       %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}

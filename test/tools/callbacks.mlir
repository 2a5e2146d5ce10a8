// A call of Python in a file means nothing to another process: the program is partitioned and looked at, never run.

// RUN: gspmd partition %s -o %t.mlir --report 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: gspmd explain %s --conflicts | FileCheck %s --check-prefix=EXPLAIN
// RUN: gspmd cost %s --target tpu-v5p | FileCheck %s --check-prefix=COST
// RUN: not gspmd check %s 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not gspmd compile %s --target cpu:4 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not gspmd run %t.mlir 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not gspmd compile %t.mlir --target cpu:4 2>&1 | FileCheck %s --check-prefix=REFUSED

// REPORT: argument 0 {{ *}}token {{ *}}[]
// REPORT: all_gather over x
// REPORT-NEXT: operand 1 of a Python callback is needed whole

// EXPLAIN: dimension 0 of operand 1 cannot be split, but is split over "x"
// EXPLAIN: all_gather over x: 24 B; operand 1 of a Python callback is needed whole

// COST: results of a Python callback
// COST: operand 1 of a Python callback

// REFUSED: mlir:{{[0-9]+}}:{{[0-9]+}}: error: calls Python, as jax.debug.print and jax.pure_callback do
// REFUSED-SAME: the program is here without what it calls; run the function that was traced by gspmd.jit, or take the call out

sdy.mesh @mesh = <["x"=4]>
func.func public @main(%t: !stablehlo.token {jax.token = true},
                       %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (!stablehlo.token {jax.token = true}, tensor<8xf32>) {
  %0:2 = stablehlo.custom_call @xla_python_cpu_callback(%t, %x) {
      has_side_effect = true, api_version = 2 : i32, backend_config = "140246531234832"}
    : (!stablehlo.token, tensor<8xf32>) -> (!stablehlo.token, tensor<8xf32>)
  return %0#0, %0#1 : !stablehlo.token, tensor<8xf32>
}

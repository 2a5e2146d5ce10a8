// RUN: not gspmd-opt %s --gspmd-partition='strict=true' 2>&1 | FileCheck %s
// RUN: not gspmd-opt %s '--pass-pipeline=builtin.module(gspmd-ingest,gspmd-propagate,gspmd-reshard{strict=true strict-bytes=100})' 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: gspmd-opt %s '--gspmd-partition=strict=true strict-bytes=192' -o /dev/null
// RUN: not gspmd partition --strict %s -o /dev/null 2>&1 | FileCheck %s
// RUN: gspmd partition --strict=192B %s -o /dev/null

// Every reshard that nobody asked for is an error of its own, at the operation that needs it.
// CHECK: strict.mlir:21:8: error: 'stablehlo.dot_general' op reshard of f32[8,8] from [{"x"}, {}] to [{}, {}] sends 192 bytes (all_gather): operand 1 of 'stablehlo.dot_general' is needed as [{}, {}]; strict mode allows no reshard, the program has 2; annotate
// CHECK-NEXT: strict.mlir:22:8: error: 'stablehlo.add' op reshard of f32[8,8] from [{}, {"x"}] to [{"x"}, {}] sends 48 bytes (all_to_all): operand 1 of 'stablehlo.add' is needed as [{"x"}, {}]
// CHECK-NOT: error

// LARGE: strict.mlir:21:8: error: 'stablehlo.dot_general' op {{.*}} strict mode allows no reshard that sends more than 100 bytes, the program has 1;
// LARGE-NOT: error

sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                       %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                       %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
        tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %a, %c : tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

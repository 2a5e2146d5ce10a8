// RUN: gspmd show %s --value %%a | FileCheck %s --check-prefix=UNEVEN
// RUN: gspmd show %s --value %%w | FileCheck %s --check-prefix=COPIES
// RUN: gspmd show %s | FileCheck %s --check-prefix=LIST
// RUN: gspmd show - --value 0 < %s | FileCheck %s --check-prefix=MATRIX
// RUN: gspmd show %s --value %%w --color=always | FileCheck %s --check-prefix=COLOR
// RUN: not gspmd show %s --value %%nothing 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A dimension that its shards do not divide: the last shard has less, or only padding.
// UNEVEN: %a f32[9,16] {{\[\{"x"\}, \{\}\]}}, 3x16 on each device
// UNEVEN: 0:3 │ {{ *}}0-1 {{ *}}│
// UNEVEN: 6:9 │ {{ *}}4-5 {{ *}}│
// UNEVEN: padding │ {{ *}}6-7 {{ *}}│

// What all devices along an axis hold alike is one cell.
// COPIES: 0:32 {{ *}}32:64
// COPIES: │ {{ *}}0, 2, 4, 6 {{ *}}│ {{ *}}1, 3, 5, 7 {{ *}}│

// LIST: value {{ *}}type {{ *}}sharding {{ *}}at
// LIST: %a {{ *}}f32[9,16]
// LIST: %0 {{ *}}f32[9,64]

// MATRIX: %0 f32[9,64] {{\[\{"x"\}, \{"y"\}\]}}, 3x32 on each device
// MATRIX: 0:3 │ {{ *}}0 {{ *}}│ {{ *}}1 {{ *}}│

// COLOR: {{.*\[30;44m.*}}

// UNKNOWN: error: the program has no value '%nothing'
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<9x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                       %w: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<9x64xf32> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<9x16xf32>, tensor<16x64xf32>) -> tensor<9x64xf32>
  return %0 : tensor<9x64xf32>
}

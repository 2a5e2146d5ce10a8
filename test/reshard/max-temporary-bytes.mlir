// RUN: gspmd-opt --gspmd-reshard %s | FileCheck %s --check-prefix=FREE
// RUN: gspmd-opt --gspmd-reshard=max-temporary-bytes=1 %s | FileCheck %s --check-prefix=BOUND

// A small value is gathered, which takes least time, unless no device may hold it.

// FREE: sdy.all_gather [{"x"}, {"y"}]
// BOUND-NOT: sdy.all_gather
// BOUND: sdy.all_to_all [{"x":(2)2}: 0->1] %arg0
// BOUND: sdy.collective_permute %{{.*}} out_sharding=<@mesh, [{"y"}, {"x"}]>
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
  return %a : tensor<6x16xf32>
}

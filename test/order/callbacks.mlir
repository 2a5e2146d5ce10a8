// RUN: gspmd-opt %s --gspmd-partition | FileCheck %s

// A call of Python is made by the device that is to make it, in whatever order of the devices the values around it are:
// the partition's id is compared as it is, not looked up in the order.

// CHECK: func.func public @main
// CHECK-NOT: dynamic_slice
// CHECK: %[[ID:.*]] = stablehlo.partition_id
// CHECK: %[[INDEX:.*]] = stablehlo.convert %[[ID]]
// CHECK: %[[HERE:.*]] = stablehlo.compare EQ, %[[INDEX]], %{{.*}}
// CHECK: "stablehlo.if"(%[[HERE]])
sdy.mesh @a = <["x"=8]>
sdy.mesh @b = <["x"=8], device_ids=[5, 3, 1, 0, 2, 7, 4, 6]>
func.func public @main(%x: tensor<1024xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>},
                       %y: tensor<16xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>})
    -> (tensor<1024xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>},
        tensor<16xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>}) {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%y) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = stablehlo.add %0, %y : tensor<16xf32>
  %2 = stablehlo.add %x, %x : tensor<1024xf32>
  return %2, %1 : tensor<1024xf32>, tensor<16xf32>
}

// RUN: gspmd-opt --split-input-file --gspmd-partition %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-ingest --gspmd-propagate --gspmd-reshard --gspmd-localize --gspmd-optimize %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --pass-pipeline='builtin.module(gspmd-ingest,gspmd-propagate,gspmd-reshard,gspmd-localize,gspmd-optimize)' %s | FileCheck %s

// CHECK: module @a_partitioned_module_says_all_that_is_needed_to_run_it attributes {gspmd.mesh = "<[\22x\22=4, \22y\22=2]>", mhlo.num_partitions = 8 : i32} {
// CHECK-NOT: sdy
// CHECK: func.func public @main(%arg0: tensor<2x5xf32> {gspmd.global_type = tensor<8x5xf32>, gspmd.sharding = "<@mesh, [{\22x\22}, {}]>", mhlo.sharding = "{manual}"})
// CHECK-SAME: -> (tensor<2x3xf32> {gspmd.global_type = tensor<8x5xf32>, gspmd.sharding = "<@mesh, [{\22x\22}, {\22y\22}]>", mhlo.sharding = "{manual}"})
// CHECK-NOT: sdy
// CHECK: return
// CHECK-NOT: sdy
module @a_partitioned_module_says_all_that_is_needed_to_run_it {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.sine %a : tensor<8x5xf32>
    return %0 : tensor<8x5xf32>
  }
}

// -----

// CHECK: module @every_collective_says_over_which_axes_and_why
// CHECK: "stablehlo.all_gather"{{.*}} {gspmd.axes = "\22y\22", gspmd.cause = "the program returns result 0 as [{\22x\22}]"}
module @every_collective_says_over_which_axes_and_why {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// CHECK: module @other_attributes_of_arguments_and_results_are_kept
// CHECK: %arg0: tensor<2xf32> {{{.*}}tf.aliasing_output = 0 : i32
// CHECK-SAME: -> (tensor<2xf32> {{{.*}}jax.result_info = "out"
module @other_attributes_of_arguments_and_results_are_kept {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, tf.aliasing_output = 0 : i32}) -> (tensor<8xf32> {jax.result_info = "out"}) {
    return %a : tensor<8xf32>
  }
}

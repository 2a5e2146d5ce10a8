// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s

// The body takes the region's place; free axes make its types smaller, the user's groups stay.

// CHECK-LABEL: module @the_body_takes_the_place_of_the_region
// CHECK: @main(%arg0: tensor<4x2xf32>
// CHECK-SAME: -> (tensor<4x2xf32>
// CHECK-NEXT: %[[R:.*]] = "stablehlo.all_reduce"(%arg0) <{channel_handle = {{.*}}, replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}>
// CHECK: : (tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %[[R]] : tensor<4x2xf32>
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[S]] : tensor<4x2xf32>
// CHECK-NEXT: return %[[C]]
module @the_body_takes_the_place_of_the_region {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %s = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %2 = stablehlo.sine %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<4x8xf32>
      sdy.return %2 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.cosine %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}

// -----

// An argument returned as it is is one value inside and another one outside.

// CHECK-LABEL: module @what_passes_through_keeps_both_its_placements
// CHECK: @main(%arg0: tensor<4xf32>
// CHECK: "stablehlo.all_gather"(%arg0) {{.*}} : (tensor<4xf32>) -> tensor<8xf32>
module @what_passes_through_keeps_both_its_placements {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      sdy.return %b : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    %1 = sdy.all_gather [{"x"}] %0 out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @nested_regions_disappear_as_well
// CHECK-NOT: sdy.
// CHECK: stablehlo.while(%iterArg = {{.*}}, %iterArg_0 = %arg0) : tensor<i32>, tensor<2x4xf32>
// CHECK: stablehlo.sine %iterArg_0 : tensor<2x4xf32>
// CHECK-NOT: sdy.
module @nested_regions_disappear_as_well {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
      -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<4x8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}, {"y"}]>]>}
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = sdy.manual_computation(%c) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%b: tensor<2x8xf32>) {
        %3 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{}, {"y"}]>] out_shardings=[<@mesh, [{}, {"y"}]>] manual_axes={"y"} (%d: tensor<2x4xf32>) {
          %4 = stablehlo.sine %d : tensor<2x4xf32>
          sdy.return %4 : tensor<2x4xf32>
        } : (tensor<2x8xf32>) -> tensor<2x8xf32>
        sdy.return %3 : tensor<2x8xf32>
      } : (tensor<4x8xf32>) -> tensor<4x8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<4x8xf32>
    }
    return %0#1 : tensor<4x8xf32>
  }
}

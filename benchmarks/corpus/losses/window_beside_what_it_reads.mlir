// One window reads what another result needs whole. Two choices, each good where it is made, undid each other in turn.
// gspmd sent 23.8 KiB: 1 all_gather over x.
// XLA GSPMD sent 23.8 KiB: 1 all_gather over x.
// XLA Shardy sent 23.8 KiB: 1 all_gather over x.
module @jit_forward attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<20x32x20xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %arg1: tensor<5x32x19xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %arg2: tensor<i32>) -> (tensor<20x32x19xf32> {jax.result_info = "result[0]"}, tensor<20x32x19xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.slice %arg0 [0:20, 0:32, 0:19] : (tensor<20x32x20xf32>) -> tensor<20x32x19xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %2 = "stablehlo.reduce_window"(%0, %1) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [1, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 2, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %9 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<20x32x19xf32>, tensor<f32>) -> tensor<20x32x19xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{}, {}, {}]> : tensor<20x32x19xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.compare LT, %arg2, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<20> : tensor<i32>
    %5 = stablehlo.add %arg2, %c_0 : tensor<i32>
    %6 = stablehlo.select %4, %5, %arg2 : tensor<i1>, tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.dynamic_update_slice %3, %arg1, %6, %c_1, %c_2 : (tensor<20x32x19xf32>, tensor<5x32x19xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<20x32x19xf32>
    %8 = stablehlo.add %3, %0 : tensor<20x32x19xf32>
    return %7, %8 : tensor<20x32x19xf32>, tensor<20x32x19xf32>
  }
}

// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-propagate %s

sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=5 : tensor<8xf32>
  // expected-error @+1 {{'sdy.sharding_group' op puts a value of shape [4] into group 5 of shape [8]; group values of one shape}}
  sdy.sharding_group %b group_id=5 : tensor<4xf32>
  return %a : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                       %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=5 : tensor<8xf32>
  // expected-error @+1 {{puts a value that is annotated [{"y"}] into a group with one that is [{"x"}]}}
  sdy.sharding_group %b group_id=5 : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=5 : tensor<8xf32>
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{?}]>] out_shardings=[<@mesh, [{?}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
    // expected-error @+1 {{puts a value into group 5, which has members across a manual computation}}
    sdy.sharding_group %b group_id=5 : tensor<8xf32>
    sdy.return %b : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

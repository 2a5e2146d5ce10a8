// RUN: gspmd-opt %s --gspmd-ingest --split-input-file --verify-diagnostics

func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = func.call @f(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = func.call @g(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @g(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{recursive call @f -> @g -> @f; write the recursion as a 'stablehlo.while'}}
  %0 = func.call @f(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{function '@f' has no body of one block; give its definition, or use a custom call}}
  %0 = func.call @f(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%arg0: tensor<8xf32>) -> tensor<8xf32>

// -----

// expected-error @+1 {{a value of dynamic shape 'tensor<?xf32>'; export the program with fixed shapes}}
func.func @main(%arg0: tensor<?xf32>) -> tensor<?xf32> {
  return %arg0 : tensor<?xf32>
}

// -----

func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<1xi32>) -> tensor<?xf32> {
  // expected-error @+1 {{a value of dynamic shape 'tensor<?xf32>'; export the program with fixed shapes}}
  %0 = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{two annotations that contradict each other: [{"x"}, {}] by 'sdy' but [{"x":(1)2}, {}] by 'mhlo.sharding'; keep one}}
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  // expected-error @+1 {{two annotations of a result that contradict each other: [{}] by attribute but [{"x"}] by 'xla.sdy.FuncResultSharding'; keep one}}
  func.func @main(%arg0: tensor<8xf32>) -> (tensor<8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{}]>"}}) {
    %0 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%arg0) {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}]>]>"}} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {mhlo.num_partitions = 4 : i32} {
  // expected-error @+1 {{mesh "@m" has 8 devices but 'mhlo.num_partitions' is 4; make them agree}}
  sdy.mesh @m = <["x"=4, "y"=2]>
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// -----

module attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{'mhlo.sharding' is of 8 devices but the program is for 4}}
    %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[8]<=[8]}"} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[8]<=[8]}"} : tensor<8xf32>
  // expected-error @+1 {{'mhlo.sharding' is of 4 devices but the program is for 8}}
  %1 = stablehlo.tanh %0 {mhlo.sharding = "{devices=[4]<=[4]}"} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["b"=3]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) -> tensor<8xf32> {
  // expected-error @+1 {{'sdy.sharding_constraint' op uses a mesh of 3 devices in a program of 8; use all devices, or a number of them that divides all}}
  %0 = sdy.sharding_constraint %arg0 <@n, [{"b"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) -> tensor<8xf32> {
  // expected-error @+1 {{'stablehlo.tanh' op 'mhlo.sharding' is of 4 devices in a program of 8; use all devices}}
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[4]<=[4]}"} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["b"=2]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  // expected-remark @+1 {{uses a mesh of 2 devices in a program of 8}}
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@n, [{"b"}]>] out_shardings=[<@n, [{"b"}]>] manual_axes={"b"} (%arg1: tensor<4xf32>) {
    // expected-error @+1 {{manual computation inside one over fewer devices; use one mesh for both}}
    %1 = sdy.manual_computation(%arg1) in_shardings=[<@m, [{"x"}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"x"} (%arg2: tensor<1xf32>) {
      sdy.return %arg2 : tensor<1xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{sharding of 1 tile dims does not fit a tensor of rank 2}}
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[8]<=[8]}"} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{sharding of 3 values does not fit 2; give one for each leaf}}
  %0:2 = stablehlo.custom_call @f(%arg0) {mhlo.sharding = "{{replicated}, {replicated}, {devices=[2]<=[2]}}"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0 : tensor<8xf32>
}

// -----

func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{tile dims [8, 1] need 8 devices but 4 are given}}
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[8,1]<=[4]}"} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{mesh "@mesh" has no axis "z"; its axes are "x"}}
    %0 = stablehlo.tanh %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22z\22}]>]>"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{axis "x" is used twice in one sharding}}
    %0 = stablehlo.tanh %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {\22x\22}]>]>"}} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{unknown mesh '@other'; the module's meshes are '@mesh'}}
    %0 = stablehlo.tanh %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@other, [{\22x\22}, {}]>]>"}} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // expected-error @+1 {{sharding of rank 1 does not fit a tensor of rank 2; give one entry a dimension}}
    %0 = stablehlo.tanh %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}]>]>"}} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{frontend attribute '#sdy.sharding_per_value<' cannot be read}}
    %0 = stablehlo.tanh %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<"}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

sdy.mesh @m = <["x"=2]>
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{unknown axis name: "z"}}
  %0 = sdy.sharding_constraint %arg0 <@m, [{"z"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{a manual sharding outside manual computations: the program is already partitioned}}
func.func @main(%arg0: tensor<4xf32> {mhlo.sharding = "{manual}"}) -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
  return %arg0 : tensor<4xf32>
}

// -----

sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  // expected-error @+1 {{a collective of a partitioned program; give the program before partitioning}}
  %0 = sdy.all_gather [{"x"}] %arg0 out_sharding=<@m, [{}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{custom call 'Sharding' has no sharding; add an 'mhlo.sharding' to it}}
  %0 = stablehlo.custom_call @Sharding(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{'SPMDFullToShardShape' outside a call of a manual computation}}
  %0 = stablehlo.custom_call @SPMDFullToShardShape(%arg0) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<8xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<2xf32>
  // expected-error @+1 {{manual computation with an operand that is not made local by a marker}}
  %2 = func.call @body(%1, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func private @body(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{unknown marker 'xla.sdy.Unheard'}}
  %0 = stablehlo.custom_call @xla.sdy.Unheard(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @+1 {{a program of 2 replicas; make the replicas an axis of the mesh}}
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  // expected-error @+1 {{top-k of the smallest elements; negate the operand and the values}}
  %0, %1 = mhlo.topk(%arg0, k = 2, largest = false) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<2xf64>
  // expected-error @+1 {{a manual computation has f64[2] inside of f32[8], expected f32[2]}}
  %2 = func.call @body(%1) : (tensor<2xf64>) -> tensor<2xf64>
  %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<2xf64>) -> tensor<2xf64>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<2xf64>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func private @body(%a: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.tanh %a : tensor<2xf64>
  return %0 : tensor<2xf64>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<3xf32>
  // expected-error @+1 {{a manual computation has f32[3] inside of f32[8], expected f32[2]}}
  %2 = func.call @body(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<3xf32>) -> tensor<3xf32>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<3xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func private @body(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.tanh %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}
// expected-error @+1 {{lies outside of all functions}}
%0 = stablehlo.constant dense<1.0> : tensor<8xf32>

// -----

// expected-error @+1 {{a value of type 'tensor<8xindex>', which StableHLO does not have}}
func.func @main(%arg0: tensor<8xindex>) -> tensor<8xindex> {
  return %arg0 : tensor<8xindex>
}

// -----

// expected-error @+1 {{'mhlo.num_partitions' is 8 : i128, expected an integer of at most 64 bits, as 8 : i32}}
module attributes {mhlo.num_partitions = 8 : i128} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// -----

// Bodies number devices as the mesh of the computation does, be it of fewer devices or in another order.

sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  // expected-remark @+1 {{uses a mesh}}
  %0 = sdy.manual_computation(%a) in_shardings=[<@n, [{"x"}]>] out_shardings=[<@n, [{"x"}]>] manual_axes={"x"} (%b: tensor<2xf32>) {
    // expected-error @+1 {{names partitions that a mesh of 4 devices does not have}}
    %1 = "stablehlo.collective_permute"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 4]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

sdy.mesh @m = <["x"=4]>
sdy.mesh @n = <["a"=4], device_ids=[3, 2, 1, 0]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@n, [{"a"}]>] out_shardings=[<@n, [{"a"}]>] manual_axes={"a"} (%b: tensor<2xf32>) {
    // expected-error @+1 {{names partitions that a mesh of 4 devices does not have}}
    %1 = "stablehlo.collective_permute"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 4]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-ingest --gspmd-propagate %s

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<8x6xf32>, %c: tensor<4xi32>) -> tensor<8x6xf32> {
  // expected-error @+1 {{'stablehlo.custom_call' op communicates between devices; give a program for one device, or put it into a manual computation}}
  %1 = stablehlo.custom_call @ragged_all_to_all(%a, %a, %c, %c, %c, %c) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{has groups that do not stay within the manual axes "x", alike along all others; group partitions that differ along axes of the manual computation only}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

// The partitions of one position along "y" would be numbered otherwise than those of the other.

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{alike along all others}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [3, 1]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 4]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{has groups of replicas; name partitions: give it a 'channel_id'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, other = 1 : i64}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[0, 2]> : tensor<2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0.0, 2.0]]> : tensor<1x2xf32>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<0> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, -1]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi128>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = "x"}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<6xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<3xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' of f32[8,6], f32[8,6], i32[3], i32[3], i32[3], i32[3], f32[8,6] in groups of 2; give it the rows to send}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<6xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xf32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xf32>) {
    // expected-error @+1 {{f32[4], f32[4], f32[4], f32[4], f32[8,6] in groups of 2; give it the rows to send}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xf32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%a: tensor<16x6xf32>, %c: tensor<8xi32>) -> tensor<16x6xf32> {
  %0 = sdy.manual_computation(%a, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<4xi32>) {
    // expected-error @+1 {{calls 'ragged_all_to_all' without 'replica_groups' that are a table of all partitions, each of them once; list the partitions of each group in 'backend_config'}}
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %d, %e, %e, %e, %e) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<0> : tensor<1073741824x1073741824xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
    sdy.return %1 : tensor<8x6xf32>
  } : (tensor<16x6xf32>, tensor<8xi32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

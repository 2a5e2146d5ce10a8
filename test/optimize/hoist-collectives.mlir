// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-hoist-collectives %s | FileCheck %s

// CHECK-LABEL: module @a_gather_of_what_the_loop_does_not_change_runs_once
// CHECK: [[N:%[0-9]+]] = stablehlo.negate %arg1
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"([[N]])
// CHECK: stablehlo.while
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: stablehlo.add %{{.*}}, [[G]]
module @a_gather_of_what_the_loop_does_not_change_runs_once attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.negate %k : tensor<4xf32>
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_received_in_every_iteration_stays
// CHECK: stablehlo.while
// CHECK: recv
// CHECK: all_gather
module @what_is_received_in_every_iteration_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.create_token : !stablehlo.token
      %d, %u = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_call_of_a_known_target_runs_once
// CHECK: [[N:%[0-9]+]] = stablehlo.custom_call @mhlo.erf(%arg1)
// CHECK: "stablehlo.all_gather"([[N]])
// CHECK: stablehlo.while
// CHECK-NOT: "stablehlo.all_gather"
module @a_call_of_a_known_target_runs_once attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.custom_call @mhlo.erf(%k) : (tensor<4xf32>) -> tensor<4xf32>
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_call_of_an_unknown_target_stays
// CHECK: stablehlo.while
// CHECK: custom_call
// CHECK: all_gather
module @a_call_of_an_unknown_target_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.custom_call @mine(%k) : (tensor<4xf32>) -> tensor<4xf32>
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sum_of_what_changes_stays
// CHECK: stablehlo.while
// CHECK: all_reduce
module @a_sum_of_what_changes_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_slice_taken_anew_is_gathered_anew
// CHECK: stablehlo.while
// CHECK: all_gather
module @a_slice_taken_anew_is_gathered_anew attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %sl = stablehlo.dynamic_slice %k, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
      // expected-remark @+1 {{'stablehlo.all_gather' op is not moved out of the loop because it gathers a slice that every iteration takes anew, so that only one is held at a time}}
      %g = "stablehlo.all_gather"(%sl) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1xf32>) -> tensor<2xf32>
      %q = stablehlo.slice %g [0:1] : (tensor<2xf32>) -> tensor<1xf32>
      %q0 = stablehlo.reshape %q : (tensor<1xf32>) -> tensor<f32>
      %q1 = stablehlo.broadcast_in_dim %q0, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %q1 : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-reduce-after-loops %s | FileCheck %s

// CHECK-LABEL: module @what_a_loop_accumulates_is_reduced_after_it
// CHECK: [[Z:%[a-z0-9_]+]] = stablehlo.constant dense<0.0
// CHECK: [[W:%[0-9]+]]:3 = stablehlo.while({{.*}} = [[Z]],
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: stablehlo.return
// CHECK: stablehlo.return
// CHECK: [[R:%[0-9]+]] = "stablehlo.all_reduce"([[W]]#1)
// CHECK: stablehlo.add %arg0, [[R]]
module @what_a_loop_accumulates_is_reduced_after_it attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
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
      %o = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ob = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %g = "stablehlo.all_reduce"(%ob) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
      %h = stablehlo.negate %g : tensor<8xf32>
      %y = stablehlo.add %x, %h : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sum_that_the_loop_looks_at_is_reduced_in_it
// CHECK: stablehlo.while
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.add
module @a_sum_that_the_loop_looks_at_is_reduced_in_it attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
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
      %o = stablehlo.sine %x : tensor<8xf32>
      // expected-remark @+1 {{'stablehlo.all_reduce' op is not moved behind the loop because the sum is used in the loop}}
      %g = "stablehlo.all_reduce"(%o) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_not_added_stays
// CHECK: stablehlo.while
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.multiply
module @what_is_not_added_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
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
      %o = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ob = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %g = "stablehlo.all_reduce"(%ob) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
      %y = stablehlo.multiply %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// A sum that the first device keeps, and the others have zeros for, stays in its summands.

// CHECK-LABEL: module @what_leaves_unreduced_is_not_reduced
// CHECK-NOT: stablehlo.all_reduce
// CHECK: [[N:%[0-9]+]] = stablehlo.negate %arg0
// CHECK: return [[N]]
module @what_leaves_unreduced_is_not_reduced attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %first: tensor<8xi1>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<8xf32>
    %g = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %n = stablehlo.negate %g : tensor<8xf32>
    %k = stablehlo.select %first, %n, %z {gspmd.kept_by_first = "\22y\22"} : tensor<8xi1>, tensor<8xf32>
    return %k : tensor<8xf32>
  }
}

// -----

// Not where it is kept along other axes, or is used besides.

// CHECK-LABEL: module @what_is_used_whole_is_reduced
// CHECK-COUNT-2: "stablehlo.all_reduce"
// CHECK: stablehlo.select
// CHECK: stablehlo.select
module @what_is_used_whole_is_reduced attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %first: tensor<8xi1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<8xf32>
    %g = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %h = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %k = stablehlo.select %first, %g, %z {gspmd.kept_by_first = "\22x\22"} : tensor<8xi1>, tensor<8xf32>
    %m = stablehlo.select %first, %h, %z {gspmd.kept_by_first = "\22y\22"} : tensor<8xi1>, tensor<8xf32>
    return %k, %m, %h : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

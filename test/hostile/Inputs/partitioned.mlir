module @jit_step attributes {gspmd.mesh = "<[\22x\22=4, \22y\22=2]>", mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {gspmd.global_type = tensor<8xf32>, gspmd.name = "state['moments']['b1']", gspmd.sharding = "<@mesh, [{\22y\22}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32> {gspmd.global_type = tensor<4xf32>, gspmd.name = "state['moments']['b2']", gspmd.sharding = "<@mesh, [{}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 1 : i32}, %arg2: tensor<4x4xf32> {gspmd.global_type = tensor<4x8xf32>, gspmd.name = "state['moments']['w1']", gspmd.sharding = "<@mesh, [{}, {\22y\22}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 2 : i32}, %arg3: tensor<4x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.name = "state['moments']['w2']", gspmd.sharding = "<@mesh, [{\22y\22}, {}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 3 : i32}, %arg4: tensor<4xf32> {gspmd.global_type = tensor<8xf32>, gspmd.name = "state['params']['b1']", gspmd.sharding = "<@mesh, [{\22y\22}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 4 : i32}, %arg5: tensor<4xf32> {gspmd.global_type = tensor<4xf32>, gspmd.name = "state['params']['b2']", gspmd.sharding = "<@mesh, [{}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 5 : i32}, %arg6: tensor<4x4xf32> {gspmd.global_type = tensor<4x8xf32>, gspmd.name = "state['params']['w1']", gspmd.sharding = "<@mesh, [{}, {\22y\22}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 6 : i32}, %arg7: tensor<4x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.name = "state['params']['w2']", gspmd.sharding = "<@mesh, [{\22y\22}, {}]>", mhlo.sharding = "{manual}", tf.aliasing_output = 7 : i32}, %arg8: tensor<i32> {gspmd.global_type = tensor<i32>, gspmd.name = "state['step']", gspmd.sharding = "<@mesh, []>", mhlo.sharding = "{manual}", tf.aliasing_output = 8 : i32}, %arg9: tensor<2x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.name = "data[0]", gspmd.sharding = "<@mesh, [{\22x\22}, {}]>", mhlo.sharding = "{manual}"}, %arg10: tensor<2x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.name = "data[1]", gspmd.sharding = "<@mesh, [{\22x\22}, {}]>", mhlo.sharding = "{manual}"}) -> (tensor<4xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22y\22}]>", jax.result_info = "result[0]['moments']['b1']", mhlo.sharding = "{manual}"}, tensor<4xf32> {gspmd.global_type = tensor<4xf32>, gspmd.sharding = "<@mesh, [{}]>", jax.result_info = "result[0]['moments']['b2']", mhlo.sharding = "{manual}"}, tensor<4x4xf32> {gspmd.global_type = tensor<4x8xf32>, gspmd.sharding = "<@mesh, [{}, {\22y\22}]>", jax.result_info = "result[0]['moments']['w1']", mhlo.sharding = "{manual}"}, tensor<4x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{\22y\22}, {}]>", jax.result_info = "result[0]['moments']['w2']", mhlo.sharding = "{manual}"}, tensor<4xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22y\22}]>", jax.result_info = "result[0]['params']['b1']", mhlo.sharding = "{manual}"}, tensor<4xf32> {gspmd.global_type = tensor<4xf32>, gspmd.sharding = "<@mesh, [{}]>", jax.result_info = "result[0]['params']['b2']", mhlo.sharding = "{manual}"}, tensor<4x4xf32> {gspmd.global_type = tensor<4x8xf32>, gspmd.sharding = "<@mesh, [{}, {\22y\22}]>", jax.result_info = "result[0]['params']['w1']", mhlo.sharding = "{manual}"}, tensor<4x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{\22y\22}, {}]>", jax.result_info = "result[0]['params']['w2']", mhlo.sharding = "{manual}"}, tensor<i32> {gspmd.global_type = tensor<i32>, gspmd.sharding = "<@mesh, []>", jax.result_info = "result[0]['step']", mhlo.sharding = "{manual}"}, tensor<f32> {gspmd.global_type = tensor<f32>, gspmd.sharding = "<@mesh, []>", jax.result_info = "result[1]['loss']", mhlo.sharding = "{manual}"}) {
    %0 = stablehlo.dot_general %arg9, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x4xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<2x4xf32>
    %5 = stablehlo.multiply %4, %3 : tensor<2x4xf32>
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<2x4xf32>
    %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %9 = stablehlo.multiply %8, %5 : tensor<2x4xf32>
    %10 = stablehlo.add %3, %9 : tensor<2x4xf32>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %12 = stablehlo.multiply %11, %10 : tensor<2x4xf32>
    %13 = stablehlo.tanh %12 : tensor<2x4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %15 = stablehlo.subtract %14, %13 : tensor<2x4xf32>
    %16 = stablehlo.add %14, %13 : tensor<2x4xf32>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %18 = stablehlo.multiply %17, %16 : tensor<2x4xf32>
    %19 = stablehlo.multiply %3, %18 : tensor<2x4xf32>
    %20 = stablehlo.dot_general %19, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %21 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %23 = "stablehlo.all_reduce"(%20) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "'stablehlo.dot_general' leaves partial results over \22y\22; result 0 is wanted as [{\22x\22}, {}]"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %24 = stablehlo.add %23, %22 : tensor<2x4xf32>
    %25 = stablehlo.subtract %24, %arg10 : tensor<2x4xf32>
    %26 = chlo.square %25 : tensor<2x4xf32> -> tensor<2x4xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %28 = stablehlo.multiply %27, %25 : tensor<2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%26 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %30 = "stablehlo.all_reduce"(%29) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "'stablehlo.reduce' leaves partial results over \22x\22; result 0 is wanted as []"} : (tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %31 = stablehlo.divide %30, %cst_6 : tensor<f32>
    %32 = stablehlo.divide %cst_2, %cst_6 : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %34 = stablehlo.multiply %33, %28 : tensor<2x4xf32>
    %35 = stablehlo.reduce(%34 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
    %36 = stablehlo.reshape %35 : (tensor<4xf32>) -> tensor<1x4xf32>
    %37 = stablehlo.reduce(%36 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %38 = stablehlo.dot_general %19, %34, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %39 = stablehlo.dot_general %34, %arg7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %40 = stablehlo.multiply %3, %39 : tensor<2x4xf32>
    %41 = stablehlo.multiply %39, %18 : tensor<2x4xf32>
    %42 = stablehlo.multiply %17, %40 : tensor<2x4xf32>
    %43 = stablehlo.multiply %42, %15 : tensor<2x4xf32>
    %44 = stablehlo.multiply %43, %13 : tensor<2x4xf32>
    %45 = stablehlo.add %43, %44 : tensor<2x4xf32>
    %46 = stablehlo.multiply %11, %45 : tensor<2x4xf32>
    %47 = stablehlo.add %41, %46 : tensor<2x4xf32>
    %48 = stablehlo.multiply %8, %46 : tensor<2x4xf32>
    %49 = stablehlo.multiply %48, %7 : tensor<2x4xf32>
    %50 = stablehlo.add %47, %49 : tensor<2x4xf32>
    %51 = stablehlo.reduce(%50 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
    %52 = stablehlo.reshape %51 : (tensor<4xf32>) -> tensor<1x4xf32>
    %53 = stablehlo.reduce(%52 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %54 = stablehlo.dot_general %arg9, %50, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %cst_7 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %56 = stablehlo.multiply %55, %arg0 : tensor<4xf32>
    %57 = "stablehlo.all_reduce"(%53) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "'stablehlo.reduce' leaves partial results over \22x\22; result 0 is wanted as [{\22y\22}]"} : (tensor<4xf32>) -> tensor<4xf32>
    %58 = stablehlo.add %56, %57 : tensor<4xf32>
    %59 = stablehlo.multiply %55, %arg1 : tensor<4xf32>
    %60 = "stablehlo.all_reduce"(%37) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "'stablehlo.reduce' leaves partial results over \22x\22; result 0 is wanted as [{}]"} : (tensor<4xf32>) -> tensor<4xf32>
    %61 = stablehlo.add %59, %60 : tensor<4xf32>
    %62 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %63 = stablehlo.multiply %62, %arg2 : tensor<4x4xf32>
    %64 = "stablehlo.all_reduce"(%54) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "'stablehlo.transpose' leaves partial results over \22x\22; result 0 is wanted as [{}, {\22y\22}]"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %65 = stablehlo.add %63, %64 : tensor<4x4xf32>
    %66 = stablehlo.multiply %62, %arg3 : tensor<4x4xf32>
    %67 = "stablehlo.all_reduce"(%38) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %80 = stablehlo.add %arg11, %arg12 : tensor<f32>
      stablehlo.return %80 : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "'stablehlo.transpose' leaves partial results over \22x\22; result 0 is wanted as [{\22y\22}, {}]"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %68 = stablehlo.add %66, %67 : tensor<4x4xf32>
    %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %70 = stablehlo.multiply %69, %58 : tensor<4xf32>
    %71 = stablehlo.subtract %arg4, %70 : tensor<4xf32>
    %72 = stablehlo.multiply %69, %61 : tensor<4xf32>
    %73 = stablehlo.subtract %arg5, %72 : tensor<4xf32>
    %74 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %75 = stablehlo.multiply %74, %65 : tensor<4x4xf32>
    %76 = stablehlo.subtract %arg6, %75 : tensor<4x4xf32>
    %77 = stablehlo.multiply %74, %68 : tensor<4x4xf32>
    %78 = stablehlo.subtract %arg7, %77 : tensor<4x4xf32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %79 = stablehlo.add %arg8, %c : tensor<i32>
    return %58, %61, %65, %68, %71, %73, %76, %78, %79, %31 : tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>, tensor<f32>
  }
}

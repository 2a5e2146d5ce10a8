// RUN: gspmd-opt --verify-diagnostics --split-input-file --gspmd-order %s

// An order is one of the devices of the mesh.

// expected-error@+1 {{'gspmd.device_ids' is not an order of the 4 devices of the mesh <["x"=4]>}}
module @no_order attributes {gspmd.mesh = "<[\22x\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(
      %a: tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 2>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"})
      -> (tensor<2xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"}) {
    return %a : tensor<2xf32>
  }
}

// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Columns that are scanned one beside the other: the body has the type of a slice, and becomes as small as that is on a
// device.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: chlo.scan(%arg0) inits (%arg1) dimension=0
// CHECK-NEXT: (%{{.*}}: tensor<2xf32>, %{{.*}}: tensor<2xf32>)
// CHECK-NEXT: %[[SUM:[0-9]+]] = stablehlo.add {{.*}} : tensor<2xf32>
// CHECK-NEXT: stablehlo.return %[[SUM]], %[[SUM]] : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT: (tensor<5x2xf32>, tensor<2xf32>) -> (tensor<5x2xf32>, tensor<2xf32>)
// CHECK-NEXT: return
func.func public @main(
    %xs: tensor<5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %start: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
        tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0:2 = chlo.scan(%xs) inits (%start) dimension = 0 {
  ^bb0(%x: tensor<6xf32>, %carry: tensor<6xf32>):
    %1 = stablehlo.add %x, %carry : tensor<6xf32>
    stablehlo.return %1, %1 : tensor<6xf32>, tensor<6xf32>
  } : (tensor<5x6xf32>, tensor<6xf32>) -> (tensor<5x6xf32>, tensor<6xf32>)
  return %0#0, %0#1 : tensor<5x6xf32>, tensor<6xf32>
}

// -----

// The scanned dimension is whole, as each slice waits for the one before.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[WHOLE:[0-9]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK: %[[MADE:[0-9]+]]:2 = chlo.scan(%[[WHOLE]]) inits (%arg1)
// CHECK: stablehlo.add {{.*}} : tensor<6xf32>
// CHECK: %[[OWN:[0-9]+]] = stablehlo.dynamic_slice %[[MADE]]#0, {{.*}} -> tensor<2x6xf32>
// CHECK: return %[[OWN]], %[[MADE]]#1
func.func public @main(
    %xs: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %start: tensor<6xf32>)
    -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<6xf32>) {
  %0:2 = chlo.scan(%xs) inits (%start) dimension = 0 {
  ^bb0(%x: tensor<6xf32>, %carry: tensor<6xf32>):
    %1 = stablehlo.add %x, %carry : tensor<6xf32>
    stablehlo.return %1, %1 : tensor<6xf32>, tensor<6xf32>
  } : (tensor<8x6xf32>, tensor<6xf32>) -> (tensor<8x6xf32>, tensor<6xf32>)
  return %0#0, %0#1 : tensor<8x6xf32>, tensor<6xf32>
}

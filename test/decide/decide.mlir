// RUN: gspmd-opt --split-input-file --gspmd-ingest --gspmd-propagate --gspmd-decide %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-ingest --gspmd-propagate --gspmd-decide --gspmd-reshard %s \
// RUN:   | FileCheck %s --check-prefix=MOVED

// A product leaves sums over "y", which a linear operation takes as they are; what it makes is returned in parts, so that
// one reduce-scatter takes the sums.

// CHECK-LABEL: @sum_of_products
// CHECK: stablehlo.dot_general {{.*}}gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>, <@mesh, [{"y"}, {}]>, <@mesh, [{}, {}], unreduced={"y"}>]>
// CHECK: stablehlo.dot_general {{.*}}gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>, <@mesh, [{"y"}, {}]>, <@mesh, [{}, {}], unreduced={"y"}>]>
// CHECK: stablehlo.add {{.*}}gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"y"}>, <@mesh, [{}, {}], unreduced={"y"}>, <@mesh, [{}, {}], unreduced={"y"}>]>
// MOVED-LABEL: @sum_of_products
// MOVED: %[[SUM:.*]] = stablehlo.add
// MOVED-NOT: sdy.all_reduce
// MOVED: sdy.reduce_scatter [{"y"}, {}] %[[SUM]]
module @sum_of_products {
  sdy.mesh @mesh = <["y"=4]>
  func.func public @main(
      %a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
      %b: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>},
      %c: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
        : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}

// -----

// What lies between two transforms is left as both of them run, with whole rows: two all-to-alls are left of four.

// CHECK-LABEL: @between_transforms
// CHECK: stablehlo.fft {{.*}}type =  RFFT{{.*}}[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.negate {{.*}}[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.fft {{.*}}type =  IRFFT{{.*}}
// MOVED-LABEL: @between_transforms
// MOVED-COUNT-2: sdy.all_to_all
// MOVED-NOT: sdy.all_to_all
module @between_transforms {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = stablehlo.fft %a, type = RFFT, length = [256] : (tensor<64x256xf32>) -> tensor<64x129xcomplex<f32>>
    %1 = stablehlo.negate %0 : tensor<64x129xcomplex<f32>>
    %2 = stablehlo.fft %1, type = IRFFT, length = [256] : (tensor<64x129xcomplex<f32>>) -> tensor<64x256xf32>
    return %2 : tensor<64x256xf32>
  }
}

// -----

// What a user annotates stays as it is.

// CHECK-LABEL: @annotated
// CHECK: stablehlo.negate {{.*}}[<@mesh, [{}, {"x"}]>]
// MOVED-LABEL: @annotated
module @annotated {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = stablehlo.fft %a, type = RFFT, length = [256] : (tensor<64x256xf32>) -> tensor<64x129xcomplex<f32>>
    %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<64x129xcomplex<f32>>
    %2 = stablehlo.fft %1, type = IRFFT, length = [256] : (tensor<64x129xcomplex<f32>>) -> tensor<64x256xf32>
    return %2 : tensor<64x256xf32>
  }
}

// -----

// A mesh with four axes: dimensions are split over what the program has.

// CHECK-LABEL: @four_axes
// CHECK: stablehlo.dot_general
// MOVED-LABEL: @four_axes
module @four_axes {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2, "d"=2]>
  func.func public @main(
      %x: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {"c"}]>},
      %w: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c"}, {"d"}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {"d"}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}

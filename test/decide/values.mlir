// RUN: gspmd-opt --split-input-file --gspmd-ingest --gspmd-propagate --gspmd-decide %s | FileCheck %s

// What lies between two transforms is left as both of them run, with whole rows, and not brought back to the sharding
// of the argument in between: two all-to-alls are left of four.

// CHECK-LABEL: @between_transforms
// CHECK: stablehlo.fft {{.*}}type =  RFFT{{.*}}sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
// CHECK: stablehlo.negate {{.*}}[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.fft {{.*}}type =  IRFFT{{.*}}[<@mesh, [{"x"}, {}]>]
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

// A sort needs all of the split dimension, and so does the result: what was gathered for one serves the other.

// CHECK-LABEL: @sorted_and_whole
// CHECK: "stablehlo.sort"
// CHECK-NOT: sdy.sharding_per_value
// CHECK: return %
module @sorted_and_whole {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %1 = stablehlo.compare LT, %b, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// What a user annotates stays as it is, on an operation too.

// CHECK-LABEL: @annotated
// CHECK: stablehlo.negate {{.*}}[<@mesh, [{}, {"x"}]>]
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

// The dimensions that a constraint leaves open may be split otherwise than propagation has completed them.

// CHECK-LABEL: @open_constraint
// CHECK: stablehlo.fft {{.*}}type =  RFFT{{.*}}[<@mesh, [{}, {"x"}, {}]>]
// CHECK: sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"x"}, {}]>
// CHECK-NOT: gspmd.given
// CHECK: stablehlo.fft {{.*}}type =  IRFFT{{.*}}[<@mesh, [{}, {"x"}, {}]>]
module @open_constraint {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>})
      -> (tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}) {
    %0 = stablehlo.fft %a, type = RFFT, length = [256] : (tensor<4x64x256xf32>) -> tensor<4x64x129xcomplex<f32>>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {?}, {?}]> : tensor<4x64x129xcomplex<f32>>
    %2 = stablehlo.fft %1, type = IRFFT, length = [256] : (tensor<4x64x129xcomplex<f32>>) -> tensor<4x64x256xf32>
    return %2 : tensor<4x64x256xf32>
  }
}

// -----

// Closed dimensions are as the constraint says, and open ones begin with the axes that it gives them: here nothing else
// is left.

// CHECK-LABEL: @half_open_constraint
// CHECK: sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {"x"}]>
module @half_open_constraint {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>})
      -> (tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}) {
    %0 = stablehlo.fft %a, type = RFFT, length = [256] : (tensor<4x64x256xf32>) -> tensor<4x64x129xcomplex<f32>>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {?}, {"x", ?}]> : tensor<4x64x129xcomplex<f32>>
    %2 = stablehlo.fft %1, type = IRFFT, length = [256] : (tensor<4x64x129xcomplex<f32>>) -> tensor<4x64x256xf32>
    return %2 : tensor<4x64x256xf32>
  }
}

// -----

// Two results are wanted whole. The product that both are made of is gathered once, and all that is made of it is whole.
// What it is made of itself stays split, since the other product would be computed on every device otherwise.

// CHECK-LABEL: @whole_from_here_on
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{}, {"x"}]>]
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{}, {"x"}]>]
// CHECK: gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, []>, <@mesh, [{}, {}]>]>
// CHECK: negate
// CHECK-NOT: sdy.sharding_per_value
// CHECK: return
module @whole_from_here_on {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
                         %b: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
          tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %h = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.dot_general %w, %h, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
    %inf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%0, %inf) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<64x256xf32>, tensor<f32>) -> tensor<64x256xf32>
    %2 = stablehlo.negate %1 : tensor<64x256xf32>
    %3 = stablehlo.cosine %1 : tensor<64x256xf32>
    return %2, %3 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

// An argument that nobody annotated is needed whole by the sort: propagation had split it as the result is.

// CHECK-LABEL: @free_argument
// CHECK: func.func public @main(%arg0: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
// CHECK: "stablehlo.sort"
// CHECK-NOT: sdy.sharding_per_value
// CHECK: return %
module @free_argument {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64xf32>) -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %1 = stablehlo.compare LT, %b, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// A loop reads one row in each step, along the dimension that is split: gathered before, they are sent once.

// CHECK-LABEL: @rows_of_a_loop
// CHECK: stablehlo.while
// CHECK-NOT: sdy.sharding =
// CHECK: stablehlo.dynamic_slice
module @rows_of_a_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<64x64xf32>)
      -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<64xf32>
    %0:3 = stablehlo.while(%rows = %a, %i = %zero, %h = %start) : tensor<16x64xf32>, tensor<i32>, tensor<64xf32>
    cond {
      %steps = stablehlo.constant dense<16> : tensor<i32>
      %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %1 = stablehlo.dynamic_slice %rows, %i, %zero, sizes = [1, 64]
        : (tensor<16x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x64xf32>) -> tensor<64xf32>
      %3 = stablehlo.dot_general %h, %w, contracting_dims = [0] x [0] : (tensor<64xf32>, tensor<64x64xf32>) -> tensor<64xf32>
      %4 = stablehlo.add %3, %2 : tensor<64xf32>
      %5 = stablehlo.tanh %4 : tensor<64xf32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %rows, %6, %5 : tensor<16x64xf32>, tensor<i32>, tensor<64xf32>
    }
    return %0#2 : tensor<64xf32>
  }
}

// -----

// Results of which nothing is said are even. The product is made in uneven rows otherwise, and gathered for that.

// CHECK-LABEL: @free_result
// CHECK: -> (tensor<767x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
// CHECK: stablehlo.dot_general
// CHECK-SAME: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>
module @free_result {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<767x256xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.pad %a, %zero, low = [0, 0], high = [0, 256], interior = [0, 1] : (tensor<4x256xf32>, tensor<f32>) -> tensor<4x767xf32>
    %1 = stablehlo.dot_general %0, %a, contracting_dims = [0] x [0] : (tensor<4x767xf32>, tensor<4x256xf32>) -> tensor<767x256xf32>
    return %1 : tensor<767x256xf32>
  }
}

// -----

// What is rotated along a split dimension sends for that, though the operation is a custom call. So rows are exchanged for
// columns before, and not after.

// CHECK-LABEL: @rotated_into_columns
// CHECK: stablehlo.custom_call @gspmd.joined_slices(%arg0) {{.*}}[<@mesh, [{}, {"x"}]>]
module @rotated_into_columns {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = stablehlo.slice %a [500:1024, 0:512] : (tensor<1024x512xf32>) -> tensor<524x512xf32>
    %1 = stablehlo.slice %a [0:500, 0:512] : (tensor<1024x512xf32>) -> tensor<500x512xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<524x512xf32>, tensor<500x512xf32>) -> tensor<1024x512xf32>
    return %2 : tensor<1024x512xf32>
  }
}

// -----

// The steps of a recurrence are split by examples, as its inputs come in, and not by features, as its weights are: those
// are gathered once, and nothing is sent in the loop.

// CHECK-LABEL: @recurrence
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{"x"}, {}]>]
module @recurrence {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %a: tensor<16x64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>},
      %w: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
      %v: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<64x128xf32>
    %inputs = stablehlo.dot_general %a, %v, contracting_dims = [2] x [0] : (tensor<16x64x128xf32>, tensor<128x128xf32>) -> tensor<16x64x128xf32>
    %0:3 = stablehlo.while(%rows = %inputs, %i = %zero, %h = %start) : tensor<16x64x128xf32>, tensor<i32>, tensor<64x128xf32>
    cond {
      %steps = stablehlo.constant dense<16> : tensor<i32>
      %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %1 = stablehlo.dynamic_slice %rows, %i, %zero, %zero, sizes = [1, 64, 128]
        : (tensor<16x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x64x128xf32>) -> tensor<64x128xf32>
      %3 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
      %4 = stablehlo.add %3, %2 : tensor<64x128xf32>
      %5 = stablehlo.tanh %4 : tensor<64x128xf32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %rows, %6, %5 : tensor<16x64x128xf32>, tensor<i32>, tensor<64x128xf32>
    }
    return %0#2 : tensor<64x128xf32>
  }
}

// -----

// A sum along what both operands are split over is made whole, as gradients are. Where it goes into products that every
// device would compute, devices share these instead: each gets rows of the sum, and sends no more for that.

// CHECK-LABEL: @shared_products
// CHECK: stablehlo.dot_general {{.*}}contracting_dims = [0] x [0]{{.*}}[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.tanh {{.*}}[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.dot_general {{.*}}contracting_dims = [1] x [0] {gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>
module @shared_products {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %examples: tensor<8192x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %features: tensor<8192x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %weights: tensor<2048x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
    ) -> (tensor<512x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.dot_general %examples, %features, contracting_dims = [0] x [0]
      : (tensor<8192x512xf32>, tensor<8192x2048xf32>) -> tensor<512x2048xf32>
    %1 = stablehlo.tanh %0 : tensor<512x2048xf32>
    %2 = stablehlo.dot_general %1, %weights, contracting_dims = [1] x [0]
      : (tensor<512x2048xf32>, tensor<2048x128xf32>) -> tensor<512x128xf32>
    return %2 : tensor<512x128xf32>
  }
}

// -----

// What weights become lies as they do. Devices share the update: to scatter the sum and to gather the result sends what
// the whole sum does.

// CHECK-LABEL: @gradient
// CHECK: -> (tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
// CHECK: stablehlo.dot_general {{.*}}unreduced={"x"}
// CHECK: stablehlo.subtract {{.*}}gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>, <@mesh, [{}, {"x"}]>, <@mesh, [{}, {"x"}]>]>
// CHECK: return
module @gradient {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %examples: tensor<8192x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %changes: tensor<8192x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %weights: tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
    ) -> tensor<512x2048xf32> {
    %0 = stablehlo.dot_general %examples, %changes, contracting_dims = [0] x [0]
      : (tensor<8192x512xf32>, tensor<8192x2048xf32>) -> tensor<512x2048xf32>
    %1 = stablehlo.subtract %weights, %0 : tensor<512x2048xf32>
    return %1 : tensor<512x2048xf32>
  }
}

// -----

// The constraint splits the rows of a product of whole values. Every device computes all of them, with eight operations for
// each byte of the result, and cuts its own out for the constraint: nothing is sent.

// CHECK-LABEL: @computed_again
// CHECK: stablehlo.dot_general
// CHECK-NOT: sdy.sharding_per_value
// CHECK: sdy.sharding_constraint {{.*}}[{"x"}, {}]
module @computed_again {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %left: tensor<256x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
      %right: tensor<16x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
    ) -> (tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x256xf32>) {
    %0 = stablehlo.dot_general %left, %right, contracting_dims = [1] x [0]
      : (tensor<256x16xf32>, tensor<16x256xf32>) -> tensor<256x256xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<256x256xf32>
    %2 = stablehlo.negate %1 : tensor<256x256xf32>
    return %0, %2 : tensor<256x256xf32>, tensor<256x256xf32>
  }
}

// -----

// Small weights are gathered, and every device along "x" computes the same: 96 bytes are sent where sums of products of what
// is split as the weights are would send 192 KiB.

// CHECK-LABEL: @small_weights
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{"y"}, {}, {}]>]
// CHECK: stablehlo.tanh {{.*}}[<@mesh, [{"y"}, {}, {}]>]
module @small_weights {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(
      %rows: tensor<64x32x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {}]>},
      %weights: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}
    ) -> (tensor<64x32x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %rows, %weights, contracting_dims = [2] x [0]
      : (tensor<64x32x4xf32>, tensor<4x8xf32>) -> tensor<64x32x8xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32x8xf32>
    %2 = stablehlo.dot_general %1, %1, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<64x32x8xf32>, tensor<64x32x8xf32>) -> tensor<64x32x32xf32>
    return %2 : tensor<64x32x32xf32>
  }
}

// -----

// A loop hands on weights that are split, and its steps take all of them: they are gathered once, before the loop, and
// examples stay split.

// CHECK-LABEL: @weights_of_a_loop
// CHECK: stablehlo.while
// CHECK-SAME: [<@mesh, [{}, {"x"}, {}]>, <@mesh, [{}, {}]>, <@mesh, []>, <@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{"x"}, {}]>]
module @weights_of_a_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %inputs: tensor<16x64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>},
      %weights: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<64x128xf32>
    %0:4 = stablehlo.while(%rows = %inputs, %w = %weights, %i = %zero, %h = %start)
      : tensor<16x64x128xf32>, tensor<128x128xf32>, tensor<i32>, tensor<64x128xf32>
    cond {
      %steps = stablehlo.constant dense<16> : tensor<i32>
      %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %1 = stablehlo.dynamic_slice %rows, %i, %zero, %zero, sizes = [1, 64, 128]
        : (tensor<16x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x64x128xf32>) -> tensor<64x128xf32>
      %3 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
      %4 = stablehlo.add %3, %2 : tensor<64x128xf32>
      %5 = stablehlo.tanh %4 : tensor<64x128xf32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %rows, %w, %6, %5 : tensor<16x64x128xf32>, tensor<128x128xf32>, tensor<i32>, tensor<64x128xf32>
    }
    return %0#3 : tensor<64x128xf32>
  }
}

// -----

// Weights of 64 MiB are not: devices would hold all of them for the whole loop.

// CHECK-LABEL: @large_weights_of_a_loop
// CHECK: stablehlo.while
// CHECK-SAME: <@mesh, [{}, {"x"}]>, <@mesh, []>
module @large_weights_of_a_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %inputs: tensor<16x64x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>},
      %weights: tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<64x4096xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<64x4096xf32>
    %0:4 = stablehlo.while(%rows = %inputs, %w = %weights, %i = %zero, %h = %start)
      : tensor<16x64x4096xf32>, tensor<4096x4096xf32>, tensor<i32>, tensor<64x4096xf32>
    cond {
      %steps = stablehlo.constant dense<16> : tensor<i32>
      %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %1 = stablehlo.dynamic_slice %rows, %i, %zero, %zero, sizes = [1, 64, 4096]
        : (tensor<16x64x4096xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x4096xf32>
      %2 = stablehlo.reshape %1 : (tensor<1x64x4096xf32>) -> tensor<64x4096xf32>
      %3 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<64x4096xf32>, tensor<4096x4096xf32>) -> tensor<64x4096xf32>
      %4 = stablehlo.add %3, %2 : tensor<64x4096xf32>
      %5 = stablehlo.tanh %4 : tensor<64x4096xf32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %rows, %w, %6, %5 : tensor<16x64x4096xf32>, tensor<4096x4096xf32>, tensor<i32>, tensor<64x4096xf32>
    }
    return %0#3 : tensor<64x4096xf32>
  }
}

// -----

// Propagation has split what is transformed, as the sums are. Every device has all of it, and the transform is computed whole
// where it would have to be gathered, though its complex numbers take 2 MiB: that is 1 MiB more than the gathered result.

// CHECK-LABEL: @transformed_whole
// CHECK: stablehlo.fft
// CHECK-NOT: sdy.sharding_per_value
// CHECK: stablehlo.reduce
module @transformed_whole {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<32x32x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>})
      -> (tensor<32x32x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>},
          tensor<32x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.tanh %a : tensor<32x32x256xf32>
    %1 = stablehlo.convert %0 : (tensor<32x32x256xf32>) -> tensor<32x32x256xcomplex<f32>>
    %2 = stablehlo.fft %1, type = FFT, length = [256] : (tensor<32x32x256xcomplex<f32>>) -> tensor<32x32x256xcomplex<f32>>
    %3 = stablehlo.real %2 : (tensor<32x32x256xcomplex<f32>>) -> tensor<32x32x256xf32>
    %4 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<32x32x256xf32>, tensor<f32>) -> tensor<32x32xf32>
    return %3, %4 : tensor<32x32x256xf32>, tensor<32x32xf32>
  }
}

// -----

// Both dimensions of the first product want "x", from operands of one size. The second product reduces its rows, so
// its columns get it, though the operand that has them comes later.
// CHECK-LABEL: module @the_dimension_that_lives_longer_gets_the_axis
// CHECK: stablehlo.dot_general %arg0, %arg1, {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.dot_general %arg2, {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @the_dimension_that_lives_longer_gets_the_axis {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %c: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.tanh %0 : tensor<64x64xf32>
    %2 = stablehlo.dot_general %c, %1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}

// -----

// A column and a row are added. The smaller one is gathered while it is a vector, not once it fills the matrix.
// CHECK-LABEL: module @a_column_and_a_row
// CHECK: stablehlo.broadcast_in_dim %arg0, {{.*}}gspmd.runs = #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.broadcast_in_dim %arg1, {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.add {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @a_column_and_a_row {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                         %b: tensor<128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// RUN: gspmd-opt --split-input-file --gspmd-reshard=constraints=bind %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-reshard=constraints=bind --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck %s --check-prefix=WHERE

// CHECK-LABEL: module @a_gather_names_the_operand_and_the_operation_that_need_it
// CHECK: sdy.all_gather {{.*}}gspmd.cause = "operand 0 of 'stablehlo.reverse' is needed as [{}]"
// WHERE: sdy.all_gather {{.*}} loc({{.*}}:10:10)
module @a_gather_names_the_operand_and_the_operation_that_need_it {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_reduction_names_the_contraction_and_what_was_wanted
// CHECK: sdy.all_reduce {{.*}}gspmd.cause = "'stablehlo.dot_general' leaves partial results over \22x\22; result 0 is wanted as [{}, {}]"
module @a_reduction_names_the_contraction_and_what_was_wanted {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constraint_and_a_result_say_that_the_user_asked
// CHECK: sdy.all_to_all {{.*}}gspmd.cause = "a sharding constraint asks for [{}, {\22x\22}]"
// CHECK: sdy.all_gather {{.*}}gspmd.cause = "the program returns result 0 as [{}, {}]"
module @a_constraint_and_a_result_say_that_the_user_asked {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @every_step_of_a_path_has_the_cause_of_the_path
// CHECK: sdy.all_slice {{.*}}gspmd.cause = "the program returns result 0 as [{}, {\22y\22}]"
// CHECK: sdy.all_gather {{.*}}gspmd.cause = "the program returns result 0 as [{}, {\22y\22}]"
module @every_step_of_a_path_has_the_cause_of_the_path {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
    return %a : tensor<512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @a_carry_and_a_body_name_the_loop
// CHECK: sdy.all_slice {{.*}}gspmd.cause = "carry 0 of 'stablehlo.while' as [{\22x\22}]"
// CHECK: sdy.all_slice {{.*}}gspmd.cause = "'stablehlo.while' returns value 0 as [{\22x\22}]"
module @a_carry_and_a_body_name_the_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.while(%c = %a) : tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
     cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %2 = stablehlo.reverse %c, dims = [0] : tensor<8xf32>
      stablehlo.return %2 : tensor<8xf32>
    }
    return %0 : tensor<8xf32>
  }
}

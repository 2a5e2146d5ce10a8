// RUN: gspmd-opt --dump-pass-pipeline --cse --canonicalize="max-iterations=3 top-down=false" --symbol-dce --cse %s 2>&1 >/dev/null | FileCheck %s --check-prefix=ORDER
// RUN: gspmd-opt --dump-pass-pipeline --sdy-insert-explicit-reshards=enable-full-version=true %s 2>&1 >/dev/null | FileCheck %s --check-prefix=NESTED

// ORDER: builtin.module(cse,canonicalize{max-iterations=3 top-down=false},symbol-dce,cse)
// NESTED: builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true}))
func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

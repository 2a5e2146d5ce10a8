// RUN: not gspmd-opt --csee %s 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not gspmd-opt --pass-pipeline='builtin.module(func.func(csee))' %s 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not gspmd-opt --split-input %s 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not gspmd-opt --canonicalize=max-iteration=3 %s 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not gspmd-opt --canonicalize=max-iterations=many %s 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not gspmd-opt --gspmd-propagate=no-such-option=1 %s 2>&1 | FileCheck %s --check-prefix=OURS
// RUN: not gspmd-opt --pass-pipeline='builtin.module(cse' %s 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not gspmd-opt --pass-pipeline='func.func(gspmd-propagate)' %s 2>&1 | FileCheck %s --check-prefix=NEST
// RUN: not gspmd-opt --pass-pipeline=cse --cse %s 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not gspmd-opt %s.no-such-file 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not gspmd-opt %S 2>&1 | FileCheck %s --check-prefix=DIRECTORY
// RUN: not gspmd-opt %s -o %t.no-such-directory/out 2>&1 | FileCheck %s --check-prefix=UNWRITABLE
// RUN: not gspmd-opt %s %s 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not gspmd-opt --stablehlo-check-shape-assertions=enable-shape-assertions=perhaps %s 2>&1 | FileCheck %s --check-prefix=QUIET

// PASS: gspmd-opt: error: unknown option or pass '--csee'; did you mean '--cse'?
// NAME: gspmd-opt: error: unknown pass 'csee'; did you mean 'cse'?
// OPTION: gspmd-opt: error: unknown option or pass '--split-input'; did you mean '--split-input-file'?
// NEAR: gspmd-opt: error: pass 'canonicalize' has no option 'max-iteration'; did you mean 'max-iterations'?
// VALUE-NOT: value invalid for long argument
// VALUE: gspmd-opt: error: pass 'canonicalize' does not take the options 'max-iterations=many'
// OURS: gspmd-opt: error: pass 'gspmd-propagate' has no option 'no-such-option'; it has
// SYNTAX: gspmd-opt: error: in 'builtin.module(cse', column 19: expected ',' or ')', found the end
// NEST: gspmd-opt: error: pass 'gspmd-propagate' runs on a module, not in 'func.func'; move it out of 'func.func(...)'
// BOTH: gspmd-opt: error: --pass-pipeline and passes as flags are both given; give one of them
// MISSING: gspmd-opt: error: cannot read '{{.*}}no-such-file': no such file or directory
// DIRECTORY: gspmd-opt: error: cannot read '{{.*}}tools': is a directory; give a .mlir file
// UNWRITABLE: gspmd-opt: error: cannot write '{{.*}}/out': no such file or directory
// TWO: gspmd-opt: error: unrecognized arguments: {{.*}}errors.mlir; see gspmd-opt --help
// QUIET-NOT: invalid
// QUIET: gspmd-opt: error: pass 'stablehlo-check-shape-assertions'
func.func @main() {
  return
}

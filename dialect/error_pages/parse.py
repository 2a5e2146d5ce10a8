"""Errors of text and bytes that should be a program."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.SYNTAX,
        "Text that is not a program",
        "The parser of MLIR or of HLO does not accept the text at this location.",
        Example(
            "gspmd partition program.mlir",
            text="""\
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sin %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "Correct the text at the caret. If a framework wrote it, its version of StableHLO may be newer than that of "
        "jaxlib: let it write a portable artifact (jax.export, stablehlo.serialize_portable_artifact).",
    ),
    Page(
        Code.UNKNOWN_FORMAT,
        "Bytes in an unknown format",
        "Programs are MLIR text or bytecode, StableHLO portable artifacts, HLO text, or serialized HLO protos.",
        Example(python='import gspmd\n\ngspmd.partition(b"\\x7fELF\\x02\\x01")\n'),
        "Check the path of the program, and let the framework write one of these formats.",
    ),
    Page(
        Code.NO_MAIN,
        "A module without an entry function",
        "The program of a module is its function @main, or its only public function.",
        Example("gspmd partition program.mlir", text="module {\n}\n"),
        "Name the entry function @main, and make the others private.",
    ),
    Page(
        Code.ELIDED,
        "Constants without their elements",
        "HLO text in the short format has {...} in place of large constants, so the program is incomplete.",
        Example(
            "gspmd partition program.hlo",
            "program.hlo",
            """\
HloModule step

ENTRY main {
  a = f32[4] parameter(0)
  c = f32[4] constant({...})
  ROOT sum = f32[4] add(a, c)
}
""",
        ),
        "Print it with large constants, or use the serialized HloModuleProto.",
    ),
    Page(
        Code.SHARDING_TEXT,
        "An invalid HLO sharding",
        "The text of an HLO sharding, or of a part of it, does not follow the notation.",
        Example(
            "gspmd partition program.mlir",
            text="""\
func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4"}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
""",
        ),
        "Correct it at the offset in the message; '{devices=[4,2]<=[8]}' splits two dimensions over eight devices.",
    ),
    Page(
        Code.TARGET_FILE,
        "An invalid description of hardware",
        "The .toml file of a target is not valid TOML, or has unknown keys or values of the wrong kind.",
        Example("gspmd cost program.mlir --target mine.toml", "mine.toml", 'flops_per_s = "many"\n'),
        "docs/cost.md describes the keys.",
    ),
    Page(
        Code.SIGNATURE,
        "An inconsistent partitioned program",
        "The attributes that gspmd writes into a partitioned program do not fit its arguments and results, for example "
        "after a manual edit.",
        Example(
            "gspmd run program.mlir",
            text="""\
module attributes {gspmd.mesh = "<[\\"x\\"=4]>", mhlo.num_partitions = 4 : i32} {
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    return %a : tensor<2xf32>
  }
}
""",
        ),
        "Partition the program again.",
    ),
    Page(
        Code.INVALID_OPERATION,
        "An invalid operation",
        "The text can be parsed, but the types or attributes of an operation are inconsistent.",
        Example(
            "gspmd partition program.mlir",
            text="""\
func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
  %0 = stablehlo.slice %a [0:5] : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
""",
        ),
        "Correct the operation; the StableHLO specification has the constraints of each operation.",
    ),
)

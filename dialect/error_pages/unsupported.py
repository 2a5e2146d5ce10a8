"""Errors of programs that are refused rather than partitioned wrongly."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

_PARTITION = "gspmd partition program.mlir"


def _program(
    *lines: str, argument: str = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>', after: str = "",
    returns: tuple[str, str] = ("%a", "tensor<8xf32>"),
) -> Example:  # fmt: skip
    """A program whose argument has the annotation, with these operations; `returns` is a value and its type."""
    text = "".join(f"  {line}\n" for line in lines)
    attributes = f" {{{argument}}}" if argument else ""
    return Example(
        _PARTITION,
        text=f"""\
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32>{attributes}) -> {returns[1]} {{
{text}  return {" : ".join(returns)}
}}
{after}""",
    )


PAGES = (
    Page(
        Code.UNSUPPORTED,
        "A program that gspmd does not partition",
        "The program is valid, but contains something that gspmd has no way to partition.",
        _program("%0 = arith.constant dense<1> : tensor<8xi7>"),
        "Write the program in another way; the message says how where there is one.",
    ),
    Page(
        Code.OPERATION,
        "An operation without a rule",
        "gspmd partitions the operations of StableHLO and CHLO that docs/coverage.md lists. This one is of another "
        "dialect, or has a form that is not supported.",
        _program("%0 = arith.addf %a, %a : tensor<8xf32>"),
        "Replace it, or let every device compute it whole with --replicate-unsupported.",
    ),
    Page(
        Code.CUSTOM_CALL,
        "A custom call without a sharding rule",
        "Nobody but its author knows which dimensions of a custom call belong together. For calls of "
        "`jax.experimental.custom_partitioning`, functions of the Python program know; what is wrong with what they "
        "return is told with this code, too.",
        _program(
            "%0 = stablehlo.custom_call @my_kernel(%a) : (tensor<8xf32>) -> tensor<8xf32>",
            returns=("%0", "tensor<8xf32>"),
        ),
        "Give it a rule, as --custom-rule 'my_kernel=([i])->([i])', put it into a manual computation, or compute it "
        "whole with --replicate-unsupported. Partition programs with custom_partitioning by gspmd.jit.",
    ),
    Page(
        Code.DEVICE_ORDERS,
        "Device orders that do not fit one mesh",
        "The shardings of a program, or of a manual computation, list the devices in orders that cannot be those of "
        "the axes of one mesh.",
        Example(
            _PARTITION,
            text="""\
func.func private @body(%a: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}
func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[4]<=[4]}"}
      : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"}
      : (tensor<8xf32>) -> tensor<2xf32>
  %2 = call @body(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[4]0,2,3,1}"}
      : (tensor<2xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
""",
        ),
        "List the devices of all shardings in the order of one mesh.",
    ),
    Page(
        Code.DYNAMIC_SHAPE,
        "Shapes that are not known before the program runs",
        "Every device has to know the size of its part, so that all shapes have to be static.",
        Example(
            _PARTITION,
            text="""\
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}
""",
        ),
        "Export the program with fixed shapes; pad what varies.",
    ),
    Page(
        Code.COMMUNICATION,
        "A program that communicates by itself",
        "Partitioning is for programs that are written for one device. Collectives, and partition_id, mean something "
        "only in manual computations, along their axes.",
        _program("%0 = stablehlo.partition_id : tensor<ui32>", returns=("%0", "tensor<ui32>")),
        "Give the program before it was partitioned, or put the operations into a manual computation (shard_map).",
    ),
    Page(
        Code.HOST,
        "A program that needs its host",
        "Infeed, outfeed and calls of Python are tied to the process that made the program, or to one device.",
        Example(
            "gspmd run program.mlir",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %t = stablehlo.create_token : !stablehlo.token
  %0 = "stablehlo.outfeed"(%a, %t) <{outfeed_config = ""}> : (tensor<8xf32>, !stablehlo.token) -> !stablehlo.token
  return %a : tensor<8xf32>
}
""",
        ),
        "Pass data as arguments and results of @main; programs with callbacks run with gspmd.jit, in their process.",
    ),
    Page(
        Code.CALLS,
        "Functions that cannot be inlined",
        "Calls are inlined before a program is partitioned, so that functions need a body of one block and may not "
        "call themselves.",
        _program(
            "%0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>",
            after="""\
func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "Write recursion as a stablehlo.while and branches as a stablehlo.if; give functions that are only declared "
        "a definition.",
    ),
    Page(
        Code.RESHARD,
        "A reshard that strict mode refuses",
        "With --strict a program is refused if values are resharded where no annotation asks for it. All such places "
        "are listed, the largest first.",
        Example(
            "gspmd partition program.mlir --strict",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
""",
        ),
        "Annotate the value as it is needed, or allow so many bytes with --strict=64KiB; gspmd explain --conflicts "
        "says why it is moved.",
    ),
    Page(
        Code.REPLICAS,
        "A program of several replicas",
        "gspmd splits a program into partitions. Replicas, as pmap makes them, are another kind of parallelism.",
        Example(
            _PARTITION,
            text="""\
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}
""",
        ),
        "Make the replicas an axis of the mesh, and split the batch over it.",
    ),
    Page(
        Code.LIMIT,
        "More than gspmd looks at",
        "Time and memory are to grow with what is written, not with the numbers in it, so there are limits: on the "
        "depth of nesting, on operations after calls are inlined, on devices that are listed one by one. Each is far "
        "above what programs need.",
        Example(
            _PARTITION,
            text="""\
sdy.mesh @mesh = <["x"=4294967296]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
""",
        ),
        "Write what is repeated as a loop, nest less deeply, or use fewer devices, as the message says.",
    ),
    Page(
        Code.NO_PLAN,
        "No plan fits into memory",
        "gspmd search found no way to split the program's arguments so that a device of the target holds what it "
        "needs. The error says how much the best plan needs.",
        Example(
            "gspmd search program.mlir --memory 4KiB --time-limit 5",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.exponential %a : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
""",
        ),
        "Use more devices or more of their memory, or let the program hold less for its backward pass, "
        "as jax.checkpoint does.",
    ),
    Page(
        Code.NOT_PROVED,
        "A partitioned program that is not proved to be right",
        "With --verify, or verify=True, gspmd refuses to hand over a program of which it does not prove that every "
        "device computes its part of what the given program computes, for all inputs. The error names the first result "
        "of which that is not proved, and why.",
        Example(
            "gspmd partition program.mlir --verify",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%low: tensor<f32>, %high: tensor<f32>) -> tensor<8xf32> {
  %shape = stablehlo.constant dense<8> : tensor<1xi64>
  %0 = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "If the result is refuted, report it: gspmd is wrong. If it is not known, write the operation in another way, "
        "or check the program in numbers by gspmd check.",
    ),
)

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
        "A program that gspmd does not support",
        "The program is valid, but contains something that gspmd cannot partition.",
        _program("%0 = arith.constant dense<1> : tensor<8xi7>"),
        "Rewrite the program; the message has a suggestion if there is one.",
    ),
    Page(
        Code.OPERATION,
        "An operation without a sharding rule",
        "gspmd partitions the operations of StableHLO and CHLO in docs/coverage.md. This one is of another dialect, or "
        "has an unsupported form.",
        _program("%0 = arith.addf %a, %a : tensor<8xf32>"),
        "Replace it, or let every device compute it on whole operands with --replicate-unsupported.",
    ),
    Page(
        Code.CUSTOM_CALL,
        "A custom call without a sharding rule",
        "Only the author of a custom call knows which dimensions of its operands and results correspond. For calls of "
        "`jax.experimental.custom_partitioning`, functions of the Python program know it. Errors in what these return "
        "have this code, too.",
        _program(
            "%0 = stablehlo.custom_call @my_kernel(%a) : (tensor<8xf32>) -> tensor<8xf32>",
            returns=("%0", "tensor<8xf32>"),
        ),
        "Give it a rule, such as --custom-rule 'my_kernel=([i])->([i])', put it into a manual computation, or compute "
        "it on whole operands with --replicate-unsupported. Partition programs with custom_partitioning by gspmd.jit.",
    ),
    Page(
        Code.DEVICE_ORDERS,
        "Device orders that do not fit one mesh",
        "The shardings of a program, or of a manual computation, use device orders that no single mesh can express.",
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
        "Dynamic shapes",
        "All shapes must be static, because every device must know the shapes of its shards.",
        Example(
            _PARTITION,
            text="""\
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}
""",
        ),
        "Export the program with fixed shapes, and pad values of varying size.",
    ),
    Page(
        Code.COMMUNICATION,
        "A program that already communicates",
        "gspmd partitions programs that are written for one device. Collectives and partition_id are allowed only in "
        "manual computations, along their axes.",
        _program("%0 = stablehlo.partition_id : tensor<ui32>", returns=("%0", "tensor<ui32>")),
        "Use the program before it was partitioned, or put the operations into a manual computation (shard_map).",
    ),
    Page(
        Code.HOST,
        "A program that needs its host",
        "Infeed, outfeed and Python callbacks are tied to the process that created the program, or to one device.",
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
        "Pass data as arguments and results of @main; run programs with callbacks with gspmd.jit, in their process.",
    ),
    Page(
        Code.CALLS,
        "Functions that cannot be inlined",
        "Calls are inlined before partitioning, so functions need a body of one block and must not be recursive.",
        _program(
            "%0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>",
            after="""\
func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "Write recursion as a stablehlo.while and branches as a stablehlo.if; define functions that are only declared.",
    ),
    Page(
        Code.RESHARD,
        "A reshard that strict mode refuses",
        "With --strict, a program is refused if values are resharded without an annotation that asks for it. The error "
        "lists all such values, the largest first.",
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
        "Annotate the value with the sharding that its consumer needs, or allow some bytes with --strict=64KiB; gspmd "
        "explain --conflicts has the reasons.",
    ),
    Page(
        Code.REPLICAS,
        "A program with several replicas",
        "gspmd splits a program into partitions. Replicas, as of pmap, are another kind of parallelism.",
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
        "A program beyond a limit",
        "Time and memory should grow with the size of the program text, not with the numbers in it, so there are "
        "limits: on nesting, on the number of operations after inlining, and on lists of devices. Each limit is far "
        "above the needs of real programs.",
        Example(
            _PARTITION,
            text="""\
sdy.mesh @mesh = <["x"=4294967296]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
""",
        ),
        "Write repetitions as a loop, nest less deeply, or use fewer devices, as the message says.",
    ),
    Page(
        Code.NO_PLAN,
        "No plan fits into memory",
        "gspmd search found no shardings of the arguments with which the program fits into the memory of a device. The "
        "error has the memory that the best plan needs.",
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
        "Use more devices or devices with more memory, or keep less for the backward pass, as with jax.checkpoint.",
    ),
    Page(
        Code.NOT_PROVED,
        "A partitioned program without a proof",
        "With --verify, or verify=True, gspmd returns a program only with a proof that, for all inputs, every device "
        "computes its shard of the results of the original program. The error has the first result without a proof, "
        "and the reason.",
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
        "If the result is refuted, report it: gspmd is wrong. If it is unknown, rewrite the operation, or check the "
        "program numerically with gspmd check.",
    ),
)

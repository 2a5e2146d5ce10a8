"""Errors of running programs, and of gspmd itself."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.EXECUTION,
        "A program that failed during execution",
        "The devices, a Python callback of the program, or another process failed.",
        Example(
            python="""\
import gspmd
import jax
import jax.numpy as jnp


def fail(x):
    raise ValueError("no data")


def step(x):
    return jax.pure_callback(fail, x, x)


gspmd.jit(step, mesh={"x": 4})(jnp.ones(8)).block_until_ready()
"""
        ),
        "The message quotes the failure; with several processes, read the output of the others as well.",
    ),
    Page(
        Code.TOO_FEW_DEVICES,
        "Not enough devices",
        "The program has more partitions than the platform has devices, or the platform has none.",
        Example("gspmd run program.mlir --platform tpu"),
        "Partition for fewer devices, or use virtual ones: JAX_NUM_CPU_DEVICES=8 gives JAX eight CPU devices. The "
        "gspmd commands create as many as they need.",
    ),
    Page(
        Code.ARGUMENTS,
        "Arguments that do not fit the program",
        "The number, shapes or types of the arguments differ from those of the program.",
        Example(
            python='''\
import gspmd
import numpy as np

program = """
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
gspmd.compile(gspmd.partition(program, num_partitions=1))(np.ones(7, np.float32))
'''
        ),
        "Give global arrays of the shapes and types in the message.",
    ),
    Page(
        Code.DONATED,
        "A donated array",
        "The program may overwrite the memory of an array that is donated to it, so the array can be used only once.",
        Example(
            python="""\
import gspmd
import jax.numpy as jnp

step = gspmd.jit(lambda a: a + 1, mesh={"x": 4}, donate_argnums=0)
a = jnp.ones(8)
step(a)
step(a)
"""
        ),
        "Use the result of the program instead, or do not donate the argument.",
    ),
    Page(
        Code.COMPILER,
        "A program that the compiler of the devices refuses",
        "XLA refuses the program, or the program needs more memory than a device has. The message has the operation "
        "and its location if they are known.",
        Example(
            "gspmd run program.mlir --custom-rule 'my_kernel=([i])->([i])'",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @my_kernel(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "Custom calls run only if their library is loaded. If memory is short, split the largest values over more "
        "axes; gspmd cost lists them.",
    ),
    Page(
        Code.OTHER_MACHINE,
        "A compiled program for another machine",
        "A compiled program runs with the same jaxlib, on as many devices of the same kind as it was compiled for.",
        Example(
            python='''\
import gspmd
import jax

program = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
gspmd.compile_for(gspmd.partition(program), "cpu").save("step.gspmd")
gspmd.load_compiled("step.gspmd", devices=jax.devices()[:2])
'''
        ),
        "Compile it again for this machine.",
    ),
    Page(
        Code.MEMORY_KIND,
        "A memory kind that the devices do not have",
        "An argument or result is annotated with a memory kind that devices of this platform do not have.",
        Example(
            "gspmd run program.mlir",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {mhlo.memory_kind = "far_host"}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
""",
        ),
        "Lower the program with one of the kinds in the message.",
    ),
    Page(
        Code.TIMEOUT,
        "A command that exceeds --timeout",
        "The command was stopped at its time limit and has written nothing.",
        Example("gspmd partition program.mlir --timeout 0.001"),
        "Give it more time. If it seems to hang, report it with the message, which says what the command was doing.",
    ),
    Page(
        Code.INTERNAL,
        "A defect of gspmd",
        "gspmd violated one of its own invariants. If the pipeline has custom passes, one of them may have built an "
        "invalid program.",
        Example(
            python="""\
import dataclasses

from gspmd.pass_manager import PassManager
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.passes import Pass


@dataclasses.dataclass(frozen=True)
class Forget(Pass):
    argument = "forget"
    summary = "remove the name of a function"

    def run(self, module):
        del module.regions[0].first.attributes["sym_name"]


module = parse_module("func.func @main() { return }", new_context())
PassManager([Forget()]).run(module)
"""
        ),
        "Please report it, with the program and the command.",
    ),
)

"""Errors of running programs, and of gspmd itself."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.EXECUTION,
        "A program that failed while it ran",
        "The devices, a function of Python that the program calls, or another process failed.",
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
        "The message quotes what failed; with several processes, read the output of the others as well.",
    ),
    Page(
        Code.TOO_FEW_DEVICES,
        "Not enough devices",
        "The program has more partitions than there are devices of the platform, or there are none of it.",
        Example("gspmd run program.mlir --platform tpu"),
        "Partition for fewer devices, or use virtual ones: JAX_NUM_CPU_DEVICES=8 gives JAX eight CPU devices. The "
        "commands ask for as many as they need by themselves.",
    ),
    Page(
        Code.ARGUMENTS,
        "Arguments that do not fit the program",
        "Their number, a shape or a type is another one than the program's.",
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
        "An array that was donated",
        "A program that an array is donated to may write into its memory, so that it can be used once.",
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
        "Use the program's result in its place, or do not donate the argument.",
    ),
    Page(
        Code.COMPILER,
        "A program that the compiler of the devices does not take",
        "XLA refuses the program, or it needs more memory than a device has. The operation and its place are said "
        "where they can be found.",
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
        "Custom calls run only where their library is loaded. Where memory is short, split the largest values over "
        "more axes: gspmd cost lists them.",
    ),
    Page(
        Code.OTHER_MACHINE,
        "A compiled program for another machine",
        "Compiled programs run on as many devices of the kind that they were compiled for, with the same jaxlib.",
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
        "Compile it again for the machine that is there.",
    ),
    Page(
        Code.MEMORY_KIND,
        "A memory that the devices do not have",
        "An argument or a result is annotated with a memory kind that devices of this platform do not know.",
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
        "Not done within --timeout",
        "The command was ended, whatever it was doing then, and has written nothing.",
        Example("gspmd partition program.mlir --timeout 0.001"),
        "Give it more time. If it seems to hang, report it with what the message says it was doing.",
    ),
    Page(
        Code.INTERNAL,
        "A defect of gspmd",
        "Something that cannot happen has happened. If passes of your own are in the pipeline, one of them may have "
        "built something invalid.",
        Example(
            python="""\
import dataclasses

from gspmd.pass_manager import PassManager
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.passes import Pass


@dataclasses.dataclass(frozen=True)
class Forget(Pass):
    argument = "forget"
    summary = "takes the name of a function away"

    def run(self, module):
        del module.regions[0].first.attributes["sym_name"]


module = parse_module("func.func @main() { return }", new_context())
PassManager([Forget()]).run(module)
"""
        ),
        "Please report it, with the program and the command.",
    ),
)

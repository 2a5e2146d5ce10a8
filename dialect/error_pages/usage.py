"""Errors of who calls: commands, options and functions."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.USAGE,
        "An invalid use of a command or function",
        "A required argument is missing, has the wrong type, or does not fit the others.",
        Example("gspmd partition"),
        "Read what the message expects; the help of the command and the docstring of the function have more.",
    ),
    Page(
        Code.UNKNOWN_OPTION,
        "An unknown command or option",
        "A word on the command line is neither a command nor an option, or the function has no such keyword argument. "
        "Options cannot be abbreviated.",
        Example("gspmd partition program.mlir --outptu out.mlir"),
        "Correct the spelling; --help lists commands and options, and gspmd completion makes the shell complete them.",
    ),
    Page(
        Code.BAD_VALUE,
        "An invalid value of an option or argument",
        "The value has the wrong kind or is out of range.",
        Example("gspmd cost program.mlir --top none"),
        "Give a value of the kind in the message.",
    ),
    Page(
        Code.OPTIONS_DISAGREE,
        "Options that cannot be combined",
        "Two options contradict each other, or one needs another that is missing.",
        Example("gspmd explain program.mlir --all --value %0"),
        "Remove one of them, or add the missing one.",
    ),
    Page(
        Code.PIPELINE_TEXT,
        "An invalid pipeline",
        "The text of a pipeline of passes does not have the form builtin.module(pass{option=value},pass).",
        Example("gspmd-opt program.mlir --pass-pipeline='builtin.module(cse'"),
        "Close the brackets, and separate passes by commas and options by blanks. The message has the column in the "
        "text.",
    ),
    Page(
        Code.UNKNOWN_PASS,
        "An unknown pass or pass option",
        "Neither gspmd nor MLIR has a pass of this name, the pass has no such option, or it cannot run on this "
        "operation.",
        Example("gspmd-opt program.mlir --pass-pipeline='builtin.module(gspmd-propogate)'"),
        "gspmd-opt --list-passes prints the passes and their options.",
    ),
    Page(
        Code.UNKNOWN_VALUE,
        "An unknown value",
        "gspmd explain --value was given a name or a source line that no value in the program has.",
        Example("gspmd explain program.mlir --value %7"),
        "gspmd explain --print-module prints the program with the names of its values. It has the names and source "
        "lines of the framework if the program was lowered with them: lower(...).as_text(debug_info=True).",
    ),
    Page(
        Code.UNKNOWN_TARGET,
        "Unknown hardware",
        "A target is the name of known hardware, a TPU topology, or a file; this one is none of them.",
        Example("gspmd cost program.mlir --target tpu-v99"),
        "Use one of the names in the message, a topology such as tpu:v5p:4x4x8, or a .toml file with a description of "
        "the hardware (docs/cost.md).",
    ),
    Page(
        Code.TOPOLOGY,
        "A mesh that does not fit the target",
        "The mesh and the topology have different numbers of devices, or the mesh axes cannot be placed along the "
        "dimensions of the topology.",
        Example("gspmd cost program.mlir --target tpu:v5e:1x2"),
        "Choose a topology with as many devices as the mesh, and sizes of mesh axes that are products of its "
        "dimensions or divide them.",
    ),
    Page(
        Code.NO_MESH,
        "A missing mesh",
        "The function needs a mesh, but none is given or set, and the arguments have none.",
        Example(
            python="""\
import gspmd
import jax.numpy as jnp

gspmd.annotate(jnp.ones(8), "x")
"""
        ),
        'Give a mesh, as mesh={"x": 8}, or call it in `with jax.set_mesh(mesh):`.',
    ),
    Page(
        Code.PARTITIONED_ALREADY,
        "A partitioned program where an annotated one is needed, or the reverse",
        "gspmd recognizes programs that it has partitioned by their attributes. Options for partitioning do not apply "
        "to them, and comparisons with the original need a partitioned program.",
        Example("gspmd check program.mlir --against program.mlir"),
        "Give the kind of program that the message asks for.",
    ),
)

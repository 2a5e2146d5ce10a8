"""Errors of who calls: commands, options and functions."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.USAGE,
        "A command or a function is not used as it can be",
        "Something that is needed is missing, or what is given has the wrong type, or does not fit the rest.",
        Example("gspmd partition"),
        "Read what the message expects; the help of the command, or the docstring of the function, has the rest.",
    ),
    Page(
        Code.UNKNOWN_OPTION,
        "A command or an option that does not exist",
        "A word on the command line is neither a command nor an option, or a keyword argument is none of the "
        "function's. Options cannot be abbreviated.",
        Example("gspmd partition program.mlir --outptu out.mlir"),
        "Correct the spelling; --help lists commands and options, and gspmd completion makes the shell complete them.",
    ),
    Page(
        Code.BAD_VALUE,
        "A value that an option or an argument does not take",
        "The value is of the wrong kind or outside the range.",
        Example("gspmd cost program.mlir --top none"),
        "Give a value of the kind that the message names.",
    ),
    Page(
        Code.OPTIONS_DISAGREE,
        "Options that do not go together",
        "Two of the options contradict each other, or one needs another one that is not given.",
        Example("gspmd explain program.mlir --all --value %0"),
        "Leave one of them out, or add the one that is missing.",
    ),
    Page(
        Code.PIPELINE_TEXT,
        "A pipeline that cannot be read",
        "The text of a pipeline of passes does not have the form builtin.module(pass{option=value},pass).",
        Example("gspmd-opt program.mlir --pass-pipeline='builtin.module(cse'"),
        "Close the brackets, and separate passes by commas and options by blanks. The column is that in the text.",
    ),
    Page(
        Code.UNKNOWN_PASS,
        "A pass that does not exist, or does not take the option",
        "Neither gspmd nor MLIR has a pass of this name, the pass has no such option, or it does not run there.",
        Example("gspmd-opt program.mlir --pass-pipeline='builtin.module(gspmd-propogate)'"),
        "gspmd-opt --list-passes prints the passes and their options.",
    ),
    Page(
        Code.UNKNOWN_VALUE,
        "A value that the program does not have",
        "gspmd explain --value was asked for a name, or a source line, that no value of the program has.",
        Example("gspmd explain program.mlir --value %7"),
        "gspmd explain --print-module prints the program with the names of its values. Frameworks' names and source "
        "lines are there if the program was lowered with them: lower(...).as_text(debug_info=True).",
    ),
    Page(
        Code.UNKNOWN_TARGET,
        "Hardware that is not known",
        "A target is none of the names that gspmd knows, no topology of a TPU, and no file.",
        Example("gspmd cost program.mlir --target tpu-v99"),
        "Use one of the names in the message, a topology such as tpu:v5p:4x4x8, or describe the hardware in a .toml "
        "file, as docs/cost.md says.",
    ),
    Page(
        Code.TOPOLOGY,
        "A mesh that does not fit the target",
        "The mesh has another number of devices than the topology, or its axes do not lie along its dimensions.",
        Example("gspmd cost program.mlir --target tpu:v5e:1x2"),
        "Choose a topology of as many devices as the mesh has, and sizes of mesh axes that are products of its "
        "dimensions or divide them.",
    ),
    Page(
        Code.NO_MESH,
        "There is no mesh",
        "A function is called that needs a mesh, and none was given, is set, or is found on the arguments.",
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
        "A program that is partitioned where an annotated one is needed, or the other way round",
        "gspmd tells programs that it has partitioned by what it has written into them. Options that decide how a "
        "program is partitioned mean nothing for them, and what compares with the original needs a partitioned one.",
        Example("gspmd check program.mlir --against program.mlir"),
        "Give the kind of program that the message asks for.",
    ),
)

"""gspmd compile: compile a program for a machine that need not be present."""

from __future__ import annotations

import argparse
import json

from gspmd.tools._partitioned import add_partition_arguments, add_strict_argument, named, partitioned, positive
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.transforms.machine.targets import TOPOLOGIES

NAME = "compile"
SUMMARY = "compile for a TPU topology or for local devices: memory, collectives and an estimated step time"
PRINTS_JSON = True
_EPILOG = """\
FILE is an annotated program, which is partitioned for the target, or a partitioned module. A target is
tpu:VERSION:CHIPS, such as tpu:v5p:8x8x8, with VERSION one of {versions} and the number of chips in each dimension
(needs libtpu: pip install 'gspmd[tpu]'); or tpu, gpu, cpu or cpu:N for local devices. docs/compile.md explains the
figures.

gspmd run and gspmd.load_compiled load the file written with -o on a machine of the same kind. It holds native code:
load only files that you trust.
"""

_TRUTH = {"true": True, "false": False}  # XLA does not accept these as strings everywhere


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG.format(versions=", ".join(TOPOLOGIES))
    parser.add_argument("file", metavar="FILE", help="an annotated program or a partitioned module; - for stdin")
    add_partition_arguments(parser)
    add_strict_argument(parser)
    parser.add_argument("--target", required=True, metavar="TARGET", help="what to compile for, such as tpu:v5p:8x8x8")
    parser.add_argument(
        "--compiler-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="XLA option, such as xla_enable_async_all_gather=true; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--top", type=positive, default=8, metavar="N", help="collectives in the list (default: 8)")
    parser.add_argument("--hlo", metavar="FILE", help="write the HLO that the compiler optimized")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the executable")


def run(args: argparse.Namespace) -> int:
    from gspmd.output import beside, outputs
    from gspmd.reading import read_program_file
    from gspmd.transforms.machine.topology import is_topology
    from gspmd.transforms.parsing.mlir import new_context
    from gspmd.virtual_devices import request_devices

    options = {name: _TRUTH.get(value, value) for name, value in named(args.compiler_option, "--compiler-option")}
    hlo, output = outputs(args.hlo, args.output)
    platform = args.target.partition(":")[0]
    topology = is_topology(args.target)
    module = read_program_file(args.file, new_context())
    with stage("partitioning"):
        chosen_for = argparse.Namespace(**{**vars(args), "target": args.target if topology else ""})
        product, count = partitioned(module, chosen_for)
    here = platform if platform in ("gpu", "tpu") and not topology else "cpu"
    # Devices of the target beyond those of the program stay unused.
    request_devices(here, 1 if topology else count)
    from gspmd.compiled import compiled_program
    from gspmd.compiled.ahead_of_time import compile_for
    from gspmd.tables import fitted
    from gspmd.text_report import bytes_text

    with stage(f"compiling for {args.target}"):
        compiled = compile_for(product, args.target, compiler_options=options)
    with beside(hlo, output):
        if args.json:
            print(json.dumps(compiled_program.to_dict(compiled), indent=1))
        else:
            print("\n".join(fitted(compiled_program.lines(compiled, args.top))))
        if hlo:
            hlo.write(compiled.hlo_text.encode())
        if output:
            content = compiled.serialized()
            output.write(content)
            if not args.json:
                print(f"\nwrote {args.output}, {bytes_text(len(content))}")
    return 0

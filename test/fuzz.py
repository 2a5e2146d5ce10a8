"""Random programs with random annotations: partitioned, they must give what they give on one device.

Run as `python test/fuzz.py [--seed N] [--count N | --seconds S] [--devices N] [--list-groups-up-to 1]`; a seed names a
program of so many devices, whatever the count. They run in a process of their own, so that one that ends is reported
with its seed. On more than 8 devices meshes have three axes; on more than 64, or with `--list-groups-up-to 1`, replica
groups are along mesh axes. Programs that fail are shrunk, by leaving out annotations and operations, and printed with
the inputs that they fail on. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from proof.contents import as_text
from proof.execution import Options, inputs_of
from proof.fuzzing import Made, at_fault, least, tried
from proof.seeds import parser_of, try_seeds

from gspmd.isolation import Worker


def main() -> int:
    options = _parse()
    worker = Worker(timeout_s=600 if options.devices > 8 else 120, devices=options.devices)
    partitioning = Options(options.list_groups_up_to)

    def made(seed: int) -> Made:
        return Made(seed, options.devices, partitioning)

    code = try_seeds(
        options, lambda seed: tried(made(seed), worker), lambda seed, why: _report(made(seed), why, worker)
    )
    worker.stop()
    return code


def _report(made: Made, why: str, worker: Worker) -> None:
    program, found = least(made, worker)
    print(f"// seed {made.seed}: {found or why}")
    print(f"// {at_fault(program, made)}")
    for argument, array in zip(program.arguments, inputs_of(program, made.seed), strict=True):
        print(f"// {argument.value.name} = {as_text(array)}")
    print(f"{program}// -----", flush=True)


def _parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--devices", type=int, default=8, help="more than 8: of every mesh (default: up to 8)")
    parser.add_argument(
        "--list-groups-up-to", type=int, default=64, help="1: replica groups name mesh axes (default: 64)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Random nests of loops, branches, calls, gradients and manual computations: partitioned as JAX computes them.

Run as `python test/fuzz_control_flow.py [--seed N] [--count N | --seconds S]`; a seed names a program. They run in a
process of their own, so that one that ends is reported with its seed. Programs that fail are shrunk, by leaving out
statements, and printed. The exit code is 1 if there are any.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from proof.nesting import least, tried
from proof.nests import nest
from proof.seeds import parser_of, try_seeds

from gspmd.isolation import Worker


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--whole", action="store_true", help="do not shrink programs that fail")
    options = parser.parse_args()
    worker = Worker()

    def report(seed: int, why: str) -> None:
        print(f"// seed {seed}: {why}", flush=True)
        if not options.whole:
            program, why = least(nest(seed), seed, worker)
            print(f"// shrunk: {why}\n{program}\n// -----", flush=True)

    code = try_seeds(options, lambda seed: tried(nest(seed), seed, worker), report)
    worker.stop()
    return code


if __name__ == "__main__":
    sys.exit(main())

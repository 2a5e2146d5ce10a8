"""Random ragged all-to-alls on eight CPU devices, compared with a model in numpy.

Run as `python test/fuzz_ragged.py [--seed N] [--count N | --seconds S]`; a seed names an exchange. Those that are wrong
are printed. The exit code is 1 if there are any.
"""

from __future__ import annotations

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from proof.execution import Verdict
from proof.ragged import difference, ragged_case
from proof.seeds import parser_of, try_seeds


def main() -> int:
    def tried(seed: int) -> Verdict:
        why = difference(ragged_case(seed))
        return Verdict("wrong", why) if why else Verdict("right")

    def report(seed: int, why: str) -> None:
        print(f"// seed {seed}: {why}\n{ragged_case(seed).described()}", flush=True)

    return try_seeds(parser_of(__doc__).parse_args(), tried, report)


if __name__ == "__main__":
    sys.exit(main())

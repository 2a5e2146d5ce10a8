"""What partitioned models send, hold and compute on a device, beside what XLA's partitioners make of them.

Usage: `python benchmarks/quality.py [--only NAME,..] [--devices 8,64] [--rounds 15] [--options JSON] [--gpus]
[--markdown FILE] [--json FILE]`.

Every program is compiled by XLA for CPUs, ours after gspmd has partitioned it, and everything is counted in the
optimised HLO that comes out, in the same way. On 8 devices the three programs are called in turn, `--rounds` times.
With `--gpus` they are compiled for GPUs of the kind that this machine has one of, and not called.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import xla

OURS = "gspmd"
_MAX_TIMED = 8  # more virtual devices than that measure how the machine switches between threads


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; see `--help`. Returns 1 if ours sends more than a peer anywhere."""
    options = _parse(arguments)
    xla.prepare(max(options.devices), quiet=True, gpus=options.gpus)
    import compiled
    import models
    import report_quality

    found: list[compiled.Result] = []
    for devices in options.devices:
        chosen = compiled.gpus(devices) if options.gpus else compiled.virtual_devices(devices)
        for name, model in models.MODELS.items():
            if not any(part in name for part in options.only):
                continue
            programs = [
                compiled.Compiled(how, model.lower(devices, shardy=how != xla.GSPMD), chosen, options.options)
                for how in (OURS, xla.GSPMD, xla.SHARDY)
            ]
            results = [program.result(name) for program in programs]
            if options.rounds and devices <= _MAX_TIMED and not options.gpus:
                results = compiled.timed(programs, results, options.rounds)
            print("\n".join(report_quality.lines(results)), flush=True)
            found += results
    print("\n".join(report_quality.summary(found)))
    if options.markdown:
        Path(options.markdown).write_text(report_quality.page(found, chosen[0].device_kind if options.gpus else ""))
    if options.json:
        Path(options.json).write_text(json.dumps([result.to_dict() for result in found], indent=1) + "\n")
    return int(any(ratio > 1 + 1e-9 for ratio in report_quality.ratios(found, "bytes")))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    def counts(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--only", type=lambda t: t.split(","), default=[""], metavar="NAME,..", help="some models only")
    parser.add_argument("--devices", type=counts, default=[8, 64], help="8, 64 or both (8,64)")
    parser.add_argument("--rounds", type=int, default=15, help="timed calls on 8 virtual devices (15); 0 for none")
    parser.add_argument("--options", type=json.loads, metavar="JSON", help="options of gspmd's passes")
    parser.add_argument("--gpus", action="store_true", help="compile for GPUs of which this machine has one")
    parser.add_argument("--markdown", metavar="FILE", help="write the page of the documentation to FILE")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Completed shardings beside Shardy's and XLA's: value by value, with what each choice costs.

Usage: `python benchmarks/completion.py [--only NAME,..] [--totals | --markdown FILE]`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import xla

CORPUS = Path(__file__).parent / "corpus"


def main(arguments: list[str] | None = None) -> int:
    """Compare and print; see `--help`. Returns 1 if ours costs more than a peer's on any program."""
    options = _parse(arguments)
    xla.prepare(8)
    import corpus
    import report_completion
    from comparison import Comparer

    found = {}
    for name, text in corpus.programs(options.only.split(",")):
        comparer = Comparer(text)
        found[name] = [comparer.compare(*each, by_region=not options.totals) for each in comparer.peers()]
        print("\n".join(report_completion.lines(name, found[name])), flush=True)
    print("\n".join(report_completion.summary(found)))
    if options.markdown:
        Path(options.markdown).write_text(report_completion.page(found))
    return int(any(c.our_bytes > c.their_bytes for comparisons in found.values() for c in comparisons))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="NAME,..", help="programs with one of these in their names")
    either = parser.add_mutually_exclusive_group()  # the page shows regions
    either.add_argument("--totals", action="store_true", help="do not price every region in which completions differ")
    either.add_argument("--markdown", metavar="FILE", help="write the page of the documentation to FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

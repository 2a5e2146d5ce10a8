"""Writes all generated pages but the pictures: `python docs/generate.py`, or with names, such as `passes targets`.

With `--check` it writes nothing, and exits with 1 if a page is out of date. A page is a file `generate_NAME.py` here,
with its path `PAGE` and a function `NAME` that returns its text.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

NAMES = tuple(sorted(path.stem.removeprefix("generate_") for path in Path(__file__).parent.glob("generate_*.py")))


def page_of(name: str) -> tuple[Path, str]:
    """Where a generated page lies, and what it should say."""
    module = importlib.import_module(f"generate_{name}")
    page: Path = module.PAGE
    text: str = getattr(module, name)()
    return page, text


def main() -> int:
    """Exit code 1 if `--check` finds a page that is out of date."""
    parser = argparse.ArgumentParser(description="Write the generated pages.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"pages to write, by default all: {', '.join(NAMES)}")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is out of date")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown page '{unknown[0]}', expected one of {', '.join(NAMES)}")

    from gspmd.virtual_devices import request_devices

    request_devices("cpu", 8)  # the gallery traces its models on them
    stale = 0
    for name in args.names or NAMES:
        page, text = page_of(name)
        if page.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{page.name}: {'out of date' if args.check else 'written'}")
        if not args.check:
            page.write_text(text, encoding="utf-8")
    return int(args.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Cases of compiled programs, the one format that is not the same on every machine: it holds the machine's code."""

from __future__ import annotations

import functools
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from random import Random

from hostile import seed_inputs
from hostile.archives import bomb
from hostile.case import Case
from hostile.mutations import mutated_bytes, mutated_words
from hostile.wanted import Wanted

_ABOUT = ("{}", "[]", "null", "5", '"x"', "", "{", '{"target": 5}', '{"target": "cpu", "ids": [], "devices": 0}',
          "[" * 100_000, '{"target": "cpu", "ids": [0, 0], "devices": 2}',
          '{"target": "cpu", "ids": "01", "devices": 2}',
          '{"target": "tpu:v5p:1x1x1", "ids": [0], "devices": 1}',
          '{"target": "cpu", "ids": [99999999999], "devices": 1}')  # fmt: skip


@functools.cache
def good_compiled() -> bytes:
    """What gspmd compile writes on this machine for the good program: the one input that is not the same on all."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p.mlir").write_text(seed_inputs.GOOD)
        command = [sys.executable, "-P", "-m", "gspmd.tools.cli", "compile", "p.mlir", "--target", "cpu", "-o", "c"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "c").read_bytes()


def compiled(rng: Random, wanted: Wanted) -> Case:
    """A compiled program with changes. The code in it is the machine's."""
    command = rng.choice(wanted.among(("run", "run", "api.load")))
    good = good_compiled()
    kind = rng.random()
    if kind < 0.4:
        for _ in range(rng.choice((1, 1, 2, 3))):
            good = mutated_bytes(rng, good, good)
    else:
        good = _rezipped(rng, good, kind)
    return Case(command, ("c",), (("c", good),))


def _rezipped(rng: Random, good: bytes, kind: float) -> bytes:
    """Another archive, whose checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(good)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile:
        return mutated_bytes(rng, good, good)
    name = rng.choice(sorted(members))
    if kind < 0.5:
        return bomb(members, rng.choice((2**20, 2**33)))
    if kind < 0.75 and "about.json" in members:
        about = members["about.json"].decode()
        members["about.json"] = rng.choice((*_ABOUT, *[mutated_words(rng, about, about) for _ in range(10)])).encode()
    elif kind < 0.8:
        del members[name]
    else:
        members[name] = mutated_bytes(rng, members[name], members[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()

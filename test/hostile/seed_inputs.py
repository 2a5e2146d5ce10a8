"""Good inputs, from which hostile ones are made: the repository's programs, and what `Inputs` keeps of others."""

from __future__ import annotations

import functools
import re
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
INPUTS = _HERE / "Inputs"
_MAX_CHARACTERS = 6000
_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//(?! -----).*\n", re.MULTILINE)


@functools.cache
def programs() -> tuple[str, ...]:
    """MLIR texts: every part of every lit test, that of a page, and those that JAX and PyTorch made."""
    folders = (_ROOT / "test", _ROOT / "docs")
    paths = sorted(path for folder in folders for path in folder.rglob("*.mlir"))
    found = [part for path in paths for part in _SPLIT.split(path.read_text())]
    found += re.findall(r"```mlir\n(.*?)```", (_ROOT / "docs" / "command_line.md").read_text(), re.DOTALL)
    texts = [_COMMENT.sub("", text).strip() + "\n" for text in found]
    return tuple(dict.fromkeys(text for text in texts if "func" in text and len(text) <= 2 * _MAX_CHARACTERS))


@functools.cache
def small_programs() -> tuple[str, ...]:
    """Short ones that have a sharding and no loop, which XLA compiles at once."""
    fitting = (text for text in programs() if len(text) < 1500 and "@mesh" in text and "@main" in text)
    unfit = re.compile(r"while|sort|convolution|cholesky|triangular|RUN|gspmd\.mesh|rng|callback")
    return tuple(text for text in fitting if not unfit.search(text))


@functools.cache
def kept(suffix: str) -> tuple[bytes, ...]:
    """The kept files of a format."""
    folders = (INPUTS, _ROOT / "test" / "frameworks" / "Inputs", _ROOT / "test" / "cost" / "Inputs")
    return tuple(path.read_bytes() for folder in folders for path in sorted(folder.glob(f"*{suffix}")))


@functools.cache
def partitioned() -> tuple[str, ...]:
    """Modules that are partitioned already."""
    found = tuple(text for text in programs() if "gspmd.mesh" in text and "@main" in text)
    return (*found, (INPUTS / "partitioned.mlir").read_text())


GOOD = """\
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>,
                                                                     tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""
CALLING = """\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x4xf32> {
  %0 = stablehlo.custom_call @mine(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""

"""Run a program partitioned and on one device, and say what is wrong with the results."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

import gspmd
from gspmd.checks.comparison import compare_sharded, default_rtol
from gspmd.dialect.errors import Unsupported
from gspmd.runtime import executable as runtime
from proof.contents import fill
from proof.interpreter import interpreted
from proof.program import Program, Value

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """`right`, `refused` with a reason, `wrong`; `reference` if the program does not run on one device.

    `judged` where XLA on one device was found wrong by the interpreter of StableHLO, which agrees with us.
    """

    kind: str
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What programs are partitioned with."""

    list_groups_up_to: int = 64


USUAL = Options()
RIGHT = Verdict("right")
JUDGED = Verdict("judged")


def inputs_of(program: Program, seed: int) -> list[Array]:
    """The arguments of a run; each depends on its type, its content, and the number in its name."""
    return [
        fill(a.value.shape, a.value.element, a.content, seed * 1000 + int(re.findall(r"\d+", a.value.name)[-1]))
        for a in program.arguments
    ]


def verdicts(
    program: Program, inputs: Sequence[Array], expected: Sequence[Array] | None = None, options: Options = USUAL
) -> list[Verdict]:
    """One for each result. `expected`, where it is known, is what one device computes."""
    text = str(program)
    values = [value for value, _ in program.results]
    try:
        actual = partitioned(text, inputs, options)
    except Unsupported as error:
        return [Verdict("refused", f"{error.op or ''}: {error.message}")] * len(values)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        if isinstance(error, gspmd.Error):
            return [Verdict("wrong", f"{type(error).__name__}: {error}")] * len(values)
        return [Verdict("wrong", traceback.format_exc(limit=-3))] * len(values)
    if expected is None:
        try:
            expected = on_one_device(text, inputs)
        except gspmd.Error as error:
            return [Verdict("reference", str(error))] * len(values)
    found = [_difference(value, e, a) for value, e, a in zip(values, expected, actual, strict=True)]
    if any(found):
        with contextlib.suppress(Exception):  # the interpreter does not know every operation
            judge = interpreted(text, inputs)
            again = [_difference(value, e, a) for value, e, a in zip(values, judge, actual, strict=True)]
            return [
                RIGHT if not first else Verdict("wrong", first) if second else JUDGED
                for first, second in zip(found, again, strict=True)
            ]
    return [Verdict("wrong", why) if why else RIGHT for why in found]


def partitioned(text: str, inputs: Sequence[Array], options: Options) -> Sequence[runtime.ShardedArray]:
    """What the devices compute, with the worst in the padding of what is uneven."""
    product = gspmd.partition(text, options=dataclasses.asdict(options))
    return [r.block_until_ready() for r in runtime.compile(product, padding="nan")(*inputs)]


def on_one_device(text: str, inputs: Sequence[Array]) -> list[Array]:
    """What XLA computes of the program without its annotations."""
    return [result.to_numpy() for result in runtime.compile_single(text)(*inputs)]


def _difference(value: Value, expected: Array, actual: runtime.ShardedArray) -> str:
    """What is wrong with a result, "" if nothing: whole numbers have to be exact, every copy of them."""
    found = compare_sharded(expected, actual)
    tolerance = 0.0 if value.exact else default_rtol(expected.dtype) * found.scale
    if found.mismatch:
        return found.mismatch
    if not found.max_abs_error <= tolerance:
        return f"error {found.max_abs_error:.3g} exceeds the tolerance {tolerance:.3g}"
    return ""

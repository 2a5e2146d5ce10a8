"""The second text of the paper's decoder: it computes what one device computes, and is one of the paper's rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import pytest

import gspmd
from gspmd.examples.common.running import lowered

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def second_text(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import second_text

    yield second_text
    sys.modules.pop("second_text", None)


def test_steps_give_the_loss_of_one_device(second_text: Any) -> None:
    sizes = second_text.Sizes(2, 256, 4, 32, 512, 256, 32, 8, gated=True)
    program = second_text.program(sizes)
    step = lowered(program, {"x": 2, "y": 2}).compile()
    one_device = jax.make_mesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    state, expected = program.init(), program.init()
    for index in range(2):
        state, found = step(state, program.batch(index))
        with jax.set_mesh(one_device):
            expected, metrics = jax.jit(program.step)(expected, program.batch(index))
        assert float(found["loss"]) == pytest.approx(float(metrics["loss"]), rel=2e-2)


def test_what_is_annotated_as_gathered_is_gathered_once(second_text: Any) -> None:
    sizes = second_text.Sizes(4, 512, 8, 64, 2048, 512, 128, 8)
    program = lowered(second_text.program(sizes), {"x": 4, "y": 4}).program
    found = gspmd.partition(program, options={"constraints": "bind"}).collectives
    whole = 8 // 4 * 128 * 512 // 4 * 2  # bytes of a shard of the residual stream
    gathers = [c for c in found if c.kind == "all_gather" and c.axes == '"y"' and (c.count or 1) == sizes.layers]
    assert all(c.bytes == 3 * whole for c in gathers)
    assert len(gathers) == 6  # two in the forward pass, these again and those of two gradients in the backward pass

"""Where one annotation of a program is taken away, `suggest` finds it again, or another one that is as good."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.costs.outcome import FIGURES, Outcome

TARGET = "tpu-v5p"


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """A function of arguments, how these are annotated, and the one annotation that is taken away.

    `taken` is the number of the argument that loses its annotation; None where the function is called with False for
    its last argument and leaves a constraint out.
    """

    mesh: dict[str, int]
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    specs: tuple[P | None, ...]
    taken: int | None
    save: str = "time"

    def lowered(self, whole: bool) -> Any:
        specs = [None if not whole and number == self.taken else spec for number, spec in enumerate(self.specs)]
        values = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in self.shapes]

        def function(*args: Any) -> Any:
            return self.function(*args) if self.taken is not None else self.function(*args, whole)

        return gspmd.jit(function, mesh=self.mesh, in_shardings=tuple(specs), target=TARGET).lower(*values)


def perceptron(x: Any, up: Any, down: Any) -> Any:
    return jax.nn.relu(x @ up) @ down


def attention(x: Any, query: Any, key: Any, value: Any, out: Any) -> Any:
    heads = [jnp.einsum("bsd,dhk->bshk", x, weight) for weight in (query, key, value)]
    weights = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", heads[0], heads[1]))
    return jnp.einsum("bhst,bthk,hkd->bsd", weights, heads[2], out)


def experts(x: Any, gates: Any, up: Any, down: Any, constrained: bool) -> Any:
    """Every expert for a part of the tokens, which are sent to where it is."""
    shares = jax.nn.softmax(jnp.einsum("gsd,de->gse", x, gates))
    chosen = jnp.einsum("gse,gsd->egsd", shares, x)[:, :, ::8]
    if constrained:
        chosen = jax.lax.with_sharding_constraint(chosen, P("x", None, None, None))
    hidden = jax.nn.relu(jnp.einsum("egsd,edf->egsf", chosen, up))
    return jnp.einsum("egsf,efd->gsd", hidden, down)


def image(pixels: Any, first: Any, second: Any) -> Any:
    def convolved(value: Any, window: Any) -> Any:
        return jax.lax.conv_general_dilated(value, window, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return convolved(jax.nn.relu(convolved(pixels, first)), second)


def gradients(x: Any, up: Any, down: Any) -> Any:
    return jax.grad(lambda weights: jnp.sum(perceptron(x, *weights).astype(jnp.float32) ** 2))((up, down))


D, F = 2048, 8192
REMOVALS = {
    "batch": Removal({"data": 8}, perceptron, ((8192, D), (D, F), (F, D)), (P("data"), P(), P()), 0),
    "hidden": Removal(
        {"data": 2, "model": 4},
        perceptron,
        ((4096, D), (D, F), (F, D)),
        (P("data", None), P(None, "model"), None),
        1,
    ),
    "heads": Removal(
        {"data": 2, "model": 4},
        attention,
        ((8, 1024, D), (D, 16, 128), (D, 16, 128), (D, 16, 128), (16, 128, D)),
        (P("data"), P(None, "model"), None, None, None),
        1,
    ),
    "experts": Removal(
        {"x": 8},
        experts,
        ((8, 1024, D), (D, 8), (8, D, F), (8, F, D)),
        (P("x"), None, None, None),
        None,
        "memory",
    ),
    "image": Removal(
        {"x": 8},
        image,
        ((4, 256, 256, 64), (3, 3, 64, 128), (3, 3, 128, 64)),
        (P(None, "x"), None, None),
        0,
    ),
    "gradients": Removal(
        {"data": 4, "model": 2},
        gradients,
        ((8192, D), (D, F), (F, D)),
        (P("data"), P(None, "model"), P("model")),
        0,
    ),
    "weights in memory": Removal(
        {"data": 8}, gradients, ((8192, D), (D, F), (F, D)), (P("data"), P("data"), P("data")), 1, "memory"
    ),
}


UNNEEDED = ("hidden", "heads", "experts")
"""What is decided without them is as good."""


@pytest.mark.parametrize("name", UNNEEDED)
def test_what_is_decided_without_it_is_as_good(name: str) -> None:
    whole, without = (REMOVALS[name].lowered(is_whole).cost() for is_whole in (True, False))
    assert without.timeline.total_s <= whole.timeline.total_s * 1.001


@pytest.mark.parametrize("name", [name for name in REMOVALS if name not in UNNEEDED])
def test_it_is_found_again_or_a_cheaper_one(name: str) -> None:
    removal = REMOVALS[name]
    whole = removal.lowered(True).cost()
    found = removal.lowered(False).suggest(save=removal.save, time_limit_s=600)
    wanted = Outcome(whole.sent_bytes, whole.timeline.total_s, whole.memory.peak)
    figure = FIGURES[removal.save]
    assert figure(found.before)[0] > figure(wanted)[0] * 1.001, "nothing was lost with the annotation"
    assert found.found
    assert figure(found.found[0].outcome)[0] <= figure(wanted)[0] * 1.001

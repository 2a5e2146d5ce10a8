"""A mixture of experts that drops no token: tokens travel to their experts and back in ragged all-to-alls."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import gspmd

P = PartitionSpec
TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 32, 8, 12, 8, 2
RNG = np.random.default_rng(7)


def dense(weights: Any, tokens: Any) -> Any:
    """Every expert computes every token, of which each counts what was chosen for it."""
    scores, choice = routed(weights, tokens)
    hidden = jax.nn.relu(jnp.einsum("td,edh->teh", tokens, weights["up"]))
    out = jnp.einsum("teh,ehd->ted", hidden, weights["down"])
    picked = jnp.take_along_axis(out, choice[..., None], 1)
    return jnp.einsum("tk,tkd->td", scores, picked)


def routed(weights: Any, tokens: Any) -> tuple[Any, Any]:
    scores, choice = jax.lax.top_k(tokens @ weights["router"], CHOSEN)
    return jax.nn.softmax(scores, -1), choice


def dropless(weights: Any, tokens: Any) -> Any:
    """The same on one device of the axis `expert`, which holds some of the experts and of the tokens."""
    peers, own = jax.lax.axis_size("expert"), weights["up"].shape[0]
    scores, choice = routed(weights, tokens)
    order = jnp.argsort(choice.reshape(-1), stable=True)
    sent = tokens[order // CHOSEN]
    counts = jnp.bincount(choice.reshape(-1), length=EXPERTS)
    every = jax.lax.all_gather(counts, "expert")  # [sender, expert]
    me = jax.lax.axis_index("expert")
    # Receivers keep tokens by expert, and of each expert those of one sender after the other.
    by_receiver = every.reshape(peers, peers, own).transpose(1, 2, 0)  # [receiver, its expert, sender]
    places = (jnp.cumsum(by_receiver.reshape(peers, -1), 1) - by_receiver.reshape(peers, -1)).reshape(by_receiver.shape)
    starts = jnp.cumsum(counts) - counts
    received = by_receiver[me].T.reshape(-1)  # [sender, expert]
    buffer = jnp.zeros((peers * sent.shape[0], tokens.shape[1]), tokens.dtype)
    arrived = jax.lax.ragged_all_to_all(
        sent, buffer, starts, counts, places[..., me].reshape(-1), received, axis_name="expert"
    )
    sizes = by_receiver[me].sum(1)
    hidden = jax.nn.relu(jax.lax.ragged_dot(arrived, weights["up"], sizes))
    out = jax.lax.ragged_dot(hidden, weights["down"], sizes)
    # Back: what came from a sender goes to where that one had it.
    senders_starts = (jnp.cumsum(every, 1) - every).reshape(peers, peers, own)[:, me].reshape(-1)
    back = jax.lax.ragged_all_to_all(
        out, jnp.zeros_like(sent), places[me].T.reshape(-1), received, senders_starts, counts, axis_name="expert"
    )
    each = jnp.zeros_like(back).at[order].set(back).reshape(*choice.shape, -1)
    return jnp.einsum("tk,tkd->td", scores, each)


def problem(skewed: bool) -> tuple[dict[str, Any], Any]:
    router = RNG.normal(size=(WIDTH, EXPERTS)).astype(np.float32)
    if skewed:  # all tokens to two experts of one device
        router[:, 2:] = 0
        router[:, :2] = 0
    weights = {
        "router": router,
        "up": RNG.normal(size=(EXPERTS, WIDTH, HIDDEN)).astype(np.float32),
        "down": RNG.normal(size=(EXPERTS, HIDDEN, WIDTH)).astype(np.float32),
    }
    return weights, RNG.normal(size=(TOKENS, WIDTH)).astype(np.float32)


def mesh_of(sizes: tuple[int, int]) -> Mesh:
    return Mesh(
        np.array(jax.devices()[: sizes[0] * sizes[1]]).reshape(sizes),
        ("expert", "tensor"),
        axis_types=(AxisType.Auto,) * 2,
    )


def layer(mesh: Mesh) -> Any:
    specs = {"router": P(), "up": P("expert"), "down": P("expert")}
    return jax.shard_map(
        dropless,
        mesh=mesh,
        in_specs=(specs, P("expert")),
        out_specs=P("expert"),
        axis_names={"expert"},
        check_vma=False,
    )


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("sizes", [(4, 2), (2, 4), (8, 1)])
def test_it_is_the_dense_layer(sizes: tuple[int, int], skewed: bool) -> None:
    """Forward and backward, with the hidden dimension split along a free axis."""
    weights, tokens = problem(skewed)
    mesh = mesh_of(sizes)
    placed = {
        "router": NamedSharding(mesh, P()),
        "up": NamedSharding(mesh, P("expert", None, "tensor")),
        "down": NamedSharding(mesh, P("expert", "tensor")),
    }
    sharded = layer(mesh)

    def loss(apply: Any, weights: Any, tokens: Any) -> Any:
        out = apply(weights, tokens)
        return (out**2).mean(), out

    step = gspmd.jit(
        jax.value_and_grad(lambda w, t: loss(sharded, w, t), (0, 1), has_aux=True),
        mesh=mesh,
        in_shardings=(placed, NamedSharding(mesh, P("expert"))),
    )
    expected = jax.value_and_grad(lambda w, t: loss(dense, w, t), (0, 1), has_aux=True)(weights, tokens)
    for found, wanted in zip(jax.tree.leaves(step(weights, tokens)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)


def test_it_is_checked_and_its_exchanges_are_counted() -> None:
    weights, tokens = problem(skewed=False)
    mesh = mesh_of((4, 2))
    lowered = jax.jit(layer(mesh)).lower(weights, tokens)
    assert gspmd.check(lowered).passed
    ragged = [c for c in gspmd.partition(lowered).collectives if c.kind == "ragged_all_to_all"]
    there, back = ragged
    assert (there.axes, back.axes) == ('"expert"',) * 2
    assert there.at_most
    assert back.at_most
    tokens_sent = TOKENS // 4 * CHOSEN
    assert there.bytes == back.bytes == tokens_sent * WIDTH * 4


def test_it_is_compared_with_what_xla_makes_of_it() -> None:
    """Which cannot run it on CPUs either, and gets the same exchanges of equal shares."""
    weights, tokens = problem(skewed=False)
    lowered = jax.jit(layer(mesh_of((4, 2)))).lower(weights, tokens)
    ours, of_gspmd, of_shardy = gspmd.compare(lowered).opinions
    assert ours.results is not None
    assert ours.results.passed
    assert of_shardy.results is not None
    assert of_shardy.results.passed
    assert "has no form that GSPMD reads" in of_gspmd.failure

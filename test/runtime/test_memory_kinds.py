"""Values in the memory of hosts: carried through all stages, placed there when run, and priced apart."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compute_on import compute_on
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gspmd

P = PartitionSpec
HOST, DEVICE = jax.memory.Space.Host, jax.memory.Space.Device
X = jax.ShapeDtypeStruct((16, 8), jnp.float32)


def _on(spec: P, kind: str | None = None) -> NamedSharding:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
    return NamedSharding(mesh, spec, memory_kind=kind)


def _update(p: Any, s: Any, g: Any) -> tuple[Any, Any]:
    """A step of an optimiser whose state is offloaded."""
    s = jax.device_put(s, DEVICE) * 0.5 + g
    return p - s, jax.device_put(s, HOST)


def _on_host(a: Any) -> Any:
    a = jax.device_put(a * 2, HOST)
    with compute_on("device_host"):
        a = jnp.sin(a) * 2
    return jax.device_put(a, DEVICE) + 1


PROGRAMS: dict[str, tuple[Any, int, Any, Any]] = {
    "offloaded state": (
        _update,
        3,
        (_on(P("x")), _on(P("x", "y"), "pinned_host"), _on(P("x"))),
        (_on(P("x")), _on(P("x", "y"), "pinned_host")),
    ),
    "from a host": (lambda a: jax.device_put(a, DEVICE) * 2, 1, (_on(P("x"), "pinned_host"),), _on(P("y"))),
    "to a host": (lambda a: jax.device_put(a * 2, HOST), 1, (_on(P("x")),), _on(P(None, "x"), "pinned_host")),
    "unpinned": (lambda a: a * 2, 1, (_on(P("x")),), _on(P("x"), "unpinned_host")),
    "computed there": (_on_host, 1, (_on(P("x")),), _on(P("x"))),
    "to both": (
        lambda a: (jax.device_put(a, HOST), a + 1),
        1,
        (_on(P("x")),),
        (_on(P("x"), "pinned_host"), _on(P("x"))),
    ),
}


def _text(name: str, platform: str) -> str:
    function, count, ins, outs = PROGRAMS[name]
    traced = jax.jit(function, in_shardings=ins, out_shardings=outs).trace(*[X] * count)
    return str(traced.lower(lowering_platforms=(platform,)).as_text())


def _kinds(text: str) -> list[str]:
    return re.findall(r'(?:mhlo\.memory_kind|_xla_buffer_placement|_xla_compute_type) = "(\w+)"', text)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_said_stays(name: str, platform: str) -> None:
    text = _text(name, platform)
    module = gspmd.partition(text).module_text
    assert set(_kinds(module)) == set(_kinds(text))
    signature = [
        re.findall(r'memory_kind = "(\w+)"', line) for t in (text, module) for line in t.split("\n") if "@main" in line
    ]
    assert signature[0] == signature[1]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "unpinned"])
def test_results_lie_where_they_are_wanted(name: str) -> None:
    """Also when they go in again, as numpy arrays and as arrays of JAX there and elsewhere."""
    function, count, ins, outs = PROGRAMS[name]
    text = _text(name, "cpu")
    assert gspmd.check(text).passed
    step = gspmd.compile(gspmd.partition(text))
    values = [np.random.default_rng(i).random((16, 8), np.float32) for i in range(count)]
    wanted = [s.memory_kind for s in jax.tree.leaves(outs)]
    expected = [np.asarray(v) for v in jax.tree.leaves(jax.jit(function)(*values))]
    placed = [jax.device_put(v, s) for v, s in zip(values, ins, strict=True)]
    elsewhere = [jax.device_put(v, _on(P(None, "y"))) for v in values]
    for arguments in (values, placed, elsewhere):
        results = step(*arguments)
        for result, kind, want in zip(results, wanted, expected, strict=True):
            assert {b.sharding.memory_kind for b in result.buffers.values()} == {kind or "device"}
            np.testing.assert_allclose(np.asarray(result), want, rtol=1e-6)
            assert result.to_jax().sharding.memory_kind == (kind or "device")
    if name == "offloaded state":
        again = step(results[0], results[1], values[2])
        assert {b.sharding.memory_kind for b in again[1].buffers.values()} == {"pinned_host"}


def test_a_memory_that_devices_do_not_have() -> None:
    text = _text("to a host", "cpu").replace("pinned_host", "far_host")
    with pytest.raises(gspmd.Error, match=r"results in memory 'far_host', but devices as .* have .*pinned_host"):
        gspmd.compile(gspmd.partition(text))


def test_host_memory_is_priced_apart() -> None:
    memory = gspmd.cost(_text("offloaded state", "tpu")).memory
    shard, state = 4 * 8 * 4, 4 * 4 * 4
    assert memory.arguments == 2 * shard
    assert memory.results == shard
    assert memory.host >= 2 * state
    plain = gspmd.cost(_text("offloaded state", "tpu").replace("pinned_host", "device")).memory
    assert plain.host == 0
    assert plain.arguments == 2 * shard + state


def test_a_host_does_not_ask_other_devices() -> None:
    """What it computes stays marked; a shift along a split dimension cannot be its work."""

    def shifted(a: Any) -> Any:
        a = jax.device_put(a, HOST)
        with compute_on("device_host"):
            a = jnp.pad(a, ((1, 0), (0, 0)))[:-1]
        return jax.device_put(a, DEVICE)

    traced = jax.jit(shifted, in_shardings=_on(P("x")), out_shardings=_on(P("x"))).trace(X)
    with pytest.raises(
        gspmd.Error, match=r"test_memory_kinds.py:\d+:\d+: error: .* is computed by the host, on parts that"
    ):
        gspmd.partition(traced.lower(lowering_platforms=("tpu",)).as_text(debug_info=True))

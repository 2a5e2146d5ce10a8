"""One JAX function, lowered with every family of annotations, ingests to one and the same module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import gspmd
from gspmd.examples import decoder_lm
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.parsing.mlir import new_context

P = PartitionSpec
FAMILIES = ("sdy", "gspmd", "sdy-hlo", "gspmd-hlo")


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    jax.config.update("jax_use_shardy_partitioner", True)


def ingested(lower: Callable[[], Any], family: str) -> str:
    """The module, with the axes' names of the mesh, after lowering with one family's annotations."""
    jax.config.update("jax_use_shardy_partitioner", family.startswith("sdy"))
    jax.clear_caches()
    lowered = lower()
    source = lowered.compiler_ir("hlo").as_hlo_text() if family.endswith("hlo") else lowered
    module = read_program(source, new_context())
    PassManager([Ingest()]).run(module)
    assert module.operation.verify()
    text = str(module)
    assert not re.search(r"mhlo\.sharding|xla\.sdy|@Sharding|SPMD|call @(?!foo)|func\.func private", text)
    return text.replace('"axis_0"', '"x"').replace('"axis_1"', '"y"')


def shape_of(text: str, of_hlo: bool) -> list[str]:
    """What is said, in order: one line an annotation, operands' names left out.

    HLO has no word for open results, so results of @main are compared only between modules that were not HLO.
    """
    lines = []
    for line in text.splitlines():
        if "func.func" in line:
            signature = re.sub(r"%\w+: ", "", line)
            arguments, _, results = signature.partition(" -> ")
            found = re.findall(r"#sdy\.sharding<[^#]*>(?=[,}])", arguments if of_hlo else arguments + results)
            lines.append(" ".join(found))
        elif "sdy." in line:
            lines.append(re.sub(r"[%#][\w#]+(?:\w|:\d+)*", "", line).split("stablehlo.mesh")[0].strip(" {"))
    return lines


def constrained(mesh: Mesh) -> Any:
    def inner(z: Any) -> Any:
        return jnp.sin(jax.lax.with_sharding_constraint(z, NamedSharding(mesh, P("y", "x"))))

    def f(a: Any, b: Any) -> Any:
        c = jnp.tanh(a @ b)
        c = jax.lax.with_sharding_constraint(c, NamedSharding(mesh, P("x", P.UNCONSTRAINED)))
        c = jax.lax.with_sharding_constraint(c, NamedSharding(mesh, P(("x", "y"), None)))
        nested = jax.jit(inner, in_shardings=NamedSharding(mesh, P("x", "y")))
        return nested(nested(c))

    spec = NamedSharding(mesh, P("x", "y"))
    jitted = jax.jit(f, in_shardings=(spec, None), out_shardings=NamedSharding(mesh, P("x")))
    return jitted.lower(jnp.ones((16, 8)), jnp.ones((8, 16)))


def partly_manual(mesh: Mesh) -> Any:
    def f(a: Any, b: Any) -> Any:
        body = jax.shard_map(
            lambda p, q: (jax.lax.psum(p, "x"), jnp.tanh(q)),
            mesh=mesh,
            in_specs=(P("x", None), P(None, "x")),
            out_specs=(P(None, None), P(None, "x")),
            axis_names={"x"},
        )
        return body(jnp.sin(a), b)

    return jax.jit(f, in_shardings=NamedSharding(mesh, P("x", "y"))).lower(jnp.ones((8, 4)), jnp.ones((8, 4)))


def fully_manual(mesh: Mesh) -> Any:
    def f(a: Any) -> Any:
        body = jax.shard_map(
            lambda p: jax.lax.ppermute(p, "x", [(0, 1), (1, 2), (2, 3), (3, 0)]),
            mesh=mesh,
            in_specs=P("x", "y"),
            out_specs=P("x", "y"),
        )
        return body(jnp.sin(a))

    return jax.jit(f, in_shardings=NamedSharding(mesh, P("x", "y"))).lower(jnp.ones((8, 4)))


def nested_manual(mesh: Mesh) -> Any:
    def inner(p: Any) -> Any:
        return jax.lax.psum(p, "y") * 2

    def outer(p: Any) -> Any:
        nested = jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(None, None), axis_names={"y"})
        return jnp.sin(nested(jnp.cos(p)))

    def f(a: Any) -> Any:
        return jax.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(a)

    return jax.jit(f).lower(jnp.ones((8, 4)))


def in_a_loop(mesh: Mesh) -> Any:
    def step(carry: Any, x: Any) -> Any:
        carry = jax.lax.with_sharding_constraint(carry @ x, NamedSharding(mesh, P("x", "y")))
        return carry, jnp.sum(carry)

    def f(a: Any, xs: Any) -> Any:
        return jax.lax.scan(step, a, xs)

    sharding = NamedSharding(mesh, P("x"))
    return jax.jit(f, in_shardings=(sharding, None)).lower(jnp.ones((8, 4)), jnp.ones((3, 4, 4)))


def annotated(mesh: Mesh) -> Any:
    def f(a: Any, b: Any) -> Any:
        c = gspmd.annotate(jnp.tanh(a @ b), "x", gspmd.UNSPECIFIED, mesh=mesh)
        return gspmd.mesh_split(jnp.sin(c), mesh, [-1, (1, 0)])

    return jax.jit(f, in_shardings=NamedSharding(mesh, P("y"))).lower(jnp.ones((8, 8)), jnp.ones((8, 8)))


EXAMPLES = [constrained, annotated, partly_manual, fully_manual, nested_manual, in_a_loop]


@pytest.mark.parametrize("example", EXAMPLES)
def test_families_agree(example: Callable[[Mesh], Any], mesh: Mesh) -> None:
    texts = {family: ingested(lambda: example(mesh), family) for family in FAMILIES}
    plain = shape_of(texts["sdy"], of_hlo=False)
    assert any("sdy.sharding_constraint" in line or "manual_axes" in line for line in plain)
    assert shape_of(texts["gspmd"], of_hlo=False) == plain
    for family in ("sdy-hlo", "gspmd-hlo"):
        assert shape_of(texts[family], of_hlo=True) == shape_of(texts["sdy"], of_hlo=True)


def test_annotations_are_written_as_jax_writes_its_own(mesh: Mesh) -> None:
    jax.config.update("jax_use_shardy_partitioner", True)
    text = annotated(mesh).as_text()
    assert 'sdy.sharding_constraint %1 <@mesh, [{"x"}, {?}]>' in text
    assert 'sdy.sharding_constraint %3 <@mesh, [{}, {"y", "x"}]>' in text
    assert "@Sharding" not in text
    jax.config.update("jax_use_shardy_partitioner", False)
    jax.clear_caches()
    text = annotated(mesh).as_text()
    one, other = (line for line in text.splitlines() if "@Sharding" in line)
    assert 'backend_config = "unspecified_dims=[1]"' in one
    assert 'mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"' in one
    assert 'mhlo.sharding = "{devices=[1,8]<=[4,2]T(1,0)}"' in other
    assert "sdy" not in text


@pytest.mark.parametrize("recipe", ["2d", "dp", "fsdp", "tp"])
@pytest.mark.parametrize("scan", [False, True])
def test_families_agree_on_a_train_step(recipe: str, scan: bool, mesh: Mesh) -> None:
    config = decoder_lm.Config(layers=2, recipe=recipe, scan=scan)
    constraints = []
    for family in ("sdy", "gspmd"):
        text = ingested(lambda: decoder_lm.lower(config, mesh), family)
        constraints.append([line for line in shape_of(text, of_hlo=True) if "sharding_constraint" in line])
    assert constraints[0] == constraints[1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("example", EXAMPLES)
def test_ingested_modules_stay_as_they_are(example: Callable[[Mesh], Any], family: str, mesh: Mesh) -> None:
    text = ingested(lambda: example(mesh), family)
    module = read_program(text, new_context())
    PassManager([Ingest()]).run(module)
    assert str(module) == text


@pytest.mark.parametrize("family", FAMILIES)
def test_shard_alike(family: str) -> None:
    # JAX 0.12 has dropped it.
    shard_alike = pytest.importorskip("jax.experimental.shard_alike").shard_alike
    text = ingested(lambda: jax.jit(shard_alike).lower(jnp.ones(4), jnp.ones(4)), family)
    groups = re.findall(r"sdy.sharding_group %(arg\d) group_id=(\d+)", text)
    assert [name for name, _ in groups] == ["arg0", "arg1"]
    assert groups[0][1] == groups[1][1]


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_the_original(family: str, mesh: Mesh) -> None:
    """The ingested module still computes the same: run by StableHLO's interpreter."""

    def f(a: Any, b: Any) -> Any:
        g = jax.jit(lambda z: jax.lax.with_sharding_constraint(z * 2 + 1, NamedSharding(mesh, P("x"))))
        return g(g(a) @ b), jax.lax.fori_loop(0, 3, lambda i, c: g(c) + i, b)

    a, b = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(16, dtype=np.float32).reshape(4, 4)
    text = ingested(lambda: jax.jit(f).lower(a, b), family)
    plain = re.sub(r"sdy\.sharding_constraint (%\S+) <.*?> :", r"stablehlo.optimization_barrier \1 :", text)
    module = read_program(plain, new_context())
    with module.context:
        results = stablehlo.eval_module(module, [ir.DenseElementsAttr.get(x) for x in (a, b)])
    expected = f(a, b)
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.array(result), want, rtol=1e-6)

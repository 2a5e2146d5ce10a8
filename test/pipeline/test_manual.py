"""Programs with manual computations, groups, barriers and custom calls: partitioned, they give the same results.

A manual computation has no meaning on one device, so XLA's partitioner on all of them is the reference there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gspmd

P = PartitionSpec
MESH = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
CUBE = Mesh(np.array(jax.devices()[:8]).reshape(2, 2, 2), ("x", "y", "z"))
LINE = Mesh(np.array(jax.devices()[:8]).reshape(8, 1), ("x", "y"))
A = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def shard_alike(a: Any, b: Any) -> Any:
    """JAX's, which 0.12 has dropped."""
    return pytest.importorskip("jax.experimental.shard_alike").shard_alike(a, b)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    jax.config.update("jax_use_shardy_partitioner", True)


def on(value: Any, *spec: Any, mesh: Mesh = MESH) -> Any:
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*spec)))


def inside(value: Any, *spec: Any) -> Any:
    """A constraint in a manual computation, over its free axes."""
    return jax.lax.with_sharding_constraint(value, P(*spec))


def manual(body: Callable[..., Any], in_specs: Any, out_specs: Any, *names: str, mesh: Mesh | None = MESH) -> Any:
    """`shard_map` over the named axes, over all if none is named."""
    return jax.shard_map(
        body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=set(names), check_vma=False
    )


def shift(count: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % count) for i in range(count)]


def everything(a: Any) -> Any:
    """All collectives along both axes, none of them free."""

    def body(x: Any) -> Any:
        place = jax.lax.axis_index("x") + 2 * jax.lax.axis_index("y") + 3 * jax.lax.axis_index(("x", "y"))
        gathered = jax.lax.all_gather(x, "y", axis=0, tiled=True)
        scattered = jax.lax.psum_scatter(gathered, "y", scatter_dimension=0, tiled=True)
        moved = jax.lax.ppermute(x, "y", shift(4)) * place.astype(x.dtype)
        turned = jax.lax.all_to_all(x, "y", split_axis=1, concat_axis=0, tiled=True)
        return jax.lax.psum(x, "x") + moved + scattered + jax.lax.pmax(x, ("x", "y")), turned

    return manual(body, P("x", "y"), (P("x", "y"), P("x", "y")))(a)


def one_axis(a: Any) -> Any:
    """All collectives along one axis; the other one is free and splits what it can."""

    def body(x: Any) -> Any:
        x = inside(x, None, "y")
        gathered = jax.lax.all_gather(jnp.sin(x), "x", axis=0, tiled=True)
        scattered = jax.lax.psum_scatter(gathered, "x", scatter_dimension=0, tiled=True)
        moved = jax.lax.ppermute(x, "x", shift(2)) * jax.lax.axis_index("x").astype(x.dtype)
        turned = jax.lax.all_to_all(x, "x", split_axis=1, concat_axis=0, tiled=True)
        return jax.lax.psum(x, "x") + moved + scattered, turned, inside(x @ x.T, None, "y")

    return manual(body, P("x"), (P("x"), P("x"), P("x")), "x")(a)


def within_constraints(a: Any) -> Any:
    """The values around the computation are split another way than it takes and gives them."""
    return on(one_axis(on(a @ a, "y", "x"))[0] * 2, "x", "y")


def gathered_at_the_door(a: Any) -> Any:
    """The computation takes the whole operand, which is split outside, and keeps this device's part."""

    def body(x: Any) -> Any:
        return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index("x") * 8, 8) * 2

    return manual(body, P(), P("x"), "x")(on(a, "x", "y"))


def uneven(a: Any) -> Any:
    """Parts of 6 rows over 4 devices: inside they are padded, at the boundary they cannot be."""

    def body(x: Any) -> Any:
        x = inside(jnp.sin(x), "y")
        return x + jax.lax.psum(x, "x"), x.sum(0)

    return manual(body, P("x"), (P("x"), P("x")), "x")(a[:12, :5])


def nested(a: Any) -> Any:
    def inner(x: Any) -> Any:
        weight = 1.0 + jax.lax.axis_index("y").astype(x.dtype)
        return jax.lax.psum(x * weight, "y") + jax.lax.axis_index("x")

    def body(x: Any) -> Any:
        return manual(inner, P(None, "y"), P(None, None), "y", mesh=None)(jnp.sin(x)) * 2

    return manual(body, P("x"), P("x"), "x")(a)


def nested_with_a_free_axis(a: Any) -> Any:
    def inner(x: Any) -> Any:
        x = inside(x, "z")
        return jax.lax.psum(x @ x.T, "y")

    def body(x: Any) -> Any:
        x = inside(jnp.sin(x), None, ("y", "z"))
        return manual(inner, P(None, "y"), P(None, None), "y", mesh=None)(x) * 2

    return manual(body, P("x"), P("x"), "x", mesh=CUBE)(on(a * 2, "z", "x", mesh=CUBE))


def in_a_loop(a: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        both = one_axis(carry)[0] + everything(carry)[0]
        return jnp.tanh(both), both.sum()

    return jax.lax.scan(step, a, None, length=3)


def with_a_loop(a: Any) -> Any:
    def body(x: Any) -> Any:
        weights = jnp.ones((16, 16), x.dtype) * 0.01

        def step(carry: Any, _: Any) -> Any:
            carry = inside(carry, None, "y")
            return jnp.tanh(carry @ weights + jax.lax.psum(carry, "x")), jax.lax.pmean(carry.mean(), "x")

        return jax.lax.scan(step, x, None, length=3)

    return manual(body, P("x"), (P("x"), P()), "x")(a)


def pipelined(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 4, lambda _, c: jax.lax.ppermute(jnp.tanh(c), "x", shift(2)), x)

    return manual(body, P("x"), P("x"), "x")(on(a, None, "y"))


def differentiated(a: Any) -> Any:
    def loss(w: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            hidden = jnp.tanh(inside(x, None, "y") @ w)
            return jax.lax.psum((hidden * hidden).sum(), "x")

        return manual(body, (P("x"), P()), P(), "x")(a, w)

    return jax.grad(loss)(jnp.ones((16, 8), a.dtype) * 0.01)


def in_groups(a: Any) -> Any:
    """Collectives within parts of an axis, and a permute that some devices take no part in."""

    def body(x: Any) -> Any:
        return jax.lax.psum(x, "y", axis_index_groups=[[0, 1], [2, 3]]) + jax.lax.ppermute(x, "y", [(0, 1), (1, 3)])

    return manual(body, P("x", "y"), P("x", "y"))(a)


def over_an_axis_of_size_one(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.psum(x, "y") + jax.lax.axis_index("y").astype(x.dtype)

    return manual(body, P(None, "y"), P(None, "y"), "y", mesh=LINE)(on(a, "x", mesh=LINE))


def sums_at_the_door(a: Any) -> Any:
    """Returned sums: of some and all axes, as means, read inside as well, scaled by what differs between devices."""

    def body(x: Any) -> Any:
        twice, scaled = jax.lax.psum(jnp.cos(x), "x"), jax.lax.psum(x, "x") * x
        means = jax.lax.pmean(x, "x").T, jax.lax.pmean(jnp.sin(x), ("x", "y")).reshape(-1) / 3
        counts = jax.lax.psum((x > 0).astype(jnp.int32), "x") // 2
        return jax.lax.psum(x * x, "x"), *means, twice, twice + 1, scaled, counts

    split = P(None, "y")
    results = manual(body, P("x", "y"), (split, P("y"), P(), split, split, P("x", "y"), split))(a)
    return [on(results[0], "x"), on(results[1], None, "x"), *results[2:]]


def sums_in_every_turn(a: Any) -> Any:
    def body(x: Any, n: Any) -> Any:
        return jax.lax.psum(x * n, "x")

    def turn(total: Any, n: Any) -> Any:
        each = manual(body, (P("x"), P()), P(), "x")(a, n)
        return total + each, each[:, :4] * 2

    return jax.lax.scan(turn, jnp.zeros((8, 16), a.dtype), jnp.arange(3.0, dtype=a.dtype))


PROGRAMS = [
    everything,
    sums_at_the_door,
    sums_in_every_turn,
    one_axis,
    within_constraints,
    gathered_at_the_door,
    uneven,
    nested,
    nested_with_a_free_axis,
    in_a_loop,
    with_a_loop,
    pipelined,
    differentiated,
    in_groups,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_manual_computations_give_the_same_results(program: Callable[[Any], Any]) -> None:
    report = gspmd.check(jax.jit(program).lower(A))
    assert report, report.to_dict()
    assert "manual" in report.reference


@pytest.mark.parametrize("program", [everything, one_axis, in_a_loop], ids=lambda f: f.__name__)
def test_both_families_of_annotations_give_the_same_results(program: Callable[[Any], Any]) -> None:
    reference = jax.jit(program).lower(A).as_text()
    jax.config.update("jax_use_shardy_partitioner", False)
    jax.clear_caches()
    lowered = jax.jit(program).lower(A).as_text()
    assert "SPMDFullToShardShape" in lowered
    assert gspmd.check(reference, gspmd.partition(lowered))


def test_what_the_user_wrote_is_named_as_such() -> None:
    found = gspmd.partition(jax.jit(one_axis).lower(A)).collectives
    written = [c for c in found if c.cause == "written by the user"]
    kinds = ["all_gather", "reduce_scatter", "collective_permute", "all_to_all", "all_reduce"]
    assert sorted(c.kind for c in written) == sorted(kinds)
    assert {c.axes for c in written} == {'"x"'}
    assert {c.axes for c in found if c not in written} == {'"y"'}


def test_a_manual_axis_of_size_one_holds_nothing() -> None:
    lowered = jax.jit(over_an_axis_of_size_one).lower(A)
    product = gspmd.partition(lowered)
    assert not product.collectives
    a = np.random.default_rng(0).standard_normal((16, 16), np.float32)
    np.testing.assert_array_equal(np.asarray(gspmd.compile(product)(a)[0]), a)


def test_an_annotation_inside_cannot_use_an_axis_that_is_held() -> None:
    text = """
      func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
        %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dim_replicate}"}
          : (tensor<8xf32>) -> tensor<8xf32>
        %1 = stablehlo.custom_call @SPMDFullToShardShape(%0)
          {mhlo.sharding = "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}"}
          : (tensor<8xf32>) -> tensor<4xf32>
        %2 = func.call @body(%1) : (tensor<4xf32>) -> tensor<4xf32>
        %3 = stablehlo.custom_call @Sharding(%2)
          {mhlo.sharding = "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}"}
          : (tensor<4xf32>) -> tensor<4xf32>
        %4 = stablehlo.custom_call @SPMDShardToFullShape(%3)
          {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dim_replicate}"} : (tensor<4xf32>) -> tensor<8xf32>
        return %4 : tensor<8xf32>
      }
      func.func private @body(%b: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.sine %b {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dim_replicate}"} : tensor<4xf32>
        return %0 : tensor<4xf32>
      }"""
    with pytest.raises(gspmd.Error, match="which a manual computation around it holds") as caught:
        gspmd.partition(text)
    assert caught.value.op == "stablehlo.sine"
    assert caught.value.location is not None
    assert caught.value.location.line == 17


def test_members_of_a_group_are_split_alike_and_nothing_is_left_of_it() -> None:
    def program(a: Any, b: Any) -> Any:
        return shard_alike(on(jnp.sin(a), "x", "y"), jnp.cos(b))

    lowered = jax.jit(program).lower(A, A)
    product = gspmd.partition(lowered)
    assert product.out_shardings[0].sdy == product.out_shardings[1].sdy == '<@mesh, [{"x"}, {"y"}]>'
    assert "sdy." not in product.module_text
    assert gspmd.check(lowered)


BARRIERS = """
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
      -> tensor<8x8xf64> {{
    %0 = stablehlo.sine %a : tensor<8x8xf32>
    %1 = sdy.propagation_barrier %0 allowed_direction={direction} : tensor<8x8xf32>
    %2 = stablehlo.convert %1 : (tensor<8x8xf32>) -> tensor<8x8xf64>
    return %2 : tensor<8x8xf64>
  }}"""


@pytest.mark.parametrize(
    ("direction", "result"), [("FORWARD", '[{"x"}, {}]'), ("BACKWARD", "[{}, {}]"), ("NONE", "[{}, {}]")]
)
def test_a_barrier_decides_where_a_value_is_gathered(direction: str, result: str) -> None:
    text = BARRIERS.format(direction=direction)
    product = gspmd.partition(text)
    assert product.out_shardings[0].sdy == f"<@mesh, {result}>"
    assert [c.kind for c in product.collectives] == ([] if direction == "FORWARD" else ["all_gather"])
    assert gspmd.check(text)


def decompositions(a: Any) -> Any:
    """Linear algebra, which JAX compiles for CPUs to calls of LAPACK."""
    positive = a @ a.transpose(0, 2, 1) + 4 * jnp.eye(6)
    q, r = jnp.linalg.qr(a)
    return jax.lax.linalg.cholesky(positive), q @ r


BATCH = jax.ShapeDtypeStruct((8, 6, 6), jnp.float32)


@pytest.mark.parametrize("shardy", [True, False])
@pytest.mark.parametrize("spec", [P("y"), P("y", "x"), P(None, "x", "y")], ids=str)
def test_batches_of_custom_calls_are_split(spec: PartitionSpec, shardy: bool) -> None:
    jax.config.update("jax_use_shardy_partitioner", shardy)
    jax.clear_caches()
    shape = BATCH if spec != P(None, "x", "y") else jax.ShapeDtypeStruct((8, 8, 8), jnp.float32)
    program = decompositions if spec != P(None, "x", "y") else jnp.linalg.cholesky
    lowered = jax.jit(program, in_shardings=NamedSharding(MESH, spec)).lower(shape)
    assert "lapack_spotrf_ffi" in lowered.as_text()
    assert gspmd.check(lowered)
    assert "sharding_rule" not in gspmd.partition(lowered).module_text


def test_a_group_inside_a_manual_computation_may_have_its_argument() -> None:
    def program(a: Any) -> Any:
        def body(x: Any) -> Any:
            same, other = shard_alike(x, jnp.cos(x).T)
            return inside(jnp.sin(same), None, "y") + jax.lax.psum(other, "x").T

        return manual(body, P("x"), P("x"), "x")(a[:16, :8])

    lowered = jax.jit(program).lower(A)
    assert "sdy.sharding_group" in lowered.as_text()
    assert gspmd.check(lowered)
    assert gspmd.explain(lowered).conflicts


def test_explanations_go_through_manual_computations() -> None:
    found = gspmd.explain(jax.jit(one_axis).lower(A))
    (derivation,) = [d for d in found.values[0].derivations if d.axes == '"y"']
    ways = [(step.operation, step.source, step.target) for step in derivation.steps]
    assert ways[:2] == [
        ("sdy.manual_computation", "operand 0", "operand 0"),
        ("sdy.manual_computation", "argument 0", "operand 0"),
    ]
    assert derivation.origin.sharding == '[{}, {"y"}]'
    assert {c.operation for c in found.conflicts} >= {"stablehlo.all_to_all", "stablehlo.dot_general"}


def test_explanations_know_groups_barriers_and_custom_rules() -> None:
    grouped = gspmd.explain(jax.jit(lambda a, b: shard_alike(on(jnp.sin(a), "x", "y"), jnp.cos(b))).lower(A, A))
    (cosine,) = [value for value in grouped.values if value.operation == "stablehlo.cosine"]
    assert cosine.sharding == '[{"x"}, {"y"}]'
    assert [d.origin.sharding for d in cosine.derivations] == ['[{"x"}, {"y"}]'] * 2
    assert not grouped.conflicts
    stopped = gspmd.explain(BARRIERS.format(direction="NONE"))
    assert [c.operation for c in stopped.conflicts] == ["sdy.propagation_barrier"]
    called = gspmd.explain(CALL, custom_rules={"product": RULE})
    assert [c.operation for c in called.conflicts] == ["stablehlo.custom_call"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_every_axis_of_a_manual_program_has_an_origin(program: Callable[[Any], Any]) -> None:
    found = gspmd.explain(jax.jit(program).lower(A))
    for value in found.values:
        assert {d.dimension for d in value.derivations} == {
            dim for dim, (whole, part) in enumerate(zip(*_shapes(value), strict=True)) if whole != part
        }
    assert found.conflicts is not None


def _shapes(value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    whole = tuple(int(n) for n in value.type.partition("[")[2][:-1].split(",") if n)
    return whole, value.local_shape


CALL = """
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %w: tensor<64x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.custom_call @product(%a, %w) : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }"""
RULE = "([i, j], [j, k])->([i, k]), reduction={j}"


def test_a_rule_by_target_is_text_or_a_function() -> None:
    def rule(info: Any) -> str:
        assert [t.shape for t in info.operands] == [(8, 64), (64, 16)]
        return RULE

    texts = [gspmd.partition(CALL, custom_rules={"product": given}).module_text for given in (RULE, rule)]
    assert texts[0] == texts[1]
    assert "@product(%arg0, %arg1) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>" in texts[0]
    found = gspmd.partition(CALL, custom_rules={"product": RULE}).collectives
    assert [c.kind for c in found] == ["reduce_scatter"]
    completed = str(gspmd.propagate(CALL, custom_rules={"product": RULE}))
    assert '%arg1: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}' in completed


def test_a_target_without_rule_and_a_wrong_rule_are_refused() -> None:
    with pytest.raises(gspmd.Unsupported, match="calls 'product', which has no sharding rule; give it one"):
        gspmd.partition(CALL)
    with pytest.raises(gspmd.AnnotationError, match="operand 1 has rank 1, expected 2") as caught:
        gspmd.partition(CALL, custom_rules={"product": "([i, j], [j])->([i, k])"})
    assert caught.value.op == "stablehlo.custom_call"
    assert caught.value.location is not None
    assert caught.value.location.line == 5

"""approx_max_k and approx_min_k: batches stay where they are, and shards of what is searched are merged."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import gspmd

_MESH = 'sdy.mesh @mesh = <["x"=4, "y"=2]>\n'


def _text(
    shape: tuple[int, ...], dims: str, search: Any = lax.approx_max_k, platform: str = "cpu", **kwargs: Any
) -> str:
    """The program of one search, its argument split as `dims` says."""
    traced = jax.jit(lambda x: search(x, 5, **kwargs)).trace(jax.ShapeDtypeStruct(shape, jnp.float32))
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    argument = f"%arg0: tensor<{'x'.join(map(str, shape))}xf32>"
    text = text.replace(f"@main({argument}", f"@main({argument} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}", 1)
    return text.replace("{\n", "{\n" + _MESH, 1)


def _sent(text: str) -> list[str]:
    return [f"{c.kind} {c.axes}" for c in gspmd.partition(text).collectives]


CASES: list[tuple[tuple[int, ...], str, dict[str, Any]]] = [
    ((16, 64), '{"x"}, {"y"}', {}),
    ((6, 37), '{}, {"x", "y"}', {}),
    ((6, 37), '{"y"}, {"x"}', {"aggregate_to_topk": False}),
    ((37, 6), '{"x"}, {"y"}', {"reduction_dimension": 0}),
    ((5,), '{"x"}', {}),
    ((2, 24), '{}, {"x", "y"}', {}),
    ((3, 7, 50), '{"x"}, {}, {"y"}', {"reduction_dimension": 2}),
]


@pytest.mark.parametrize("search", [lax.approx_max_k, lax.approx_min_k], ids=["max", "min"])
@pytest.mark.parametrize(("shape", "dims", "kwargs"), CASES)
def test_what_is_found(shape: tuple[int, ...], dims: str, kwargs: dict[str, Any], search: Any) -> None:
    """The fallback of CPUs is exact, so that results can be compared, uneven shards included."""
    assert gspmd.check(_text(shape, dims, search, **kwargs)).passed


def test_a_batch_sends_nothing() -> None:
    assert _sent(_text((16, 64), '{"x", "y"}, {}')) == []


def test_shards_of_what_is_searched_send_their_best() -> None:
    text = _text((16, 4096), '{"x"}, {"y"}', platform="tpu")
    assert _sent(text) == ['all_gather "y"'] * 2
    module = gspmd.partition(text).module_text
    calls = re.findall(r"@ApproxTopK\(.*?\) \{.*?top_k = (\d+).*-> \((.*?), ", module)
    assert calls == [("5", "tensor<4x5xf32>")]
    assert "aggregate_to_topk = true" in module


def test_a_shard_of_no_more_than_is_wanted_is_sent_whole() -> None:
    """Values without their places are less than both; they are searched as a whole."""
    partitioned = gspmd.partition(_text((2, 24), '{}, {"x", "y"}'))
    assert [(c.kind, c.bytes) for c in partitioned.collectives] == [("all_gather", 2 * 24 * 4 * 7 // 8)]
    assert re.findall(r"@ApproxTopK\(.*-> \((.*?), ", partitioned.module_text) == ["tensor<2x5xf32>"]


def test_inside_a_loop() -> None:
    """The comparator stays a function of the module, once."""

    def body(x: Any, _: Any) -> tuple[Any, Any]:
        best, where = lax.approx_max_k(x, 3)
        return x - best.sum(1, keepdims=True), where

    text = jax.jit(lambda x: lax.scan(body, x, None, 3)).lower(jnp.zeros((8, 32))).as_text()
    split = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}'
    text = text.replace("@main(%arg0: tensor<8x32xf32>", f"@main(%arg0: tensor<8x32xf32> {split}", 1)
    text = text.replace("{\n", "{\n" + _MESH, 1)
    module = gspmd.partition(text).module_text
    assert len(re.findall(r"func\.func private", module)) == 1
    assert gspmd.check(text).passed


_TOP_K = """HloModule m
%cmp (a: f32[], b: f32[], c: s32[], d: s32[]) -> pred[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %c = s32[] parameter(2)
  %d = s32[] parameter(3)
  ROOT %r = pred[] compare(%a, %b), direction={direction}, type=TOTALORDER
}}
ENTRY %main (x: f32[{shape}]) -> (f32[{best}], s32[{best}]) {{
  %x = f32[{shape}] parameter(0), sharding={{devices={tiles}<=[8]}}
  ROOT %t = (f32[{best}], s32[{best}]) {call}
}}"""
_CALL = 'custom-call(%x), custom_call_target="TopK", called_computations={%cmp}'


@pytest.mark.parametrize("call", [_CALL, "topk(%x), k=4, largest=true"])
@pytest.mark.parametrize(
    ("shape", "best", "tiles"), [("8,64", "8,4", "[4,2]"), ("3,21", "3,4", "[1,8]"), ("30", "4", "[8]")]
)
def test_top_k_of_hlo(call: str, shape: str, best: str, tiles: str) -> None:
    text = _TOP_K.format(direction="GT", shape=shape, best=best, tiles=tiles, call=call)
    assert {c.kind for c in gspmd.partition(text).collectives} == {"all_gather"}
    assert gspmd.check(text).passed


def test_top_k_of_hlo_finds_the_largest_only() -> None:
    text = _TOP_K.format(direction="LT", shape="8,64", best="8,4", tiles="[4,2]", call=_CALL)
    with pytest.raises(gspmd.Error, match="top-k of other than the largest elements; sort, and take the first"):
        gspmd.partition(text)


@pytest.mark.parametrize(("seed", "spec"), [(0, "x"), (1, "y")])
def test_jit(seed: int, spec: str) -> None:
    values = np.random.default_rng(seed).permutation(6 * 41).reshape(6, 41).astype(np.float32)
    mesh = {"x": 4, "y": 2}
    found = gspmd.jit(lambda x: lax.approx_max_k(x, 7), mesh=mesh, in_shardings=jax.sharding.PartitionSpec(None, spec))
    best, where = map(np.asarray, found(values))
    assert (best == -np.sort(-values)[:, :7]).all()
    assert (np.take_along_axis(values, where, 1) == best).all()


_SEARCH = """func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>)
    -> tensor<i1> {{
  %0 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}}
func.func public @main(%a: tensor<3x250xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
    %b: tensor<{places}>, %c: tensor<{low}>, %d: tensor<i32>) -> (tensor<{best}>, tensor<{where}>) {{
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %b, %c, %d) {{called_computations = [@greater],
    mhlo.backend_config = {{aggregate_to_topk = true, reduction_dim = 1 : i64, top_k = 2 : i64}}}}
    : (tensor<3x250xf32>, tensor<{places}>, tensor<{low}>, tensor<i32>) -> (tensor<{best}>, tensor<{where}>)
  return %0#0, %0#1 : tensor<{best}>, tensor<{where}>
}}"""
_FITTING = {"places": "3x250xi32", "low": "f32", "best": "3x2xf32", "where": "3x2xi32"}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"places": "1x250xi32"},
        {"places": "250xi32"},
        {"low": "1xf32"},
        {"low": "f64"},
        {"best": "3x3xf32"},
        {"best": "4x2xf32", "where": "4x2xi32"},
        {"best": "3x2x1xf32", "where": "3x2x1xi32"},
        {"best": "3xf32", "where": "3xi32"},
        {"best": "3x251xf32", "where": "3x251xi32"},
    ],
    ids=lambda other: " ".join(f"{name}={text}" for name, text in other.items()) or "fitting",
)
def test_types_fit_each_other(other: dict[str, str]) -> None:
    text = _MESH + _SEARCH.format(**(_FITTING | other))
    if not other:
        gspmd.partition(text)
        return
    with pytest.raises(gspmd.AnnotationError, match=r"'ApproxTopK' .* which do not fit each other"):
        gspmd.partition(text)

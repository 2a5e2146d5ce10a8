"""einsum and torch_index_select mean what NumPy's functions of these names do, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

import gspmd
from gspmd.dialect.errors import Unsupported
from gspmd.runtime import executable as runtime

RNG = np.random.default_rng(0)


def einsum(config: str, left: tuple[int, ...], right: tuple[int, ...]) -> str:
    operands, result = config.split("->")
    sizes = dict(zip(operands.replace(",", ""), left + right, strict=False))
    types = ["x".join(map(str, [*shape, "f32"])) for shape in (left, right, [sizes.get(c, 1) for c in result])]
    x, y, r = (f"tensor<{type_}>" for type_ in types)
    split = f'[{{"x"}}{", {}" * (len(right) - 1)}]'
    return f"""
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: {x}, %y: {y} {{sdy.sharding = #sdy.sharding<@mesh, {split}>}}) -> {r} {{
  %0 = stablehlo.einsum %x, %y, config = "{config}" : ({x}, {y}) -> {r}
  return %0 : {r}
}}
"""


@pytest.mark.parametrize(
    ("config", "left", "right"),
    [
        ("ij,jk->ik", (4, 6), (6, 8)),
        ("ij,jk->ki", (4, 6), (6, 8)),
        ("bij,bjk->bik", (2, 4, 6), (2, 6, 8)),
        ("ij,bjk->kbi", (4, 6), (2, 6, 8)),
        ("i,j->ij", (4,), (6,)),
    ],
)
def test_einsum(config: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = [RNG.standard_normal(shape).astype(np.float32) for shape in (left, right)]
    (result,) = runtime.compile(gspmd.partition(einsum(config, left, right)))(*inputs)
    np.testing.assert_allclose(result.to_numpy(), np.einsum(config, *inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "left", "right", "message"),
    [
        ("ij,k->ik", (4, 6), (8,), "einsum 'ij,k->ik' sums 'j', which one operand has; sum it first"),
        ("ii,ij->j", (4, 4), (4, 6), "einsum 'ii,ij->j' repeats a dimension; take the diagonal first"),
        ("...ij,...jk->...ik", (4, 6), (6, 8), "has an ellipsis; name every dimension"),
    ],
)
def test_einsums_that_are_no_contraction_are_refused(
    config: str, left: tuple[int, ...], right: tuple[int, ...], message: str
) -> None:
    text = einsum("ij,jk->ik", (4, 6), (6, 8)).replace("ij,jk->ik", config) if "." in config else None
    with pytest.raises(Unsupported, match=message):
        gspmd.partition(text or einsum(config, left, right))


@pytest.mark.parametrize(("dim", "batch_dims", "index"), [(0, 0, (6,)), (1, 0, (6,)), (1, 1, (4, 6)), (2, 1, (4, 6))])
def test_torch_index_select(dim: int, batch_dims: int, index: tuple[int, ...]) -> None:
    shape = (4, 8, 10)
    result = (*shape[:dim], *index[batch_dims:], *shape[dim + 1 :])
    indices = RNG.integers(0, shape[dim], index).astype(np.int32)
    x, i, r = ("x".join(map(str, dims)) for dims in (shape, index, result))
    text = f"""
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: tensor<{x}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}, {{}}]>}},
                       %i: tensor<{i}xi32>) -> tensor<{r}xf32> {{
  %0 = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = {batch_dims} : i64}}
    : (tensor<{x}xf32>, tensor<{i}xi32>) -> tensor<{r}xf32>
  return %0 : tensor<{r}xf32>
}}
"""
    value = RNG.standard_normal(shape).astype(np.float32)
    (found,) = runtime.compile(gspmd.partition(text))(value, indices)
    if batch_dims:
        wanted = np.stack([np.take(part, places, dim - 1) for part, places in zip(value, indices, strict=True)])
    else:
        wanted = np.take(value, indices, dim)
    np.testing.assert_array_equal(found.to_numpy(), wanted)


def test_what_is_said_of_a_deprecated_operation_stays() -> None:
    text = einsum("ij,jk->ik", (4, 6), (6, 8)).replace(
        'config = "ij,jk->ik"', 'config = "ij,jk->ik" {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>}'
    )
    assert gspmd.partition(text).out_shardings[0].sdy == '<@mesh, [{}, {"x"}]>'

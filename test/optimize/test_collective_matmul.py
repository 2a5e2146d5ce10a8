"""Products overlapped with communication: equal to the last bit, with as many steps as there are devices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import gspmd
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.support.mlir import new_context

P = PartitionSpec
FRONT = "gspmd-ingest,gspmd-propagate,gspmd-reshard,gspmd-localize,cse"
MESHES = {"2x4": (2, 4), "1x8": (1, 8), "2x3": (2, 3), "4x2": (4, 2)}
FORMS = {
    "unrolled": "",
    "both ways": "bidirectional=true",
    "looped": "max-unrolled-steps=1",
    "looped both ways": "max-unrolled-steps=1 bidirectional=true",
}


def manual(body: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any) -> Any:
    return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


# Equation, and the letter that is gathered or scattered. Every letter has 24 elements but b, of 48.
GATHERED = [
    ("ik,kj->ij", 0, "i"),
    ("ik,kj->ij", 1, "j"),
    ("ik,kj->ij", 0, "k"),
    ("ki,jk->ij", 1, "k"),
    ("bik,bkj->bij", 0, "b"),
    ("bik,bkj->bij", 1, "b"),
    ("bik,bjk->bij", 1, "j"),
]
SCATTERED = [("ik,kj->ij", "i"), ("ik,kj->ij", "j"), ("bik,bkj->bij", "b"), ("bik,bjk->bij", "j")]


def gathered(equation: str, side: int, letter: str, mesh: Mesh) -> Any:
    """The product with one operand split over "y", gathered before."""
    dim = equation.split("->", maxsplit=1)[0].split(",")[side].index(letter)

    def body(left: Any, right: Any) -> Any:
        operands = [left, right]
        operands[side] = jax.lax.all_gather(operands[side], "y", axis=dim, tiled=True)
        return jnp.einsum(equation, *operands)

    specs = [P(), P()]
    specs[side] = P(*[None] * dim, "y")
    return manual(body, mesh, tuple(specs), P())


def scattered(equation: str, letter: str, mesh: Mesh) -> Any:
    """The product over "y" of what each device has, its sum scattered."""
    left, right = equation.split("->", maxsplit=1)[0].split(",")
    dim = equation.split("->")[1].index(letter)

    def body(a: Any, b: Any) -> Any:
        return jax.lax.psum_scatter(jnp.einsum(equation, a, b), "y", scatter_dimension=dim, tiled=True)

    def spec(letters: str) -> PartitionSpec:
        return P(*["y" if c == "k" else None for c in letters])

    return manual(body, mesh, (spec(left), spec(right)), P(*[None] * dim, "y"))


def _mesh(shape: tuple[int, int]) -> Mesh:
    return Mesh(np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape), ("x", "y"))


def _inputs(equation: str) -> list[Any]:
    rng = np.random.default_rng(0)
    letters = equation.split("->", maxsplit=1)[0].split(",")
    return [rng.integers(-4, 5, [48 if c == "b" else 24 for c in part]).astype(np.float32) for part in letters]


def _overlapped(program: Any, inputs: list[Any], options: str) -> gspmd.Partitioned:
    module = read_program(jax.jit(program).lower(*inputs), new_context())
    run = f"gspmd-collective-matmul{{matmul-min-bytes=0 use-cost-model=false {options}}}"
    PassManager.parse(f"{FRONT},{run}").run(module)
    return gspmd.Partitioned(module)


def _check(program: Any, equation: str, options: str) -> gspmd.Partitioned:
    inputs = _inputs(equation)
    product = _overlapped(program, inputs, options)
    (result,) = gspmd.compile(product)(*inputs)
    np.testing.assert_array_equal(np.asarray(result), np.einsum(equation, *inputs))
    return product


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("equation", "side", "letter"), GATHERED)
def test_gathers_before_products(equation: str, side: int, letter: str, form: str) -> None:
    product = _check(gathered(equation, side, letter, _mesh((2, 4))), equation, FORMS[form])
    kinds = Counter(c.kind for c in product.collectives)
    assert set(kinds) == {"collective_permute"}
    assert sum(c.count or 0 for c in product.collectives) == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("equation", "letter"), SCATTERED)
def test_scatters_after_products(equation: str, letter: str, form: str) -> None:
    product = _check(scattered(equation, letter, _mesh((2, 4))), equation, FORMS[form])
    assert {c.kind for c in product.collectives} == {"collective_permute"}
    assert sum(c.count or 0 for c in product.collectives) == (6 if "both" in form else 3)
    shard = math.prod(product.signature.outputs[0].local_shape) * 4
    assert sum(c.bytes * (c.count or 0) for c in product.collectives) == 3 * shard


@pytest.mark.parametrize("form", ["unrolled", "looped both ways"])
@pytest.mark.parametrize("mesh", MESHES)
def test_rings_of_every_size(mesh: str, form: str) -> None:
    _check(gathered("ik,kj->ij", 0, "i", _mesh(MESHES[mesh])), "ik,kj->ij", FORMS[form])
    _check(scattered("ik,kj->ij", "j", _mesh(MESHES[mesh])), "ik,kj->ij", FORMS[form])

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
from gspmd.transforms.parsing.mlir import new_context

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


def _check(programs: list[Any], equations: list[str], options: str) -> gspmd.Partitioned:
    """All products in one program, overlapped, give exactly what NumPy does."""
    options = f"gspmd-collective-matmul{{matmul-min-bytes=0 use-cost-model=false {options}}}"
    product = _run(programs, equations, options)
    assert {c.kind for c in product.collectives} == {"collective_permute"}
    return product


def _run(programs: list[Any], equations: list[str], passes: str) -> gspmd.Partitioned:
    """All products in one program, after `passes`, give exactly what NumPy does."""
    inputs = [_inputs(equation) for equation in equations]
    flat = [array for pair in inputs for array in pair]

    def together(*arrays: Any) -> list[Any]:
        return [program(*arrays[2 * i : 2 * i + 2]) for i, program in enumerate(programs)]

    module = read_program(jax.jit(together).lower(*flat), new_context())
    PassManager.parse(f"{FRONT},{passes}").run(module)
    product = gspmd.Partitioned(module)
    for result, equation, pair in zip(gspmd.compile(product)(*flat), equations, inputs, strict=True):
        np.testing.assert_array_equal(np.asarray(result), np.einsum(equation, *pair))
    return product


@pytest.mark.parametrize("form", FORMS)
def test_gathers_before_products(form: str) -> None:
    programs = [gathered(*case, _mesh((2, 4))) for case in GATHERED]
    product = _check(programs, [equation for equation, *_ in GATHERED], FORMS[form])
    assert sum(c.count or 0 for c in product.collectives) == 3 * len(GATHERED)


@pytest.mark.parametrize("form", FORMS)
def test_scatters_after_products(form: str) -> None:
    programs = [scattered(*case, _mesh((2, 4))) for case in SCATTERED]
    product = _check(programs, [equation for equation, _ in SCATTERED], FORMS[form])
    assert sum(c.count or 0 for c in product.collectives) == (6 if "both" in form else 3) * len(SCATTERED)
    shards = sum(math.prod(value.local_shape) * 4 for value in product.signature.outputs)
    assert sum(c.bytes * (c.count or 0) for c in product.collectives) == 3 * shards


@pytest.mark.parametrize("form", ["unrolled", "looped both ways"])
@pytest.mark.parametrize("mesh", MESHES)
def test_rings_of_every_size(mesh: str, form: str) -> None:
    made = _mesh(MESHES[mesh])
    equation = "ik,kj->ij"
    programs = [gathered(equation, 0, "i", made), scattered(equation, "j", made)]
    _check(programs, [equation] * 2, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("mesh", "ring"), [("2x4", 2), ("1x8", 2), ("1x8", 4)])
def test_rings_of_the_major_part_of_an_axis(mesh: str, ring: int, form: str) -> None:
    """The sums of a ring are scattered over the rest: less travels round the ring, and in fewer steps."""
    programs = [scattered(*case, _mesh(MESHES[mesh])) for case in SCATTERED]
    options = f"matmul-min-bytes=0 use-cost-model=false ring-devices={ring} {FORMS[form]}"
    product = _run(programs, [equation for equation, _ in SCATTERED], f"gspmd-collective-matmul{{{options}}}")
    counts = Counter(dict.fromkeys(("collective_permute", "reduce_scatter"), 0))
    for each in product.collectives:
        counts[each.kind] += each.count or 0
    permutes = (ring - 1) * (2 if "both" in form else 1)
    assert counts == {"collective_permute": permutes * len(SCATTERED), "reduce_scatter": len(SCATTERED)}


@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_gathers_in_pieces(pieces: int) -> None:
    """Where a dimension is free to be cut, which is not so if the gathered one is all that the product keeps."""
    programs = [gathered(*case, _mesh((2, 4))) for case in GATHERED]
    equations = [equation for equation, *_ in GATHERED]
    run = f"gspmd-gather-in-pieces{{gather-pieces={pieces} pieces-min-bytes=0 use-cost-model=false}}"
    product = _run(programs, equations, run)
    assert {c.kind for c in product.collectives} == {"all_gather"}
    cut = [letter in "kb" or equation.startswith("b") for equation, _, letter in GATHERED]
    assert len(product.collectives) == sum(pieces if each else 1 for each in cut)

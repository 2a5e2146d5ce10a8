"""Laws of propagation, on random annotations of programs that use every kind of rule and of control flow."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from jaxlib.mlir import ir

from gspmd import api
from gspmd.dialect.axes import Axis, canonical, common_prefix
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.sharding import OPEN, DimSharding, TensorSharding
from gspmd.pass_manager import PassManager
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.propagate import Propagate, complete
from gspmd.transforms.propagate.factors import CONFLICTS, LEVELS

_MESHES = [
    Mesh((("x", 8),)),
    Mesh((("x", 4), ("y", 2))),
    Mesh((("x", 2), ("y", 2), ("z", 2)), (3, 1, 2, 0, 7, 6, 5, 4)),
    Mesh((("x", 6), ("y", 2))),
]

# Arguments and results by shape; {a0} and so on stand for attributes, {c0} for constraints.
_ARGUMENTS = [(8, 16), (16, 32), (32,), (8, 32), (4, 8, 4)]
_RESULTS = [(8, 32), (8,), (16, 16), (32, 8)]
_CONSTRAINTS = [(8, 32), (32, 8), (16, 16)]
_PROGRAM = """
sdy.mesh @mesh = {mesh}
func.func public @main(%x: tensor<8x16xf32> {a0}, %w: tensor<16x32xf32> {a1}, %b: tensor<32xf32> {a2},
                       %y: tensor<8x32xf32> {a3}, %u: tensor<4x8x4xf32> {a4})
    -> (tensor<8x32xf32> {r0}, tensor<8xf32> {r1}, tensor<16x16xf32> {r2}, tensor<32x8xf32> {r3}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %ones = stablehlo.constant dense<1.0> : tensor<8x32xf32>
  %start = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<32xf32>) -> tensor<8x32xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x32xf32>
  %3 = sdy.sharding_constraint %2 {c0} : tensor<8x32xf32>
  %4:2 = stablehlo.while(%i = %start, %c = %3) : tensor<i32>, tensor<8x32xf32>
   cond {{
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = stablehlo.multiply %c, %y : tensor<8x32xf32>
    %e = stablehlo.add %d, %ones : tensor<8x32xf32>
    stablehlo.return %j, %e : tensor<i32>, tensor<8x32xf32>
  }}
  %5 = stablehlo.reduce(%4#1 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.transpose %4#1, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
  %7 = sdy.sharding_constraint %6 {c1} : tensor<32x8xf32>
  %8 = stablehlo.reshape %u : (tensor<4x8x4xf32>) -> tensor<32x4xf32>
  %9 = stablehlo.concatenate %8, %8, dim = 1 : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<32x8xf32>
  %10 = stablehlo.add %7, %9 : tensor<32x8xf32>
  %11 = stablehlo.reshape %10 : (tensor<32x8xf32>) -> tensor<16x16xf32>
  %12 = sdy.sharding_constraint %11 {c2} : tensor<16x16xf32>
  %13 = stablehlo.add %4#1, %ones : tensor<8x32xf32>
  return %13, %5, %12, %10 : tensor<8x32xf32>, tensor<8xf32>, tensor<16x16xf32>, tensor<32x8xf32>
}}
"""


def random_sharding(rng: random.Random, mesh: Mesh, rank: int) -> TensorSharding:
    """Open and closed dimensions, with parts of axes and priorities; sometimes replicated axes."""
    while True:
        parts: list[Axis] = []
        for name, size in mesh.axes:
            cut = rng.choice([k for k in range(1, size) if size % k == 0])
            parts += [part for part in (Axis(name, 1, cut), Axis(name, cut, size // cut)) if part.size > 1]
        rng.shuffle(parts)
        homes: list[list[Axis]] = [[] for _ in range(rank + 3)]
        for part in parts:
            homes[rng.randrange(rank + 3)].append(part)
        dims = []
        for home in homes[:rank]:
            is_open = rng.random() < 0.5
            priority = rng.choice([None, None, 0, 1]) if home or is_open else None
            dims.append(DimSharding(canonical(home), is_open, priority))
        try:
            return TensorSharding(mesh, tuple(dims), canonical(mesh.sorted(tuple(homes[-1]))))
        except AnnotationError:
            continue


Annotations = dict[str, TensorSharding]


def annotations(seed: int) -> tuple[Mesh, Annotations]:
    """What is said of arguments (a0, ...), results (r0, ...) and constraints (c0, ...)."""
    rng = random.Random(seed)
    mesh = rng.choice(_MESHES)
    said: Annotations = {}
    for letter, shapes, likely in (("a", _ARGUMENTS, 0.5), ("r", _RESULTS, 0.3), ("c", _CONSTRAINTS, 0.5)):
        for i, shape in enumerate(shapes):
            if rng.random() < likely:
                said[f"{letter}{i}"] = random_sharding(rng, mesh, len(shape))
    return mesh, said


def program(seed: int) -> str:
    mesh, said = annotations(seed)
    names = [f"{letter}{i}" for letter, shapes in (("a", _ARGUMENTS), ("r", _RESULTS)) for i in range(len(shapes))]
    texts = {n: f"{{sdy.sharding = #sdy.sharding{print_sharding(said[n])}}}" if n in said else "" for n in names}
    for i, shape in enumerate(_CONSTRAINTS):
        sharding = said.get(f"c{i}", TensorSharding(mesh, (OPEN,) * len(shape)))
        texts[f"c{i}"] = print_sharding(sharding)
    return _PROGRAM.format(mesh=print_mesh(mesh), **texts)


def propagated(text: str) -> ir.Module:
    """The module with the shardings that propagation, and nothing before it, gives it."""
    module = parse_module(text, new_context())
    PassManager([Propagate()]).run(module)
    return module


def solved(text: str) -> AnnotatedProgram:
    """The program that `propagated` makes."""
    return AnnotatedProgram(model_of(propagated(text)))


SEEDS = range(80)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_user_closed_is_never_changed(seed: int) -> None:
    _, said = annotations(seed)
    result = solved(program(seed))
    constraints = [result.of_op(op) for op in result.program.ops if op.info.name == "sdy.sharding_constraint"]
    found = {
        **{f"a{i}": s for i, s in enumerate(result.arguments)},
        **{f"r{i}": s for i, s in enumerate(result.results)},
        **{f"c{i}": s[0] for i, s in enumerate(constraints) if s},
    }
    for name, asked in said.items():
        got = found[name]
        assert got is not None
        for want, have in zip(asked.dims, got.dims, strict=True):
            if not want.is_open:
                assert have.axes == want.axes or (have.axes == () and want.priority), name
            elif not want.priority:
                assert common_prefix(want.axes, have.axes) == want.axes, name
        used = [axis for dim in got.dims for axis in dim.axes]
        assert not [a for a in used if any(a.overlaps(r) for r in asked.replicated)], name


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_is_closed_when_propagation_is_over(seed: int) -> None:
    result = solved(program(seed))
    shardings = [*result.arguments, *result.results]
    for op in result.program.ops:
        shardings += result.of_op(op) or ()
    for sharding in shardings:
        assert sharding is not None
        assert sharding == sharding.closed()
        assert sharding.mesh == result.mesh


@pytest.mark.parametrize("seed", SEEDS)
def test_propagating_again_changes_nothing(seed: int) -> None:
    once = str(propagated(program(seed)))
    assert str(propagated(once)) == once


def test_the_result_depends_on_nothing_but_the_program(tmp_path: Path) -> None:
    texts = "// -----\n".join(program(seed) for seed in range(10))
    path = tmp_path / "programs.mlir"
    path.write_text(texts)
    command = [sys.executable, "-P", "-m", "gspmd.tools.opt", "--split-input-file", "--gspmd-propagate", str(path)]
    outputs = set()
    for hash_seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert finished.returncode == 0, finished.stderr
        outputs.add(finished.stdout)
    assert len(outputs) == 1


def test_the_order_of_axes_in_the_mesh_does_not_decide_what_is_split() -> None:
    """Renaming the axes renames them in the result, and changes nothing else."""
    text = program(7).replace('"x"', '"other"')
    module = str(api.propagate(text))
    assert module.replace('"other"', '"x"') == str(api.propagate(program(7)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_number_of_steps_is_bounded(seed: int) -> None:
    text = program(seed)
    solver = complete(model_of(parse_module(text, new_context()))).solver
    mesh, said = annotations(seed)
    priorities = len({dim.priority or 0 for s in said.values() for dim in s.dims} | {0})
    prime_factors = {8: 3, 12: 3}[mesh.size]
    assert len(solver.history) <= len(solver.state) * (prime_factors + 1) * priorities
    assert solver.sweeps <= len(solver.history) + 2 * len(LEVELS) * priorities


def test_the_documentation_lists_levels_and_conflicts_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "propagation.md").read_text()
    for first, entries in ((0, LEVELS), (1, CONFLICTS)):
        listed = "\n".join(f"{number}. {entry}" for number, entry in enumerate(entries, first))
        assert listed in page

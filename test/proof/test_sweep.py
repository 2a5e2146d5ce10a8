"""A small sample of the sweep and of the fuzzer, which run for hours on their own, and what these stand on."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from support import samples

from gspmd.dialect.mesh import Mesh
from gspmd.isolation import ProcessDied, Worker
from proof.enumeration import MESHES, Operation, count, every, packs, sample, shardings
from proof.execution import Options, verdicts
from proof.fuzzing import Made, tried
from proof.interpreter import interpreted
from proof.operations import FAMILIES
from proof.program import Argument, Program, Statement, Value
from proof.shrinking import shrunk
from proof.sweeping import least, sweep
from proof.sweeping import tried as tried_together

CASES = 16 * samples.TIMES
OPERATIONS = 400
PROGRAMS = 8 * samples.TIMES
BY_AXES = Options(list_groups_up_to=1)
BY_AXES_ON = [(("x", 8),), (("x", 4), ("y", 2))]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


@pytest.mark.parametrize("family", FAMILIES)
def test_family_is_right_however_it_is_split(family: str, worker: Worker) -> None:
    tally = sweep(family, sample(family, OPERATIONS, 0, CASES), worker)
    assert tally.kinds.total() == CASES
    printed = [f"{why}\n{worker.call(least, case)}" for case, why in tally.wrong[:2]]
    assert not tally.wrong, "\n".join(printed)
    assert not tally.reasons, tally.reasons


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_made_up_program(seed: int, worker: Worker) -> None:
    verdict = tried(Made(seed), worker)
    assert verdict.kind in ("right", "judged"), verdict.why


@pytest.mark.parametrize("mesh", [mesh for mesh in MESHES if mesh.axes in BY_AXES_ON and not mesh.device_ids], ids=str)
def test_operations_of_every_family_are_right_together_with_groups_by_axes(mesh: Mesh, worker: Worker) -> None:
    cases = [next(case for case in sample(f, OPERATIONS, 7, 2000) if MESHES[case.mesh] == mesh) for f in FAMILIES]
    for pack in packs(iter(cases)):
        found = worker.call(tried_together, pack, BY_AXES)
        wrong = [(c, v) for c, v in zip(pack, found, strict=True) if v.kind not in ("right", "judged")]
        printed = [f"{v.kind}: {v.why}\n{worker.call(least, c, BY_AXES)}" for c, v in wrong[:2]]
        assert not wrong, "\n".join(printed)


@pytest.mark.parametrize("seed", range(PROGRAMS, PROGRAMS + 4))
def test_made_up_program_with_groups_by_axes(seed: int, worker: Worker) -> None:
    verdict = tried(Made(seed, options=BY_AXES), worker)
    assert verdict.kind in ("right", "judged"), verdict.why


def test_made_up_program_on_a_real_mesh_of_three_axes() -> None:
    many = Worker(timeout_s=300, devices=72)
    verdict = tried(Made(0, devices=72), many)
    many.stop()
    assert verdict.kind in ("right", "judged"), verdict.why


# ---- enumeration ----


def test_all_shardings_of_a_matrix_over_two_axes() -> None:
    (grid,) = [mesh for mesh in MESHES if mesh.axes == (("x", 2), ("y", 3)) and not mesh.device_ids]
    found = shardings(grid, 2)
    assert len(found) == len(set(found)) == 12  # unsaid, none, x or y on either, one on each, both on one in 2 orders
    assert '<@mesh, [{"y", "x"}, {}]>' in found


def test_every_case_comes_once() -> None:
    cases = list(every("creation", 3))
    assert len(cases) == len(set(cases)) == count("creation", 3)


def test_a_sample_depends_on_its_seed_alone() -> None:
    assert list(sample("gather", 50, 1, 30)) == list(sample("gather", 50, 1, 30))
    assert list(sample("gather", 50, 1, 30)) != list(sample("gather", 50, 2, 30))


def test_an_operation_has_the_same_text_in_every_process(worker: Worker) -> None:
    for family in FAMILIES:
        operation = Operation(family, 7)
        assert str(operation.program(MESHES[0])) == str(worker.call(operation.program, MESHES[0]))


# ---- finding and shrinking ----

X = Value("%a0", (4, 6), bound=4)
Y = Value("%v0", (4, 6), bound=4)
Z = Value("%v1", (4, 6), bound=4)
NEGATE = Statement((Y,), (X,), f'%v0 = "stablehlo.negate"(%a0) {{{{s}}}} : ({X.type}) -> ({Y.type})')
ABS = Statement((Z,), (Y,), f'%v1 = "stablehlo.abs"(%v0) {{{{s}}}} : ({Y.type}) -> ({Z.type})')
SPLIT = '<@mesh, [{"x"}, {}]>'
CHAIN = Program(MESHES[-1], (Argument(X, "numbers", SPLIT),), (NEGATE, ABS), ((Z, SPLIT),))


def test_a_wrong_result_is_found() -> None:
    inputs = [np.ones((4, 6), np.float32)]
    assert [v.kind for v in verdicts(CHAIN, inputs)] == ["right"]
    assert [v.kind for v in verdicts(CHAIN, inputs, [np.full((4, 6), 2, np.float32)])] == ["judged"]


def test_shrinking_leaves_out_all_that_does_not_matter() -> None:
    least_program = shrunk(CHAIN, lambda program: "stablehlo.abs" in str(program))
    assert [s.results[0].name for s in least_program.statements] == ["%v1"]
    assert "sdy.sharding" not in str(least_program)
    assert [a.value.name for a in least_program.arguments] == ["%v0"]


def test_the_interpreter_counts_an_initial_value_that_xla_forgets() -> None:
    text = """
    func.func public @main(%a: tensor<1xf32>, %b: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0]
        : (tensor<1xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    """
    (result,) = interpreted(text, [np.array([3], np.float32), np.array(4, np.float32)])
    assert result == 7


def test_a_process_that_ends_is_noticed_and_replaced(worker: Worker) -> None:
    with pytest.raises(ProcessDied, match="ended with code 3"):
        worker.call(os._exit, 3)
    assert worker.call(len, "four") == 4


def test_a_process_that_does_not_answer_is_given_up() -> None:
    import time

    slow = Worker(timeout_s=5)
    with pytest.raises(ProcessDied, match="no answer within 5 s"):
        slow.call(time.sleep, 60)

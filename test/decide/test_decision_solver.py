"""The solver of decisions: its bound holds, and what it finds is the best or near it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from gspmd.transforms.decide import DEFAULT, PASSES, solver
from gspmd.transforms.decide.solver import Problem, Solution, solve
from gspmd.transforms.decide.tables import Tables


def made_up(seed: int, variables: int, states: int, edges: int) -> Problem:
    """A random problem, with ties: costs are small whole numbers."""
    rng = np.random.default_rng(seed)
    problem = Problem(Tables())
    for _ in range(variables):
        variable = problem.variable(int(rng.integers(1, states + 1)))
        problem.add(variable, problem.tables.new(rng.integers(0, 9, problem.sizes[variable]).astype(float)))
    pairs = list(itertools.combinations(range(variables), 2))
    for number in rng.permutation(len(pairs))[:edges].tolist():
        a, b = pairs[number] if rng.random() < 0.5 else pairs[number][::-1]
        sizes = problem.sizes[a], problem.sizes[b]
        problem.join(a, b, problem.tables.new(rng.integers(0, 9, sizes).astype(float)))
    return problem


def least(problem: Problem) -> float:
    """What the best solution costs, of all."""
    return min(problem.cost(states) for states in itertools.product(*map(range, problem.sizes)))


def check(problem: Problem, found: Solution) -> None:
    """That a solution is one, costs what it says, and keeps its bound."""
    assert all(0 <= state < size for state, size in zip(found.states, problem.sizes, strict=True))
    assert problem.cost(found.states) == pytest.approx(found.cost)
    assert found.bound <= found.cost + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_small_problems_have_the_best_solution(seed: int) -> None:
    problem = made_up(seed, variables=7, states=4, edges=11)
    found = solve(problem)
    check(problem, found)
    best = least(problem)
    assert found.bound <= best + 1e-9
    assert found.cost == pytest.approx(best), "mixing solutions that were read finds it in all of these"


@pytest.mark.parametrize("seed", range(10))
def test_what_has_no_cycle_is_solved_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = made_up(seed, variables=9, states=3, edges=0)
    for variable in range(1, 9):
        other = int(rng.integers(0, variable))
        sizes = problem.sizes[other], problem.sizes[variable]
        problem.join(other, variable, problem.tables.new(rng.random(sizes)))
    found = solve(problem)
    check(problem, found)
    assert found.bound == pytest.approx(found.cost)
    assert found.cost == pytest.approx(least(problem))


def pairs_of(problem: Problem) -> list[tuple[int, int | None]]:
    """The sizes and own costs of variables."""
    return list(zip(problem.sizes, problem.unary, strict=True))


def best_by_integers(problem: Problem) -> float:
    """What the best solution costs, by an integer programme: shares of states and of pairs whose marginals agree."""
    offsets = np.cumsum([0, *problem.sizes])
    costs = [np.zeros(size) if u is None else problem.tables[u] for size, u in pairs_of(problem)]
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    wanted = [1.0] * len(problem.sizes)
    for variable, size in enumerate(problem.sizes):
        rows += [variable] * size
        columns += range(offsets[variable], offsets[variable + 1])
        values += [1.0] * size
    used = int(offsets[-1])
    for (a, b), table in problem.edges.items():
        pairs = used + np.arange(problem.tables[table].size).reshape(problem.tables[table].shape)
        for side, variable in ((pairs, a), (pairs.T, b)):
            for state, together in enumerate(side):
                rows += [len(wanted)] * (len(together) + 1)
                columns += [*together.tolist(), int(offsets[variable]) + state]
                values += [1.0] * len(together) + [-1.0]
                wanted.append(0.0)
        costs.append(problem.tables[table].ravel())
        used += pairs.size
    matrix = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(len(wanted), used))
    found = scipy.optimize.milp(
        np.concatenate(costs),
        constraints=scipy.optimize.LinearConstraint(matrix, wanted, wanted),
        integrality=np.arange(used) < offsets[-1],
        bounds=scipy.optimize.Bounds(0, 1),
    )
    return float(found.fun)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_is_between_bound_and_solution(seed: int) -> None:
    problem = made_up(1000 + seed, variables=14, states=5, edges=24)
    found = solve(problem)
    check(problem, found)
    best = best_by_integers(problem)
    assert found.bound <= best + 1e-6
    assert best - 1e-6 <= found.cost <= 1.02 * best


@pytest.mark.parametrize("seed", [*range(20), 30, 68, 106, 123])
def test_no_state_of_a_better_solution_is_taken_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if all that seem too dear are taken out as early as may be. Where they are measured by the bound that the
    same pass has found, instead of the one before, the last four seeds go wrong.
    """
    for name, value in (("FIRST_READ", 1), ("MAX_AVERAGE_STATES", 1.0)):
        monkeypatch.setattr(solver, name, value)
    rng, problem = np.random.default_rng(seed), Problem(Tables())
    for _ in range(7):
        variable = problem.variable(int(rng.integers(2, 5)))
        problem.add(variable, problem.tables.new(rng.random(problem.sizes[variable]) * rng.choice([0, 1, 3])))
    for a, b in itertools.combinations(range(7), 2):
        if rng.random() < 0.7:
            costs = rng.choice([1, 5]) * rng.random((problem.sizes[a], problem.sizes[b]))
            problem.join(a, b, problem.tables.new(costs))
    found = solve(problem)
    check(problem, found)
    assert found.bound <= least(problem) + 1e-9


def like_layers(seed: int, variables: int = 60, states: int = 8) -> Problem:
    """A chain with shortcuts, in which neighbors want the same state: residual streams are such problems."""
    rng = np.random.default_rng(seed)
    problem = Problem(Tables())
    for _ in range(variables):
        problem.add(problem.variable(states), problem.tables.new(rng.random(states)))
    for a in range(variables):
        for b in (a + 1, a + 2, a + 5):
            if b < variables:
                costs = 2 * rng.random((states, states))
                np.fill_diagonal(costs, 0.0)
                problem.join(a, b, problem.tables.new(costs))
    return problem


@pytest.mark.parametrize("seed", [5, 19, 25, 26, 38])
def test_the_search_goes_on_while_its_bound_rises(seed: int) -> None:
    problem = like_layers(seed)
    found = solve(problem)
    check(problem, found)
    assert found.gap < solver.GAP
    assert solve(problem, *PASSES[DEFAULT]).cost <= (1 + solver.GAP) * found.cost


def test_equal_problems_have_equal_solutions() -> None:
    one, other = (solve(made_up(3, variables=20, states=5, edges=40)) for _ in range(2))
    assert one == other


def test_equal_parts_are_worked_out_once() -> None:
    problem = Problem(Tables())
    pair = problem.tables.new(np.array([[0.0, 2.0], [1.0, 0.0]]))
    own = problem.tables.new(np.array([0.0, 0.5]))
    for _ in range(50):
        a, b = problem.variable(2), problem.variable(2)
        problem.add(a, own)
        problem.join(a, b, pair)
    count = len(problem.tables.arrays)
    assert solve(problem).cost == 0.0
    assert len(problem.tables.arrays) - count <= 4

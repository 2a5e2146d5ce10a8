"""`gspmd.search` and `gspmd search`: plans fit, compute the same, are as good as what people write, and can be kept."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.costs.outcome import Outcome
from gspmd.plan_search import searching
from gspmd.plan_search.judging import CompiledOutcome
from gspmd.plan_search.meshes import parse_mesh_sizes
from gspmd.plan_search.plan_file import PlanFile
from gspmd.tools import cli

TARGET = "tpu-v5p"
MESH = {"x": 4, "y": 2}
LONG_S = 600.0
SHORT_S = 4.0


def perceptron(params: Any, x: Any) -> Any:
    return jnp.sum((jax.nn.relu(x @ params["up"]) @ params["down"]).astype(jnp.float32) ** 2)


def step(params: Any, x: Any) -> Any:
    grads = jax.grad(perceptron)(params, x)
    return jax.tree.map(lambda weight, grad: weight - grad.astype(weight.dtype) * 1e-3, params, grads)


def layered(params: Any, x: Any) -> Any:
    for layer in params:
        x = x + jax.nn.relu(x @ layer["up"]) @ layer["down"]
    return x


def attention(weights: Any, x: Any) -> Any:
    heads = [jnp.einsum("bsd,dhk->bshk", x, weight) for weight in weights[:3]]
    scores = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", heads[0], heads[1]))
    return jnp.einsum("bhst,bthk,hkd->bsd", scores, heads[2], weights[3])


def of(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


SMALL = {
    "perceptron": (step, ({"up": of(64, 256), "down": of(256, 64)}, of(128, 64))),
    "layers": (layered, ([{"up": of(32, 64), "down": of(64, 32)} for _ in range(3)], of(64, 32))),
    "attention": (attention, ((of(32, 8, 4), of(32, 8, 4), of(32, 8, 4), of(8, 4, 32)), of(8, 16, 32))),
}
D, F, B = 2048, 8192, 16384
LARGE = ({"up": of(D, F, dtype=jnp.bfloat16), "down": of(F, D, dtype=jnp.bfloat16)}, of(B, D, dtype=jnp.bfloat16))


def outcome_of(program: Any) -> Outcome:
    report = gspmd.cost(program, target=TARGET)
    return Outcome(report.sent_bytes, report.timeline.total_s, report.memory.peak)


def annotated_by_hand(*specs: Any) -> Outcome:
    return outcome_of(gspmd.jit(step, mesh=MESH, in_shardings=specs, target=TARGET).lower(*LARGE).program)


@pytest.fixture(scope="module")
def plan() -> gspmd.ShardingPlan:
    return gspmd.search(jax.jit(step).lower(*LARGE), mesh={"x": 4, "y": 2}, target=TARGET, time_limit_s=LONG_S)


# ---- what is found ----


@pytest.mark.parametrize("mesh", [{"x": 8}, {"x": 4, "y": 2}])
@pytest.mark.parametrize("name", SMALL)
def test_a_plan_computes_the_same(name: str, mesh: dict[str, int]) -> None:
    function, arguments = SMALL[name]
    found = gspmd.search(jax.jit(function).lower(*arguments), mesh=mesh, time_limit_s=SHORT_S)
    assert dict(found.mesh.axes) == mesh
    assert gspmd.check(found.module).passed
    assert 0 < found.bound.seconds <= found.outcome.step_s


def test_it_is_no_worse_than_what_people_write(plan: gspmd.ShardingPlan) -> None:
    weights = [
        (P(), P(("x", "y"))),
        ({"up": P(None, "y"), "down": P("y")}, P("x")),
        ({"up": P(("x", "y")), "down": P(("x", "y"))}, P(("x", "y"))),
        ({"up": P("x", "y"), "down": P("y", "x")}, P("x", None)),
    ]
    for specs in weights:
        assert plan.outcome.step_s <= annotated_by_hand(*specs).step_s * 1.001
    assert plan.is_complete
    assert 0 < plan.bound.seconds < plan.outcome.step_s
    assert {"as it is", "data parallel", "fully sharded", "tensor parallel", "two-dimensional"} <= plan.baselines.keys()
    assert plan.outcome.step_s <= min(outcome.step_s for outcome in plan.baselines.values())


def test_its_figures_are_those_of_its_module(plan: gspmd.ShardingPlan) -> None:
    assert dataclasses.replace(plan.outcome, fits=True) == outcome_of(plan.module)


def test_its_code_gives_the_same(plan: gspmd.ShardingPlan) -> None:
    found: dict[str, Any] = {}
    exec(plan.jax_code(), found)
    specs = (found["planned"]("params", LARGE[0]), found["planned"]("x", LARGE[1]))
    inside = [decision for decision in plan.decisions if decision.values and decision.dims is not None]
    assert any(spec is not None for spec in jax.tree.leaves(specs)) or inside
    lowered = gspmd.jit(with_patches(inside), mesh=MESH, in_shardings=specs, target=TARGET).lower(*LARGE)
    outcome = outcome_of(lowered.program)
    assert outcome.step_s == pytest.approx(plan.outcome.step_s, rel=0.01)
    assert outcome.step_s < plan.baselines["as it is"].step_s


def with_patches(decisions: list[Any]) -> Any:
    """The function `step` with the changes of this file that a plan has for values inside."""
    lines = Path(__file__).read_text().splitlines()
    for decision in decisions:
        assert decision.patches, "the source shows what is constrained"
        for patch in decision.patches:
            lines[patch.line - 1 : patch.line - 1 + len(patch.old)] = patch.new
    changed: dict[str, Any] = {"__name__": "changed", "__file__": __file__}
    exec(compile("\n".join(lines), __file__, "exec"), changed)
    return changed["step"]


def test_layers_that_repeat_are_decided_together() -> None:
    function, arguments = SMALL["layers"]
    found = gspmd.search(jax.jit(function).lower(*arguments), mesh={"x": 8}, time_limit_s=10)
    decisions = [decision for decision in found.decisions if not decision.values]
    labels = [decision.label for decision in decisions]
    assert labels == ["params[*]['down']", "params[*]['up']", "x"]
    assert [len(decision.arguments) for decision in decisions] == [3, 3, 1]
    assert {decision.count for decision in found.decisions if decision.values} == {3}


def test_layers_without_names_are_found_by_their_operations() -> None:
    params = [{"up": of(1024, 4096), "down": of(4096, 1024)} for _ in range(8)]
    text = jax.jit(layered).lower(params, of(8192, 1024)).as_text()
    found = gspmd.search(text, mesh={"x": 8}, time_limit_s=SHORT_S)
    assert {decision.label: decision.count for decision in found.decisions if not decision.values} == {
        "%arg0 .. %arg14": 8,
        "%arg1 .. %arg15": 8,
        "%arg16": 1,
    }
    code = found.jax_code()
    assert "# %arg" in code
    exec(code, {})


def test_what_is_given_is_kept() -> None:
    specs = ({"up": P("x", "y"), "down": None}, None)
    program = gspmd.jit(step, mesh=MESH, in_shardings=specs, target=TARGET).lower(*LARGE).program
    found = gspmd.search(program, target=TARGET, time_limit_s=SHORT_S)
    given = next(decision for decision in found.decisions if decision.label.endswith("['up']"))
    assert (given.is_given, given.dims) == (True, (("x",), ("y",)))
    assert '[{"x"}, {"y"}]' in str(found.module)
    with pytest.raises(gspmd.UsageError, match="over a mesh of its own"):
        gspmd.search(program, mesh={"x": 8}, target=TARGET)


@pytest.mark.parametrize("time_limit_s", [0, 2, 20])
def test_nothing_slower_than_what_is_given_is_returned(time_limit_s: float) -> None:
    specs = ({"up": P(("x", "y")), "down": P(("x", "y"))}, P(("x", "y")))
    program = gspmd.jit(step, mesh=MESH, in_shardings=specs, target=TARGET).lower(*LARGE).program
    found = gspmd.search(program, target=TARGET, time_limit_s=time_limit_s)
    given = outcome_of(program)
    assert found.baselines["as it is"] == given
    assert found.outcome.step_s <= given.step_s
    assert outcome_of(found.module) == found.outcome
    assert "annotated in the program and kept: 3 of" in str(found)


def test_less_memory_is_used_where_there_is_less(plan: gspmd.ShardingPlan) -> None:
    program = jax.jit(step).lower(*LARGE)
    most = min(outcome.memory_bytes for outcome in plan.baselines.values())
    narrow = gspmd.search(program, mesh={"x": 4, "y": 2}, target=TARGET, memory=most, time_limit_s=SHORT_S)
    assert narrow.outcome.memory_bytes <= most
    assert narrow.outcome.step_s >= plan.outcome.step_s * 0.999
    assert not narrow.baselines["data parallel"].fits


def test_no_plan_fits() -> None:
    with pytest.raises(
        gspmd.Unsupported, match=r"a device has 1000 bytes to use, and needs \d+ .* missing. arguments take"
    ):
        gspmd.search(jax.jit(step).lower(*LARGE), mesh={"x": 8}, target=TARGET, memory=1000, time_limit_s=5)


def test_few_examples_leave_weights_where_they_are() -> None:
    weights = [{"up": of(2048, 8192, dtype=jnp.bfloat16), "down": of(8192, 2048, dtype=jnp.bfloat16)} for _ in "ab"]

    def decoded(params: Any, x: Any) -> Any:
        return params, layered(params, x).astype(jnp.float32)

    program = jax.jit(decoded, donate_argnums=0).lower(weights, of(64, 2048, dtype=jnp.bfloat16))
    found = gspmd.search(program, mesh=MESH, target=TARGET, time_limit_s=LONG_S)
    weights_bytes = sum(2 * weight.size for layer in weights for weight in layer.values())
    assert found.outcome.sent_bytes < weights_bytes / 64
    assert found.outcome.memory_bytes < weights_bytes / 4


def judged_as(monkeypatch: pytest.MonkeyPatch, seconds: list[float | None]) -> list[Any]:
    """Let plans be compiled to steps of so many seconds, in this order; None is refused. Returns what is asked."""
    asked: list[Any] = []

    def made(module: Any, *_: Any) -> CompiledOutcome | None:
        asked.append(module)
        step_s = seconds[len(asked) - 1] if len(asked) <= len(seconds) else None
        return None if step_s is None else CompiledOutcome(0, step_s, 0)

    monkeypatch.setattr(searching, "compiled_outcome", made)
    monkeypatch.setattr(searching, "check_judge", lambda target: None)
    return asked


def test_the_compiler_decides_between_different_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    program, options = jax.jit(step).lower(*LARGE), {"mesh": MESH, "target": TARGET, "time_limit_s": SHORT_S}
    asked = judged_as(monkeypatch, [3.0, None, 1.0, 2.0])
    found = gspmd.search(program, compiled=3, **options)
    assert len(asked) == 4
    assert len(set(map(str, asked))) == 4
    assert found.compiled == CompiledOutcome(0, 1.0, 0)
    assert str(found.module) == str(asked[2])
    assert found.outcome in found.baselines.values() or found.tried > len(found.baselines)
    assert outcome_of(found.module) == found.outcome


def test_what_the_compiler_refuses_is_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = judged_as(monkeypatch, [])
    with pytest.raises(gspmd.Unsupported, match=r"the compiler of tpu-v5p makes none of the \d best plans fit into"):
        gspmd.search(jax.jit(step).lower(*LARGE), mesh=MESH, target=TARGET, time_limit_s=SHORT_S, compiled=1)
    assert len(asked) == 3


def test_the_mesh_is_found() -> None:
    program = jax.jit(step).lower(*LARGE)
    found = gspmd.search(program, target="tpu:v5p:2x2x2", time_limit_s=SHORT_S)
    assert found.mesh.size == 8
    asked = gspmd.search(program, 4, target=TARGET, mesh="auto", time_limit_s=SHORT_S)
    assert asked.mesh.size == 4


# ---- plans that are kept ----


def test_a_plan_is_where_the_next_search_starts(plan: gspmd.ShardingPlan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan.save(path)
    assert json.loads(path.read_text()) == plan.to_dict()
    again = gspmd.search(jax.jit(step).lower(*LARGE), target=TARGET, plan=str(path), time_limit_s=LONG_S)
    assert again.mesh == plan.mesh
    assert again.outcome.step_s <= plan.outcome.step_s * 1.001


def test_pinned_decisions_are_kept(plan: gspmd.ShardingPlan, tmp_path: Path) -> None:
    data = plan.to_dict()
    for decision in data["decisions"]:
        if decision["argument"] == "params['up']":
            decision.update(sharding=[["y"], []], pinned=True)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    found = gspmd.search(jax.jit(step).lower(*LARGE), target=TARGET, plan=str(path), time_limit_s=SHORT_S)
    pinned = next(decision for decision in found.decisions if decision.label == "params['up']")
    assert (pinned.is_pinned, pinned.dims) == (True, (("y",), ()))
    assert "(pinned)" in str(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"form": 2}, "its form is not 1"),
        ({"form": None}, "its form"),
        ({"mesh": {"x": 0}}, "its mesh"),
        ({"mesh": [8]}, "its mesh"),
        ({"decisions": {}}, "its decisions are not a list"),
        ({"decisions": [3]}, "a decision names no argument"),
        ({"decisions": [{"argument": "x", "sharding": [["q"]]}]}, "axes that the mesh has not"),
        ({"decisions": [{"argument": "x", "sharding": [["x"], ["x"]]}]}, "or one twice"),
        ({"decisions": [{"argument": "x", "sharding": "x"}]}, "not the axes of each dimension"),
        ({"decisions": [{"argument": "x"}]}, "no 'sharding'"),
    ],
)
def test_files_that_are_no_plans(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"form": 1, "mesh": {"x": 8}, "decisions": [], **change}))
    with pytest.raises(gspmd.ParseError, match=re.escape(said)):
        PlanFile.read(path)
    path.write_text("[" * 100000)
    with pytest.raises(gspmd.ParseError, match="is not a plan"):
        PlanFile.read(path)
    with pytest.raises(gspmd.InputError, match="cannot read"):
        PlanFile.read(tmp_path / "none")


def test_a_plan_that_does_not_fit_the_program(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    decisions = [{"argument": "params['up']", "sharding": [["x"]]}]
    path.write_text(json.dumps({"form": 1, "mesh": {"x": 8}, "decisions": decisions}))
    with pytest.raises(gspmd.UsageError, match=re.escape("sharding of params['up'] does not fit bf16[2048,8192]")):
        gspmd.search(jax.jit(step).lower(*LARGE), target=TARGET, plan=str(path))


# ---- gspmd.jit ----


def test_a_function_searches_for_its_shardings() -> None:
    function, shapes = SMALL["perceptron"]
    keys = iter(jax.random.split(jax.random.key(0), 3))
    values = jax.tree.map(lambda s: 0.05 * jax.random.normal(next(keys), s.shape, s.dtype), shapes)
    searched = gspmd.jit(function, mesh={"x": 4, "y": 2}, shardings={"time_limit_s": 5})
    expected = jax.jit(function)(*values)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), searched(*values), expected)
    again = searched(searched(*values), values[1])  # what it returns is no other kind of argument
    twice = jax.jit(function)(expected, values[1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), again, twice)
    assert len(searched._lowered) == 1
    lowered = searched.lower(*values)
    assert lowered.partitioned.num_partitions == 8
    assert lowered.plan.module is lowered.program
    with pytest.raises(gspmd.UsageError, match="expected 'search'"):
        gspmd.jit(function, shardings="find")


# ---- arguments and the command ----


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": 0}, "memory is 0"),
        ({"memory": "90%"}, "memory is '90%'"),
        ({"memory": float("nan")}, "memory is nan"),
        ({"time_limit_s": -1}, "time_limit_s is -1"),
        ({"mesh": "x"}, "mesh is 'x'"),
        ({"mesh": {"x": 0}}, "mesh is"),
        ({"target": "nowhere"}, "nowhere"),
        ({"compiled": -1}, "compiled is -1"),
        ({"compiled": 2, "target": TARGET}, "plans cannot be compiled for 'tpu-v5p'"),
        ({}, "the number of devices is unknown"),
    ],
)
def test_bad_arguments(options: dict[str, Any], said: str) -> None:
    with pytest.raises(gspmd.UsageError, match=re.escape(said)):
        gspmd.search(jax.jit(step).lower(*LARGE), **options)


def test_annotations_that_contradict_are_refused() -> None:
    function = 'func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"x"}]>})'
    program = f'sdy.mesh @mesh = <["x"=2]>\n{function} -> tensor<8x8xf32> {{\n  return %a : tensor<8x8xf32>\n}}'
    with pytest.raises(gspmd.Error, match="x"):
        gspmd.search(program, time_limit_s=1)


@pytest.mark.parametrize("text", ["", "x", "x=", "x=0", "x=8,x=4", "x=8;y=4", "=8", "x=-1", "8"])
def test_texts_that_are_no_meshes(text: str) -> None:
    with pytest.raises(gspmd.UsageError, match="is not a mesh"):
        parse_mesh_sizes(text)


def test_a_partitioned_program_is_refused() -> None:
    mesh, function = 'sdy.mesh @mesh = <["x"=2]>', "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32>"
    program = gspmd.partition(f"{mesh}\n{function} {{\n  return %a : tensor<8xf32>\n}}")
    with pytest.raises(gspmd.UsageError, match="already partitioned"):
        gspmd.search(program.module)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.mlir"
    path.write_text(jax.jit(step).lower(*LARGE).as_text(debug_info=True))
    return path


@pytest.mark.usefixtures("program")
def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["search", "p.mlir", "--target", TARGET, "--mesh", "x=4,y=2", "--time-limit", "4"]
    assert cli.main([*words, "-o", "found.mlir", "--plan", "plan.json"]) == 0
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines() if not line.startswith(("   -", "   +"))) <= 80
    assert "this plan" in said
    plan = json.loads(Path("plan.json").read_text())
    outcome = outcome_of("found.mlir")
    assert outcome.to_dict() == plan["outcome"]
    assert cli.main([*words, "--start", "plan.json", "--jax"]) == 0
    assert "def planned(name, tree):" in capsys.readouterr().out
    assert cli.main([*words, "--memory", "1KiB"]) == 1
    assert "no plan that was found fits" in capsys.readouterr().err
    assert cli.main([*words, "--json", "--jax"]) == 2


def test_the_demo_searches(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "mlp", "--recipe", "search", "--steps", "2"]) == 0
    said = capsys.readouterr().out
    assert "this plan" in said
    assert "PASS: 2 steps agree" in said


def test_a_manual_computation_may_have_more_operands_than_results() -> None:
    """Whose memory is that of what they are given, and not that of results."""
    program = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<32x8xf32>, %b: tensor<32x8xf32>) -> tensor<32x8xf32> {
      %half = stablehlo.constant dense<0.5> : tensor<32x8xf32>
      %0 = sdy.manual_computation(%a, %b, %half)
          in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>]
          out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"}
          (%c: tensor<8x8xf32>, %d: tensor<8x8xf32>, %e: tensor<8x8xf32>) {
        %1 = stablehlo.add %c, %d : tensor<8x8xf32>
        %2 = stablehlo.multiply %1, %e : tensor<8x8xf32>
        sdy.return %2 : tensor<8x8xf32>
      } : (tensor<32x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }
    """
    found = gspmd.search(program, time_limit_s=5)
    assert found.outcome.sent_bytes == 0

"""`gspmd.suggest` and `gspmd suggest`: what is tried, what it costs, how it is written, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.costs.outcome import Outcome
from gspmd.dialect.axes import Axis
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.explanations.value_names import given_operations
from gspmd.suggestions.annotating import GivenValue, ValueAnnotation
from gspmd.suggestions.source_patch import SourceLines, spec_text
from gspmd.suggestions.suggesting import Suggestions
from gspmd.tools import cli

TARGET = "tpu-v5p"
MESH = {"x": 8}

MLP = """\
module {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%batch: tensor<8192x2048xbf16>, %up: tensor<2048x8192xbf16>, %down: tensor<8192x2048xbf16>) -> tensor<8192x2048xbf16> {
    %hidden = stablehlo.dot_general %batch, %up, contracting_dims = [1] x [0] : (tensor<8192x2048xbf16>, tensor<2048x8192xbf16>) -> tensor<8192x8192xbf16>
    %out = stablehlo.dot_general %hidden, %down, contracting_dims = [1] x [0] : (tensor<8192x8192xbf16>, tensor<8192x2048xbf16>) -> tensor<8192x2048xbf16>
    return %out : tensor<8192x2048xbf16>
  }
}
"""  # noqa: E501
CALLED = """\
module {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<8192x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %b: tensor<8192x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<8192x8192xbf16> {
    %0 = func.call @product(%a, %b) : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    %1 = func.call @product(%0, %b) : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    return %1 : tensor<8192x8192xbf16>
  }
  func.func private @product(%l: tensor<8192x8192xbf16>, %r: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
    %p = stablehlo.dot_general %l, %r, contracting_dims = [1] x [0] : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    return %p : tensor<8192x8192xbf16>
  }
}
"""  # noqa: E501
GSPMD = """\
module attributes {mhlo.num_partitions = 8 : i32} {
  func.func @main(%a: tensor<8192x2048xbf16>, %b: tensor<2048x8192xbf16> {mhlo.sharding = "{replicated}"}) -> tensor<8192x8192xbf16> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8192x2048xbf16>, tensor<2048x8192xbf16>) -> tensor<8192x8192xbf16>
    return %0 : tensor<8192x8192xbf16>
  }
}
"""  # noqa: E501


def outcome_of(program: Any, **options: Any) -> Outcome:
    report = gspmd.cost(program, target=TARGET, **options)
    return Outcome(report.sent_bytes, report.timeline.total_s, report.memory.peak)


def found_in(program: Any, **options: Any) -> Suggestions:
    return gspmd.suggest(program, target=TARGET, time_limit_s=600, **options)


# ---- what is found ----


def test_the_figures_are_those_of_the_annotated_program() -> None:
    found = found_in(MLP)
    assert found.before == outcome_of(MLP)
    assert found.found
    for number, suggestion in enumerate(found.found, 1):
        assert suggestion.outcome == outcome_of(found.apply(number))
        assert suggestion.outcome.step_s < found.before.step_s


def test_the_batch_is_what_is_split() -> None:
    best = found_in(MLP).found[0]
    assert str(best.annotation) == 'argument %batch [{"x"}, {}]'
    assert best.annotation.sdy == 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'
    assert any(annotation.value.name == "%hidden" for annotation in best.alike)
    assert best.patch is None


def test_only_the_annotation_is_added() -> None:
    found = found_in(MLP)
    given, applied = (str(gspmd.suggestions.suggesting.read_program(p)) for p in (MLP, found.apply()))
    assert applied.replace(f" {{{found.found[0].annotation.sdy}}}", "") == given


@pytest.mark.parametrize("save", ["time", "memory"])
def test_what_is_to_be_saved_is_saved(save: str) -> None:
    found = found_in(MLP, save=save)
    figure = {"time": "step_s", "memory": "memory_bytes"}[save]
    assert found.found
    saved = [getattr(suggestion.outcome, figure) for suggestion in found.found]
    assert saved == sorted(saved)
    assert saved[-1] < getattr(found.before, figure)


def test_bytes_that_the_decision_saves_are_not_saved_again() -> None:
    """Weights are gathered, or sums are taken: either sends an eighth less than 32 MiB, which no annotation spares."""
    columns = '%up: tensor<2048x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}'
    found = found_in(MLP.replace("%up: tensor<2048x8192xbf16>", columns), save="bytes")
    assert found.before.sent_bytes == 2048 * 8192 * 2 * 7 // 8
    assert (found.found, found.tried) == ((), found.promising)


def test_a_value_in_a_function_that_is_called_twice() -> None:
    found = found_in(CALLED)
    best = found.found[0]
    assert best.annotation.value.name == "@product:%p"
    assert best.annotation.sdy.startswith("sdy.sharding_constraint @product:%p <@mesh, [{")
    assert best.outcome == outcome_of(found.apply())
    assert best.outcome.step_s < found.before.step_s / 2


def test_annotations_of_gspmd() -> None:
    found = found_in(GSPMD)
    assert found.found
    assert found.found[0].outcome == outcome_of(found.apply())
    assert found.found[0].outcome.step_s < found.before.step_s


def test_values_of_loops() -> None:
    def run(x: Any, weights: Any) -> Any:
        return jax.lax.scan(lambda value, weight: (jax.nn.relu(value @ weight), None), x, weights)[0]

    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((4096, 2048), (4, 2048, 2048))]
    found = gspmd.jit(run, mesh=MESH, target=TARGET).lower(*shapes).suggest(time_limit_s=600)
    assert found.found[0].outcome.step_s < found.before.step_s / 3
    for number, suggestion in enumerate(found.found[:4], 1):
        assert suggestion.outcome == outcome_of(found.apply(number))


def test_what_exists_is_kept() -> None:
    annotated = MLP.replace("xbf16>, %up", 'xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %up')
    found = found_in(annotated)
    for suggestion in found.found:
        assert suggestion.annotation.value.name != "%batch"
    for number in range(1, len(found.found) + 1):
        assert '[{}, {"x"}]' in str(found.apply(number)).split("%arg1")[0]


def test_nothing_to_split() -> None:
    text = MLP.replace("8192", "1").replace("2048", "1")
    found = found_in(text)
    assert (found.found, found.tried, found.promising) == ((), 0, 0)
    assert str(found).endswith("0 annotations tried, none of them help")


# ---- the source ----


def traced(path: Path, specs: tuple[Any, ...], *shapes: tuple[int, ...]) -> Any:
    """The function `f` of a file, lowered."""
    name = f"{path.stem}_{abs(hash(path.read_text()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # such files are written again within a second
        spec.loader.exec_module(module)
    values = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]
    return gspmd.jit(module.f, mesh=MESH, in_shardings=specs, target=TARGET).lower(*values)


SHAPES = ((8192, 2048), (2048, 8192), (8192, 2048))
SPECS = ((("x",), ()), ((), ("x",)), ((), ()))


def sharding_over(number: int) -> TensorSharding:
    """One of `SPECS`, of a matrix."""
    dims = tuple(DimSharding(tuple(Axis(name, 1, MESH[name]) for name in names)) for names in SPECS[number])
    return TensorSharding(Mesh(tuple(MESH.items())), dims)


def product_annotation(module: Any, number: int, spec: int) -> ValueAnnotation:
    """An annotation of the result of an operation of the program."""
    op = [op for _, op in given_operations(module)][number]
    value = GivenValue(number, 0, f"%{number}", "", None, tuple(op.results[0].type.shape))
    return ValueAnnotation(value, sharding_over(spec))


HEAD = "import jax\nimport gspmd\nfrom jax.sharding import PartitionSpec as Spec\n\n\ndef f(x, up, down):\n"


@pytest.mark.parametrize(
    "body",
    [
        "    hidden = jax.nn.relu(x @ up)\n    return hidden @ down\n",
        '    größe = "ä"; hidden = x @ up\n    return hidden @ down\n',
        "    hidden = x @ (\n        up\n    )\n    return (\n        hidden\n        @ down\n    )\n",
        "    def layer(value, w):\n        return value @ w\n    return layer(layer(x, up), down) @ up @ down\n",
        "    for weight in (up, down, up):\n        x = x @ weight\n    return x @ down\n",
        "    for _ in range(3):\n        x = x @ (x.T @ x)\n    return x @ (up @ down)\n",
    ],
)
def test_a_patch_does_what_was_found(body: str, tmp_path: Path) -> None:
    """The source with the change is traced, and costs what was said."""
    path = tmp_path / "model.py"
    path.write_text(HEAD + body)
    found = traced(path, (P(), P(), P()), *SHAPES).suggest(time_limit_s=600)
    patched = [suggestion for suggestion in found.found if suggestion.patch is not None]
    assert patched
    for suggestion in patched:
        assert suggestion.patch is not None
        lines = path.read_text().splitlines()
        first = suggestion.patch.line - 1
        assert tuple(lines[first : first + len(suggestion.patch.old)]) == suggestion.patch.old
        lines[first : first + len(suggestion.patch.old)] = suggestion.patch.new
        changed = tmp_path / "changed.py"
        changed.write_text("\n".join(lines) + "\n")
        assert "Spec(" in changed.read_text()
        outcome = outcome_of(traced(changed, (P(), P(), P()), *SHAPES).program)
        assert outcome.step_s == pytest.approx(suggestion.outcome.step_s, rel=1e-12)  # a sum in another order
        assert outcome == dataclasses.replace(suggestion.outcome, step_s=outcome.step_s)


def test_uneven_shards_are_annotated_by_ours(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + "    return (x @ up) @ down\n")
    shapes = ((8190, 2048), (2048, 8190), (8190, 2048))
    found = traced(path, (P(), P(), P()), *shapes).suggest(time_limit_s=600)
    patches = [suggestion.patch for suggestion in found.found if suggestion.patch is not None]
    assert any(re.search(r'gspmd\.annotate\(.*, "x", None\)', line) for patch in patches for line in patch.new)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (
            "    return x @ up @ down @ up\n",
            ["    return split(split(split(x @ up, 0) @ down, 1) @ up, 2)"],
        ),
        (
            "    hidden = (x @ up\n        ); return (hidden\n        @ (down @ up))\n",
            [
                "    hidden = (split(x @ up, 0)",
                "        ); return (split(hidden",
                "        @ (split(down @ up, 1)), 2))",
            ],
        ),
        (
            "    first = x @ up\n\n    return first @ down @ up\n",
            ["    first = split(x @ up, 0)", "", "    return split(split(first @ down, 1) @ up, 2)"],
        ),
    ],
)
def test_annotations_that_share_lines_have_one_patch(body: str, lines: list[str], tmp_path: Path) -> None:
    """The products in their order are split as `SPECS` says; whichever patch is applied last, all is said."""
    path = tmp_path / "model.py"
    path.write_text(HEAD + body)
    module = traced(path, (P(), P(), P()), *SHAPES).program
    products = [n for n, (_, op) in enumerate(given_operations(module)) if op.name == "stablehlo.dot_general"]
    annotations = [product_annotation(module, number, place) for place, number in enumerate(products)]
    patches = SourceLines(module).patches(annotations)
    assert set(patches) == set(annotations)
    changed = (HEAD + body).splitlines()
    for patch in patches.values():
        changed[patch.line - 1 : patch.line - 1 + len(patch.old)] = patch.new
    found = [line.replace("jax.lax.with_sharding_constraint", "split") for line in changed[HEAD.count("\n") :]]
    for place in range(3):
        found = [line.replace(spec_text(sharding_over(place), "Spec"), str(place)) for line in found]
    assert found == lines


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("    return sum(value @ down for value in (x @ up, x @ up))\n", "one line makes several values"),
        ("    first, second = jax.numpy.split(x @ up, 2)\n    return first @ down + second @ down\n", "a pair"),
    ],
)
def test_what_the_source_does_not_show_is_not_patched(body: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + body)
    found = traced(path, (P(), P(), P()), *SHAPES).suggest(time_limit_s=600)
    for suggestion in found.found:
        if suggestion.patch is not None:
            assert suggestion.patch.old != suggestion.patch.new
            assert "split(x @ up, 2)," not in "".join(suggestion.patch.new), why


def test_a_source_that_changed_is_not_patched(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + "    return (x @ up) @ down\n")
    lowered = traced(path, (P(), P(), P()), *SHAPES)
    path.write_text(HEAD + "    # another line\n    return (x @ up) @ down\n")
    assert all(suggestion.patch is None for suggestion in lowered.suggest(time_limit_s=600).found)


def test_an_argument_is_said_for_in_shardings() -> None:
    def function(params: Any, x: Any) -> Any:
        return jax.nn.relu(x @ params["up"]) @ params["down"]

    params = {
        name: jax.ShapeDtypeStruct(shape, jnp.bfloat16) for name, shape in (("up", SHAPES[1]), ("down", SHAPES[2]))
    }
    lowered = gspmd.jit(function, mesh=MESH, target=TARGET).lower(params, jax.ShapeDtypeStruct(SHAPES[0], jnp.bfloat16))
    text = str(lowered.suggest(time_limit_s=600))
    assert 'in_shardings of x: jax.P("x", None)' in text
    assert "in_shardings of params['down']: jax.P(" in text


# ---- limits and bad input ----


def test_limits_are_kept() -> None:
    found = found_in(MLP, tries=2)
    assert found.tried == 2
    assert found.promising > 2
    assert "more were skipped by the limits on tries and time" in str(found)
    none = gspmd.suggest(MLP, target=TARGET, time_limit_s=0)
    assert none.tried == 0
    assert none.found == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"save": "flops"}, "save is 'flops', expected one of time, bytes, memory"),
        ({"save": 3}, "save is 3"),
        ({"tries": -1}, "tries is -1"),
        ({"tries": True}, "tries is True"),
        ({"time_limit_s": "1"}, "time_limit_s is '1'"),
        ({"time_limit_s": float("nan")}, "time_limit_s is nan"),
        ({"target": "nowhere"}, "nowhere"),
    ],
)
def test_bad_arguments(options: dict[str, Any], said: str) -> None:
    with pytest.raises(gspmd.UsageError, match=re.escape(said)):
        gspmd.suggest(MLP, **options)


def test_a_partitioned_program_is_refused() -> None:
    with pytest.raises(gspmd.UsageError, match="already partitioned"):
        gspmd.suggest(gspmd.partition(MLP).module)


@pytest.mark.parametrize("number", [0, 99, -1, "1", None])
def test_there_is_no_such_suggestion(number: Any) -> None:
    with pytest.raises(gspmd.UsageError, match="there is no suggestion"):
        found_in(MLP, tries=1).apply(number)


# ---- the command ----


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.mlir"
    path.write_text(MLP)
    return path


@pytest.mark.usefixtures("program")
def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["suggest", "p.mlir", "--target", TARGET]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert max(map(len, said.out.splitlines())) <= 80
    assert "1. argument %batch" in said.out
    assert cli.main(["suggest", "p.mlir", "--target", TARGET, "--limit", "1", "-o", "better.mlir"]) == 0
    assert "more that save less" in capsys.readouterr().out
    assert outcome_of("better.mlir") == found_in("p.mlir").found[0].outcome
    assert "loc(" not in Path("better.mlir").read_text()


@pytest.mark.usefixtures("program")
def test_the_command_writes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["suggest", "p.mlir", "--target", TARGET, "--apply"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("module {")
    assert "1. argument %batch" in said.err
    assert cli.main(["suggest", "p.mlir", "--apply", "--json"]) == 2
    assert "both write to stdout" in capsys.readouterr().err
    assert cli.main(["suggest", "p.mlir", "--target", TARGET, "--apply=99"]) == 2
    assert "there is no suggestion 99" in capsys.readouterr().err


@pytest.mark.usefixtures("program")
def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["suggest", "p.mlir", "--target", TARGET, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == found_in("p.mlir").to_dict()
    best = data["suggestions"][0]
    saved = {name: data["before"][name] - best["outcome"][name] for name in best["saved"]}
    assert best["saved"] == saved
    assert (best["value"], best["kind"], best["sharding"]) == ("%batch", "argument", '[{"x"}, {}]')


@pytest.mark.usefixtures("program")
def test_hints_of_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "p.mlir", "--target", TARGET]) == 0
    summary = capsys.readouterr().out
    assert cli.main(["explain", "p.mlir", "--target", TARGET, "--hints"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(summary.rstrip("\n"))
    assert "annotations that would help (gspmd suggest tries more):\n\n1. argument %batch" in said
    assert cli.main(["explain", "p.mlir", "--target", TARGET, "--json", "--value", "%out", "--hints"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [hint["value"] for hint in data["hints"]] == [
        s.annotation.value.name for s in found_in("p.mlir", tries=20).found
    ]
    Path("p.mlir").write_text(MLP.replace("8192", "1").replace("2048", "1"))
    assert cli.main(["explain", "p.mlir", "--hints", "--conflicts"]) == 0
    assert capsys.readouterr().out.endswith("no hints: none of the 0 annotations tried would help\n")


def test_places_of_a_traced_program_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + "    return (x @ up) @ down\n")
    given, better = tmp_path / "given.mlir", tmp_path / "better.mlir"
    given.write_text(traced(path, (P(), P(), P()), *SHAPES).as_text(debug_info=True))
    assert cli.main(["suggest", str(given), "--target", TARGET, "-o", str(better)]) == 0
    assert f"{path}:7" in capsys.readouterr().out
    assert f'"{path}":7' in better.read_text()

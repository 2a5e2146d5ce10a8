"""The data of a report are what the analyses say: its numbers are those of `gspmd cost` and `gspmd explain`."""

from __future__ import annotations

import json
from typing import Any

import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec
from support import report_programs

import gspmd
from gspmd.costs.lines import line_costs
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_sharding
from gspmd.pictures.shards import devices_label, shard_picture
from gspmd.reports.page import _compact, page
from gspmd.runtime.layout import shard_slices

TARGET = "tpu-v5p"


@pytest.fixture(scope="module", params=["PLAIN", "LOOP"])
def found(request: pytest.FixtureRequest) -> gspmd.Report:
    return gspmd.report(getattr(report_programs, request.param), target=TARGET)


@pytest.fixture(scope="module")
def plain() -> gspmd.Report:
    return gspmd.report(report_programs.PLAIN, target=TARGET)


def rows(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def text_of(report: gspmd.Report) -> str:
    return report_programs.LOOP if report.data["program"] == "loop" else report_programs.PLAIN


def test_the_data_are_json(found: gspmd.Report) -> None:
    assert json.loads(found.json()) == found.data
    assert json.loads(json.dumps(found.data)) == found.data


@pytest.mark.parametrize("name", ["PLAIN", "LOOP"])
def test_what_is_proved_is_said_value_by_value(name: str) -> None:
    text = getattr(report_programs, name)
    data = gspmd.report(text, verify=True).data
    assert data["proof"]["verdict"] == "proved"
    assert data["proof"]["lines"] == gspmd.verify(text).lines()
    for row in rows(data["values"]):
        if row["kind"] == "result":
            assert row["proof"] == "proved"
        elif row["kind"] == "argument" or row["operation"] in ("stablehlo.dot_general", "stablehlo.tanh"):
            assert row["proof"] == "parts"
        else:
            assert row["proof"] in ("parts", "summands", "unknown", "")


def test_nothing_is_said_of_proofs_that_nobody_asked_for(plain: gspmd.Report) -> None:
    assert plain.data["proof"] is None
    assert set(plain.data["values"]["proof"]) == {""}


def test_costs_are_those_of_gspmd_cost(found: gspmd.Report) -> None:
    cost, data = gspmd.cost(text_of(found), target=TARGET), found.data
    assert data["cost"]["communication"]["bytes"] == cost.sent_bytes
    assert data["cost"]["memory"]["peak"] == cost.memory.peak
    assert data["cost"]["flops"]["model"] == cost.model_flops
    assert data["cost"]["time"]["compute_s"] == cost.compute_s
    collectives = rows(data["collectives"])
    assert [(c["kind"], c["bytes"], c["count"], c["time_s"], c["cause"]) for c in collectives] == [
        (c.collective.kind, c.collective.bytes, c.collective.count, c.time_s, c.collective.cause)
        for c in cost.collectives
    ]
    assert [held["bytes"] for held in data["at_peak"]] == [buffer.bytes for buffer in cost.memory.buffers]
    assert max(data["moments"]["held"]) == cost.memory.peak == data["moments"]["held"][data["peak_moment"]]


def test_lines_have_all_that_is_sent_computed_and_held(found: gspmd.Report) -> None:
    cost, lines = found.cost, line_costs(found.cost)
    assert sum(line.sent_bytes for line in lines) == cost.sent_bytes
    assert sum(line.flops for line in lines) == pytest.approx(cost.work.total_flops)
    assert sum(line.traffic_bytes for line in lines) == pytest.approx(cost.work.traffic_bytes)
    assert sum(line.held_bytes for line in lines) == sum(buffer.bytes for buffer in cost.memory.buffers)
    assert [line.time_s for line in lines] == sorted((line.time_s for line in lines), reverse=True)


def test_values_and_their_ways_back_are_those_of_gspmd_explain(found: gspmd.Report) -> None:
    explanation, data = gspmd.explain(text_of(found), target=TARGET), found.data
    steps = rows(data["steps"])
    for row, value in zip(rows(data["values"]), explanation.values, strict=True):
        assert (row["name"], row["type"], row["sharding"]) == (value.name, value.type, value.sharding)
        for (dimension, axes, first, origin), derivation in zip(row["derivations"], value.derivations, strict=True):
            assert (dimension, axes) == (derivation.dimension, derivation.axes)
            told, step = [], first
            while step >= 0:
                told.append(steps[step])
                step = steps[step]["next"]
            assert [(s["from_value"], s["operation"], data["levels"][s["level"]]) for s in told] == [
                (s.from_value, s.operation, s.level) for s in derivation.steps
            ]
            annotation = data["origins"][origin]
            assert (annotation["kind"], annotation["value"]) == (derivation.origin.kind, derivation.origin.value)


def test_conflicts_are_those_of_gspmd_explain_with_their_collectives(found: gspmd.Report) -> None:
    explanation, data = gspmd.explain(text_of(found), target=TARGET), found.data
    collectives = rows(data["collectives"])
    owned = []
    for index, (row, conflict) in enumerate(zip(data["conflicts"], explanation.conflicts, strict=True)):
        assert (row["operation"], row["bytes"], row["time_s"]) == (conflict.operation, conflict.bytes, conflict.time_s)
        assert [collectives[c]["kind"] for c in row["collectives"]] == [c.kind for c in conflict.collectives]
        assert all(collectives[c]["conflict"] == index for c in row["collectives"])
        owned += row["collectives"]
        ways = data["alternatives"][row["alternatives"]] if row["alternatives"] >= 0 else []
        assert [way["bytes"] for way in ways] == [way.bytes for way in conflict.alternatives]
    assert sorted(owned) == list(range(len(collectives)))


def test_a_value_that_is_moved_has_pictures_of_before_and_after(plain: gspmd.Report) -> None:
    moved = [t for c in plain.data["conflicts"] for t in c["tensors"] if t["has"] != t["runs_as"]]
    assert moved
    for tensor in moved:
        before, after = (plain.data["pictures"][tensor[side]] for side in ("before", "after"))
        assert before["shape"] == after["shape"]
        assert before != after


def test_arguments_have_their_local_shapes_and_uneven_shards(plain: gspmd.Report) -> None:
    first, _ = plain.data["arguments"]
    assert (first["local_shape"], first["bytes"], first["local_bytes"]) == ([8, 64], 30 * 64 * 4, 8 * 64 * 4)
    picture = plain.data["pictures"][first["picture"]]
    assert (first["name"], picture["is_even"]) == ("%a", False)
    assert picture["rows"]["ranges"] == [[0, 8], [8, 16], [16, 24], [24, 30]]
    assert picture["layers"][0]["cells"] == [[["0-1", [0, 1]]], [["2-3", [2, 3]]], [["4-5", [4, 5]]], [["6-7", [6, 7]]]]
    assert plain.data["values"]["name"][first["values"][0]] == "%a"


def test_lines_are_shown_where_the_program_says_where_they_are(tmp_path: Any) -> None:
    path = tmp_path / "plain.mlir"
    path.write_text(report_programs.PLAIN)
    lines = rows(gspmd.report(path).data["lines"])
    assert any(line["line"] == 6 and line["text"].startswith("%0 = stablehlo.dot_general") for line in lines)


def test_no_line_of_a_file_that_is_no_source_is_shown(tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    program = report_programs.PLAIN.replace(
        "%1 = stablehlo.tanh %0 : tensor<30x48xf32>",
        f'%1 = stablehlo.tanh %0 : tensor<30x48xf32> loc("{secret}":1:1)',
    )
    assert str(secret) in str(gspmd.report(program).data["lines"])
    assert "the secret" not in gspmd.report(program).html()


def test_the_timeline_is_between_the_bounds(found: gspmd.Report) -> None:
    cost, timeline = found.cost, found.timeline
    slack = 1 + 1e-9
    assert cost.lower_bound_s <= timeline.total_s * slack
    assert timeline.total_s <= cost.upper_bound_s * slack
    assert timeline.communication_s == pytest.approx(cost.communication_s)
    assert timeline.hidden_s + timeline.exposed_s == pytest.approx(cost.communication_s)


@pytest.mark.parametrize(
    ("shape", "dims", "axes"),
    [
        ((9, 16), '[{"x"}, {"y"}]', {"x": 4, "y": 2}),
        ((5,), '[{"x", "y"}]', {"x": 4, "y": 2}),
        ((4, 6, 3), '[{"x"}, {"y"}, {"z"}]', {"x": 2, "y": 3, "z": 2}),
        ((8, 8), '[{}, {"y", "x"}]', {"x": 4, "y": 2}),
        ((), "[]", {"x": 4}),
    ],
)
def test_a_picture_shows_what_devices_hold(shape: tuple[int, ...], dims: str, axes: dict[str, int]) -> None:
    sharding = parse_sharding(f"<@mesh, {dims}>", {"mesh": Mesh(tuple(axes.items()))})
    picture = shard_picture(shape, sharding)
    held = shard_slices(sharding, shape)
    shown = set()
    for layer in picture.layers:
        for row, cells in enumerate(layer.cells):
            for column, devices in enumerate(cells):
                for device in devices:
                    shown.add(device)
                    for parts, place in ((picture.rows, row), (picture.columns, column)):
                        if parts.dim is not None:
                            assert parts.ranges[place] == (held[device][parts.dim].start, held[device][parts.dim].stop)
    assert shown == set(range(sharding.mesh.size))


def test_a_lowered_function_reports() -> None:
    @gspmd.jit(mesh={"x": 4, "y": 2}, in_shardings=(PartitionSpec("x"), PartitionSpec("x", "y")), target=TARGET)
    def product(activations: Any, weights: Any) -> Any:
        return jnp.tanh(activations @ weights)

    lowered = product.lower(jnp.zeros((30, 64)), jnp.zeros((64, 48)))
    data = lowered.report().data
    assert [argument["name"] for argument in data["arguments"]] == ["activations", "weights"]
    assert data["cost"]["communication"]["bytes"] == lowered.cost().sent_bytes
    assert data["target"] == TARGET
    assert any("jnp.tanh(activations @ weights)" in text for text in data["lines"]["text"])


def test_of_a_mesh_of_millions_the_first_device_is_told() -> None:
    mesh = Mesh((("x", 4), ("y", 2**20)))
    picture = shard_picture((8, 8), parse_sharding('<@mesh, [{"x"}, {}]>', {"mesh": mesh}))
    assert [row[0] for row in picture.layers[0].cells] == [(0,), (2**20,), (2 * 2**20,), (3 * 2**20,)]
    assert devices_label(picture.layers[0].cells[1][0], picture.copies) == "1048576 .. (1048576)"


def test_texts_that_are_repeated_are_written_once() -> None:
    table = {"name": ["a", "b", "a", "a", "b", "b"], "other": ["a", "b"], "size": [1, 2]}
    assert _compact(table) == {
        "name": {"words": ["a", "b"], "at": [0, 1, 0, 0, 1, 1]},
        "other": ["a", "b"],
        "size": [1, 2],
    }


def test_the_page_of_a_program_is_small(plain: gspmd.Report) -> None:
    assert len(page(plain.data)) < 200_000

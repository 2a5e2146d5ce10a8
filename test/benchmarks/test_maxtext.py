"""MaxText as a benchmark, as far as it needs no MaxText: configurations, what is watched, counts and the page."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CELL = {
    "values": [6.0, 5.5],
    "run_s": 8.0,
    "run_cpu_s": 16.0,
    "first_call_s": 0.5,
    "call_s": 0.02,
    "lower_s": 1.0,
    "partition_s": 0.5,
    "compile_s": 2.0,
    "sent": {"all_gather": 2.0**20},
    "sent_scattered": 2.0**20,
    "collectives": {"all_gather": 3},
    "flops": 1e6,
    "unknown_loops": 0,
    "memory": {"peak": 2**21},
}
COMPILED = {key: value for key, value in CELL.items() if key != "values"} | {
    "compute_s": 1.0,
    "communication_s": 0.5,
    "step_s": 1.25,
    "limit": 2.0**34,
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "maxtext"))
    return importlib.import_module


def test_configurations_are_over_eight_devices_and_give_each_key_once(load: Any) -> None:
    for name, run in load("configurations").RUNS.items():
        keys = dict(argument.split("=", 1) for argument in run.arguments)
        assert len(keys) == len(run.arguments), name
        sizes = [int(value) for key, value in keys.items() if key.startswith("ici_")]
        assert math.prod(sizes) == 8, name


def test_meshes_of_topologies_have_all_of_their_chips(load: Any) -> None:
    for name, row in load("configurations").TOPOLOGIES.items():
        keys = dict(argument.split("=", 1) for argument in row.arguments)
        devices = math.prod(int(value) for key, value in keys.items() if key.startswith("ici_"))
        chips = math.prod(map(int, row.target.rpartition(":")[2].split("x")))
        assert devices == chips, name


def test_names_of_rows_can_be_told_apart_on_the_command_line(load: Any) -> None:
    run = load("run")
    assert not any(run.TABLE.separator in name for name in run.ROWS)
    modules = [load("configurations").RUNS, load("configurations").TOPOLOGIES, load("kernels").PROGRAMS]
    assert len(run.ROWS) == sum(map(len, modules))


@pytest.mark.parametrize("how", ["gspmd.jit", "jax.jit"])
def test_what_is_watched_is_made_by_the_one_that_was_asked_for(load: Any, how: str) -> None:
    watching = load("watching")
    watch = watching.Watch(how, float)
    step = watch.jit(lambda x: x.sum())
    array = jax.device_put(jnp.arange(8.0), jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x")))
    step.lower(array).compile()
    assert step(array) == 28.0
    (record,) = watch.records
    watching.check_made_by(how, record.executable())
    assert record.results == [28.0]
    other = "jax.jit" if how == "gspmd.jit" else "gspmd.jit"
    with pytest.raises(AssertionError, match=f"{other} was asked for"):
        watching.check_made_by(other, record.executable())


def test_a_function_that_was_only_called_has_its_executable_afterwards(load: Any) -> None:
    watching = load("watching")
    watch = watching.Watch("jax.jit")
    watch.jit(lambda x: x + 1)(jnp.ones(4))
    assert "add" in watch.records[0].executable().as_text()


def test_all_reduces_that_are_only_sliced_count_as_reduce_scatters_too(load: Any) -> None:
    head = "HloModule m, num_partitions=4\n\n"
    fused = "%cut (p: f32[16], i: s32[]) -> f32[4] {\n  %p = f32[16]{0} parameter(0)\n  %i = s32[] parameter(1)\n"
    fused += "  ROOT %c = f32[4]{0} dynamic-slice(%p, %i), dynamic_slice_sizes={4}\n}\n\n"
    entry = (
        "ENTRY %main (a: f32[16], i: s32[]) -> f32[4] {\n  %a = f32[16]{0} parameter(0)\n  %i = s32[] parameter(1)\n"
    )
    entry += "  %r = f32[16]{0} all-reduce(%a), replica_groups={{0,1,2,3}}, to_apply=%add\n"
    sliced = "  ROOT %s = f32[4]{0} dynamic-slice(%r, %i), dynamic_slice_sizes={4}\n}\n"
    in_fusion = "  ROOT %s = f32[4]{0} fusion(%r, %i), kind=kLoop, calls=%cut\n}\n"
    also_whole = (
        "  %s = f32[4]{0} dynamic-slice(%r, %i), dynamic_slice_sizes={4}\n  ROOT %n = f32[16]{0} negate(%r)\n}\n"
    )
    count = load("hlo_counts").count
    assert [count(head + fused + entry + end).bytes for end in (sliced, in_fusion, also_whole)] == [96.0] * 3
    scattered = [count(head + fused + entry + end).scattered_bytes for end in (sliced, in_fusion, also_whole)]
    assert scattered == [48.0, 48.0, 96.0]


def test_the_page_has_what_is_known_and_says_what_is_not(load: Any) -> None:
    runs = list(load("configurations").RUNS)
    topology = next(iter(load("configurations").TOPOLOGIES))
    more = CELL | {"sent_scattered": 2.0**21, "values": [6.0, math.nan]}
    cells = {f"{runs[0]}, {how}": CELL for how in ("gspmd.jit", "jax.jit")}
    cells |= {f"{runs[1]}, gspmd.jit": more, f"{runs[1]}, jax.jit": CELL}
    cells |= {f"{runs[2]}, gspmd.jit": {"error": "Unsupported: no rule"}, f"{runs[2]}, jax.jit": CELL}
    cells |= {f"{topology}, gspmd.jit": COMPILED | {"step_s": 2.5}, f"{topology}, jax.jit": COMPILED}
    page = load("page").page(cells)
    assert f"| {runs[0]} | 0e+00 (1e-05) | 1.00 MiB / 1.00 MiB (1.00) | 1.00 |" in page
    assert f"- **{runs[1]}**: losses differ (nan), sends 2.00 as scattered" in page
    assert f"- **{runs[2]}**: gspmd.jit: Unsupported: no rule" in page
    assert f"- **{topology}**: takes 2.00 of the time, as estimated" in page
    assert f"- **{runs[3]}**: gspmd.jit: not measured; jax.jit: not measured" in page


def test_the_page_says_which_of_two_losses_is_that_of_the_same_model_elsewhere(load: Any) -> None:
    same, other = "Llama, fsdp 8", "Llama, tensor 2, tensor-sequence 2"
    cells = {f"{name}, {how}": CELL for name in (same, other) for how in ("gspmd.jit", "jax.jit")}
    cells[f"{other}, jax.jit"] = CELL | {"values": [6.0, 5.6]}
    said = f"- **{other}**: losses differ (1.8e-02); from the losses of *{same}*, the same model over another mesh, "
    assert f"{said}gspmd.jit's by 0e+00 and jax.jit's by 2e-02" in load("page").page(cells)


@pytest.mark.parametrize("how", ["gspmd.jit", "jax.jit"])
def test_functions_that_a_module_decorates_are_watched(
    load: Any, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import functools, jax\n\n@functools.partial(jax.jit, static_argnums=1)\ndef scaled(x, n):\n    return x * n\n"
    )
    name = f"decorated_by_{how.partition('.')[0]}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    plain, watch = jax.jit, load("watching").Watch(how, lambda result: float(result.sum()))
    module = watch.imported(name)
    assert jax.jit is plain
    array = jax.device_put(jnp.arange(8.0), jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x")))
    assert module.scaled(array, 2).sum() == 56.0
    load("watching").check_made_by(how, watch.records[0].executable())
    assert watch.records[0].results == [56.0]

"""What is traced, partitioned and compiled once: in a process, whoever asks for it, and with a cache in several."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting, split

import gspmd
from gspmd import api, output
from gspmd.dialect.diagnostic import Diagnostic, remark_once, telling
from gspmd.dialect.errors import InputError
from gspmd.frontend import jax_stages, program_cache
from gspmd.transforms import ops

W, X = counting(64, 64), counting(16, 64)
SHAPES = tuple(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in (W, X))


class Work:
    """How often programs were partitioned, and how often JAX was asked to compile one."""

    partitioned = compiled = 0

    @property
    def both(self) -> tuple[int, int]:
        return self.partitioned, self.compiled


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done = Work()
    partition, compile_ = api.partition, jax_stages.Computation.compile

    @functools.wraps(partition)
    def partitioned(*args: Any, **kwargs: Any) -> Any:
        done.partitioned += 1
        return partition(*args, **kwargs)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        done.compiled += 1
        return compile_(*args, **kwargs)

    monkeypatch.setattr(api, "partition", partitioned)
    monkeypatch.setattr(jax_stages.Computation, "compile", compiled)
    return done


def product(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w) @ w.T


def jitted(function: Callable[..., Any] = product, **options: Any) -> Any:
    return gspmd.jit(function, **{"mesh": MESH, "in_shardings": (P("x", "y"), P("x")), **options})


# ---- in one process ----


@pytest.mark.parametrize("donated", [(), (0,)])
@pytest.mark.parametrize("given", [None, (P("x", "y"), P("x"))])
def test_lower_and_calls_in_any_order_compile_once(work: Work, given: Any, donated: Any) -> None:
    arrays = split(W, "x", "y"), split(X, "x")
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding) for a in arrays]

    def called(f: Any) -> Any:
        return f(arrays[0] + 0, arrays[1])

    def compiled(f: Any) -> Any:
        return f.lower(*arrays).compile()

    for number, steps in enumerate(
        (
            (compiled, called),
            (called, compiled),
            (lambda f: f.lower(*arrays), compiled, called),
            (lambda f: f.lower(*shapes).compile(), called),
            (lambda f: f.trace(*arrays).lower().compile(), called),
            (called, lambda f: f.trace(*shapes).lower().compile()),
        ),
        1,
    ):
        f = jitted(in_shardings=given, donate_argnums=donated)
        for step in steps:
            step(f)
        assert work.both == (number, number)


def test_a_function_is_traced_once() -> None:
    traces = []

    def traced(w: Any, x: Any) -> Any:
        traces.append(1)
        return x @ w

    f = jitted(traced)
    assert f.trace(*SHAPES).jaxpr.in_avals[0].shape == (64, 64)
    f.trace(*SHAPES).lower()
    f.lower(*SHAPES).compile()
    w, x = W % 8, X % 8  # sums of their products are exact in any order
    np.testing.assert_array_equal(f(w, x), x @ w)
    assert traces == [1]


def test_what_is_exported_is_the_annotated_function() -> None:
    exported = jax.export.export(jitted())(*SHAPES)
    assert exported.nr_devices == 8
    assert "sharding" in exported.mlir_module()


def test_other_options_of_the_compiler_are_another_program(work: Work) -> None:
    lowered = jitted().lower(*SHAPES)
    assert lowered.compile() is lowered.compile()
    assert lowered.compile({"xla_embed_ir_in_executable": True}) is not lowered.compile()
    assert work.both == (1, 2)


def test_results_that_go_back_in_are_no_new_kind(work: Work) -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH)
    x = split(counting(8, 8), "x")
    for _ in range(4):
        x = f(x)
    assert work.both == (1, 1)


def test_shardings_that_place_alike_are_one_kind(work: Work) -> None:
    f = gspmd.jit(lambda x: x * 2)
    for spec in (P("x"), P("x", None), P(("x",)), P(("x",), None)):
        f(jax.device_put(counting(8, 8), NamedSharding(MESH, spec)))
    assert work.both == (1, 1)
    f(jax.device_put(counting(8, 8), NamedSharding(MESH, P(None, "x"))))
    assert work.both == (2, 2)


def test_values_of_the_host_are_what_jax_makes_of_them(work: Work) -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH)
    f.lower(jax.ShapeDtypeStruct((8,), np.float32)).compile()
    for value in (np.ones(8), np.ones(8, np.float32), jnp.ones(8)):
        f(value)
    assert work.both == (1, 1)


# ---- in several ----


@contextlib.contextmanager
def settings(**given: Any) -> Iterator[None]:
    """Settings of JAX, with a cache that is used as a process that begins uses it."""
    before = {name: getattr(jax.config, f"jax_{name}") for name in given}
    for name, value in given.items():
        jax.config.update(f"jax_{name}", value)
    compilation_cache.reset_cache()
    remark_once.cache_clear()
    yield
    for name, value in before.items():
        jax.config.update(f"jax_{name}", value)
    compilation_cache.reset_cache()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """That of a cache of everything."""
    with settings(compilation_cache_dir=str(tmp_path / "cache"), persistent_cache_min_compile_time_secs=0.0):
        yield tmp_path / "cache"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("gspmd-*-cache"))


def heard(use: Callable[[], Any]) -> tuple[Any, list[Diagnostic]]:
    told: list[Diagnostic] = []
    with telling(told.append):
        return use(), told


def test_another_process_does_not_partition_again(work: Work, folder: Path) -> None:
    first = jitted()
    expected = first(W, X)
    second = jitted(in_shardings=(P("x", "y"), P("x", None)))
    compiled = second.lower(*SHAPES).compile()
    np.testing.assert_array_equal(second(W, X), expected)
    assert work.partitioned == 1
    assert len(entries(folder)) == 1
    assert len([*folder.glob("jit_product-*-cache")]) == 1
    fresh, kept = first.lower(*SHAPES), second.lower(*SHAPES)
    for one, other in ((fresh, kept), (fresh.compile(), compiled)):
        assert str(one.partitioned.module) == str(other.partitioned.module)
        # Bytecode has no end of a range that begins in column 0, as a frame of the test runner may.
        parts = [program_cache.bytecode_of(program.partitioned.module) for program in (one, other)]
        located = [program_cache.module_of(part).operation.get_asm(enable_debug_info=True) for part in parts]
        assert located[0] == located[1]
        assert one.partitioned.collectives == other.partitioned.collectives
    assert str(fresh.cost("tpu-v5p")) == str(kept.cost("tpu-v5p"))
    assert fresh.compile().out_shardings == compiled.out_shardings
    assert work.partitioned == 1


def test_what_a_program_depends_on_is_looked_at(
    work: Work, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "machine.toml"
    others: list[Callable[[], Any]] = [
        jitted,
        lambda: jitted(lambda w, x: jnp.sin(x @ w) @ w.T),
        lambda: jitted(in_shardings=(P("y", "x"), P("x"))),
        lambda: jitted(mesh={"x": 2, "y": 4}),
        lambda: jitted(donate_argnums=1),
        lambda: jitted(options={"combine_bytes": 0}),
        lambda: jitted(custom_rules={"a.call": "([i])->([i])"}),
        lambda: jitted(target="tpu-v5p"),
        lambda: jitted(target=str(target)),
    ]
    target.write_text('like = "tpu-v5p"\n')
    for number, other in enumerate(others, 1):
        other().lower(*SHAPES).compile()
        assert len(entries(folder)) == number
    target.write_text('like = "tpu-v5e"\n')
    others.pop()().lower(*SHAPES).compile()
    monkeypatch.setattr(program_cache, "_version", lambda: "another")
    jitted().lower(*SHAPES).compile()
    assert len(entries(folder)) == work.partitioned == len(others) + 3


def test_where_functions_of_python_decide_nothing_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jitted(custom_rules={"a.call": lambda info: None})(W, X)
    jitted(lambda w, x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) @ w)(W, X)
    monkeypatch.setattr(ops, "is_extended", lambda: True)
    jitted()(W, X)
    assert entries(folder) == []


def test_settings_of_the_cache_are_those_of_jax(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for given in (
        {"enable_compilation_cache": False},
        {"persistent_cache_min_compile_time_secs": 1e6},
        {"persistent_cache_min_entry_size_bytes": 1 << 30},
    ):
        with settings(**given):
            jitted()(W, X)
    assert entries(folder) == []
    with settings(log_compiles=True, explain_cache_misses=True):
        jitted()(W, X)
        jitted()(W, X)
    messages = [record.message for record in caplog.records if "gspmd" in record.name]
    assert messages[0].partition(",")[0] == "partitioned 'jit(product)'"
    assert messages[1].startswith("found 'jit(product)' partitioned in the cache as gspmd-")


_ABOVE = "import jax.numpy as jnp\n{}def product(w, x):\n    return jnp.tanh(x @ w) @ w.T\n"


def _at_line(lines: int) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(compile(_ABOVE.format("\n" * lines), "model.py", "exec"), names)
    found: Callable[..., Any] = names["product"]
    return found


def test_places_in_the_source_are_those_of_the_process(work: Work, folder: Path) -> None:
    first, moved = (jitted(_at_line(lines)) for lines in (1, 8))
    first(W, X)
    moved(W, X)
    assert work.partitioned == 1
    places = [str(f.lower(*SHAPES).partitioned.collectives[0].location) for f in (first, moved)]
    assert work.partitioned == 2
    assert [place.rpartition(":")[0] for place in places] == ["model.py:4", "model.py:11"]


def _over_fewer_devices(w: Any, x: Any) -> Any:
    smaller = NamedSharding(gspmd.make_mesh((4,), ("a",)), P("a"))
    return jax.lax.with_sharding_constraint(x, smaller) @ w


def test_remarks_are_said_in_every_process(work: Work, folder: Path) -> None:
    first, told = heard(lambda: jitted(_over_fewer_devices)(W, X))
    assert "remark" in str(told[0])
    second, again = heard(lambda: jitted(_over_fewer_devices)(W, X))
    assert again == told
    assert work.partitioned == 1
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "other", "older"])
def test_a_damaged_entry_is_written_again(work: Work, folder: Path, damage: str) -> None:
    jitted()(W, X)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "empty": b"",
            "changed": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
            "other": b"x" * 100,
            "older": whole.replace(b"program 1", b"program 0", 1),
        }[damage]
    )
    result, told = heard(lambda: jitted()(W, X))
    np.testing.assert_array_equal(result, np.tanh(X @ W) @ W.T)
    assert [str(diagnostic).partition(",")[0] for diagnostic in told] == [
        "gspmd: remark: cannot read the compilation cache"
    ]
    assert "is damaged" in told[0].message
    assert entry.read_bytes() == whole
    assert work.partitioned == 2
    with settings(raise_persistent_cache_errors=True):
        entry.write_bytes(whole[:100])
        with pytest.raises(InputError, match="is damaged"):
            jitted()(W, X)


def test_a_folder_that_is_full_is_a_remark(work: Work, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(open(folder / "part", "ab"), name)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "open", lambda *_, **__: Full(), raising=False)
    result, told = heard(lambda: jitted()(W, X))
    np.testing.assert_array_equal(result, np.tanh(X @ W) @ W.T)
    assert ["no space left on device" in diagnostic.message for diagnostic in told] == [True]
    assert entries(folder) == []
    assert not [*folder.glob(".gspmd-*")]


def test_a_folder_that_is_read_only_is_a_remark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.os, "access", lambda path, mode: False)  # the superuser may write anywhere
    result, told = heard(lambda: jitted()(W, X))
    np.testing.assert_array_equal(result, np.tanh(X @ W) @ W.T)
    assert ["cannot write into" in diagnostic.message for diagnostic in told] == [True]


def test_a_file_in_the_place_of_the_folder_is_a_remark(folder: Path) -> None:
    folder.write_text("")
    result, told = heard(lambda: jitted()(W, X))
    np.testing.assert_array_equal(result, np.tanh(X @ W) @ W.T)
    assert ["cannot use the compilation cache" in diagnostic.message for diagnostic in told] == [True]


_PROCESS = """
import os, sys
os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="8", JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
os.environ["JAX_COMPILATION_CACHE_DIR"] = sys.argv[1]
import numpy as np
import gspmd
from gspmd import api
from jax.sharding import PartitionSpec as P
partition, calls = api.partition, []
api.partition = lambda *args, **kwargs: calls.append(1) or partition(*args, **kwargs)
f = gspmd.jit(lambda w, x: x @ w @ w.T, mesh={"x": 4, "y": 2}, in_shardings=(P("x", "y"), P("x")))
print(len(calls), float(f(np.ones((64, 64)), np.ones((16, 64))).sum()), len(calls))
"""


def test_processes_write_at_the_same_time_and_others_read(tmp_path: Path) -> None:
    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _PROCESS, str(tmp_path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    ends = [process.communicate(timeout=300) for process in [started(), started()]]
    assert [(out.split()[1], err) for out, err in ends] == [("4194304.0", "")] * 2
    assert len(entries(tmp_path)) == 1
    out, err = started().communicate(timeout=300)
    assert (out.split(), err) == (["0", "4194304.0", "0"], "")

"""What fails with `jax.jit` fails with `gspmd.jit` in the same class of error; stages and functions are alike, too."""

from __future__ import annotations

import copy
import functools
import gc
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.sharding_impls import GSPMDSharding
from jax.experimental import sparse
from jax.experimental.layout import Format
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting, split

import gspmd

X = counting(8, 8)
ROWS = NamedSharding(MESH, P("x"))
Jit = Callable[..., Any]
ONE = jax.devices()[1]
HALF = NamedSharding(jax.sharding.Mesh(jax.devices()[:4], ("x",)), P("x"))
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def doubled(x: Any) -> Any:
    return x * 2


def constrained(jit: Jit, mesh: Any, x: Any) -> Any:
    with mesh:
        return jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("x")))(x)


def compiled(jit: Jit) -> Any:
    return jit(doubled, in_shardings=ROWS).lower(X).compile()


# Each of these raises one class of error with `jax.jit`.
MISTAKES: dict[str, tuple[type[Exception], Callable[[Jit], Any]]] = {
    "keywords with in_shardings": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(x=X)),
    "another place": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(split(X, "y"))),
    "one device": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(jax.device_put(X, jax.devices()[0]))),
    "on one device beside a mesh": (ValueError, lambda jit: jit(doubled, out_shardings=ROWS)(jax.device_put(X, ONE))),
    "on one device, others not": (ValueError, lambda jit: jit(jnp.add)(jax.device_put(X, ONE), split(X, "y"))),
    "on fewer devices than others": (ValueError, lambda jit: jit(jnp.add)(jax.device_put(X, HALF), split(X, "y"))),
    "with mesh, of fewer devices": (ValueError, lambda jit: constrained(jit, HALF.mesh, split(X, "y"))),
    "with mesh, of more devices": (ValueError, lambda jit: constrained(jit, MESH, jax.device_put(X, HALF))),
    "unhashable": (ValueError, lambda jit: jit(lambda x, y: x, in_shardings=(ROWS,), static_argnums=1)(X, [1])),
    "in structure": (ValueError, lambda jit: jit(doubled, in_shardings=(ROWS, ROWS))(X)),
    "out structure": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS, out_shardings=(ROWS, ROWS))(X)),
    "rank": (ValueError, lambda jit: jit(doubled, in_shardings=NamedSharding(MESH, P("x", "y", None)))(X)),
    "no sharding": (TypeError, lambda jit: jit(doubled, in_shardings=3)),
    "a text": (TypeError, lambda jit: jit(doubled, in_shardings=ROWS)("a")),
    "objects": (TypeError, lambda jit: jit(doubled, in_shardings=ROWS)(np.array([None]))),
    "a shape": (TypeError, lambda jit: jit(doubled, in_shardings=ROWS)(jax.ShapeDtypeStruct((8, 8), "float32"))),
    "a large number": (OverflowError, lambda jit: jit(doubled, in_shardings=NamedSharding(MESH, P()))(2**70)),
    "more arguments": (TypeError, lambda jit: jit(doubled, in_shardings=ROWS)(X, X)),
    "no function": (TypeError, lambda jit: jit(3)),
    "no option": (TypeError, lambda jit: jit(doubled, static_argument=1)),
    "static and donated": (ValueError, lambda jit: jit(doubled, static_argnums=0, donate_argnums=0)),
    "no number": (ValueError, lambda jit: jit(doubled, static_argnums=3)),
    "no name": (ValueError, lambda jit: jit(doubled, static_argnames="y")),
    "bad number": (TypeError, lambda jit: jit(doubled, static_argnums="x")),
    "compiled for another shape": (TypeError, lambda jit: compiled(jit)(X[:4])),
    "compiled for another dtype": (TypeError, lambda jit: compiled(jit)(X.astype(int))),
    "compiled for another tree": (TypeError, lambda jit: compiled(jit)(X, X)),
    "compiled for another place": (ValueError, lambda jit: compiled(jit)(split(X, "y"))),
    "compiled, traced": (TypeError, lambda jit: jax.jit(compiled(jit))(X)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_raise_what_they_raise_with_jax(mistake: str) -> None:
    kind, make = MISTAKES[mistake]
    with pytest.raises(kind):
        make(jax.jit)
    with pytest.raises(kind, match=r"^gspmd: error: ") as raised:
        make(gspmd.jit)
    assert isinstance(raised.value, gspmd.Error)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.reshard(x, P()),
        lambda x: x + jnp.zeros((8, 8), out_sharding=P("x")),
        lambda x: jax.lax.with_sharding_constraint(x, P()),
        jax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x")),
    ],
    ids=["reshard", "out_sharding", "constraint", "shard_map"],
)
def test_specs_inside_need_a_mesh_around_as_with_jax(f: Any) -> None:
    """Where axes are of type Explicit, the mesh of the arrays is none that specs in the function are over."""
    x = jax.device_put(X, NamedSharding(EXPLICIT, P("x")))
    raised = []
    for jit in (jax.jit, gspmd.jit):
        with pytest.raises((ValueError, RuntimeError)) as found:
            jit(f)(x)
        raised.append(type(found.value))
        assert jit(lambda x: x * 2)(x).sharding.is_equivalent_to(x.sharding, 2)
    assert raised[0] is raised[1]


@pytest.mark.parametrize("spec", [P("x"), P("y", "x"), P(("y", "x")), P(None, "y"), P()], ids=str)
def test_shardings_in_the_words_of_xla_are_taken(spec: P) -> None:
    named = NamedSharding(MESH, spec)
    said = GSPMDSharding(tuple(MESH.devices.flat), named._to_xla_hlo_sharding(2))
    for given in (X, jax.device_put(X, said), jax.device_put(X, named)):
        found = gspmd.jit(doubled, in_shardings=said, out_shardings=said)(given)
        assert found.sharding.is_equivalent_to(jax.jit(doubled, out_shardings=said)(given).sharding, 2)
        np.testing.assert_array_equal(found, 2 * X)
    beside = gspmd.jit(jnp.add, in_shardings=(said, ROWS), out_shardings=Format(None, said))(X, X)
    assert beside.sharding.is_equivalent_to(named, 2)


def test_what_xla_says_besides_is_refused() -> None:
    manual = GSPMDSharding(tuple(MESH.devices.flat), type(ROWS._to_xla_hlo_sharding(2)).manual())
    with pytest.raises(ValueError, match="does more than divide dimensions"):
        gspmd.jit(doubled, in_shardings=manual)


def test_what_fails_while_it_runs_is_an_error_of_jax() -> None:
    def fails(_: Any) -> Any:
        raise KeyError("nothing")

    def other_shape(_: Any) -> Any:
        return np.zeros(3)

    for function, text in ((fails, "KeyError: 'nothing'"), (other_shape, "Incorrect output shape")):
        called = gspmd.jit(lambda x, function=function: jax.pure_callback(function, x, x) + 1, in_shardings=ROWS)
        with pytest.raises(jax.errors.JaxRuntimeError, match=text) as raised:
            jax.block_until_ready(called(X))
        assert isinstance(raised.value, gspmd.ExecutionError)
    given = gspmd.jit(doubled, in_shardings=ROWS, donate_argnums=0)
    array = split(X, "x")
    given(array)
    with pytest.raises(RuntimeError, match="was donated to an earlier call and is gone"):
        given(array)


def test_stages_have_what_those_of_jax_have() -> None:
    def f(a: Any, b: Any, *, k: Any) -> Any:
        return {"r": a @ b["w"], "s": k.sum()}

    args, keywords = (X, {"w": jnp.ones((8, 4)), "u": jnp.ones(3)}), {"k": jnp.ones(8)}
    plain, own = (
        jit(f, donate_argnums=0, out_shardings={"r": ROWS, "s": None}).trace(*args, **keywords)
        for jit in (jax.jit, gspmd.jit)
    )
    lowered = plain.lower(), own.lower()
    stages = ((plain, own), lowered, tuple(each.compile() for each in lowered))
    for (theirs, ours), kind in zip(stages, ("Traced", "Lowered", "Compiled"), strict=True):
        assert isinstance(ours, getattr(jax.stages, kind))
        names = {name for name in dir(theirs) if not name.startswith("_")}
        assert names <= set(dir(ours))
        for name in ("args_info", "in_tree", "out_tree", "in_avals", "donate_argnums"):
            assert str(getattr(theirs, name)) == str(getattr(ours, name))
    assert lowered[0].out_info == lowered[1].out_info
    assert "loc(" not in lowered[1].as_text()
    assert "test_jit_as_jax.py" in lowered[1].as_text(debug_info=True)
    program = lowered[1].compile(device_assignment=tuple(jax.devices()[::-1]))
    assert program.output_formats["r"].sharding.mesh.devices.flat[0] == jax.devices()[7]
    assert program.runtime_executable() is not None
    assert program.out_info["r"].sharding.spec[0] == "x"


def test_a_mesh_of_another_size_inside_is_refused() -> None:
    inner = gspmd.jit(doubled, in_shardings=P("x"))

    def f(x: Any) -> Any:
        with HALF.mesh:
            return inner(x)

    with MESH:
        assert gspmd.jit(inner, in_shardings=P("x"))(X).shape == (8, 8)
        with pytest.raises(ValueError, match="cannot change the size of the mesh"):
            gspmd.jit(f, in_shardings=P("x"))(X)


@pytest.mark.parametrize(("mesh", "kind"), [(MESH, ValueError), (MESH.abstract_mesh, RuntimeError)])
def test_another_number_of_devices_than_lowered_for_is_refused(mesh: Any, kind: type[Exception]) -> None:
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("x")))
    lowered = gspmd.jit(doubled).trace(x).lower()
    with pytest.raises(kind, match="device_assignment"):
        lowered.compile(device_assignment=jax.devices()[:4])
    assert lowered.compile(device_assignment=tuple(jax.devices()))(split(X, "x")).shape == (8, 8)


@gspmd.jit
def decorated(x: Any) -> Any:
    return x * 3


class Scale:
    """An object that can be called, with attributes of names that others may use as well."""

    def __init__(self) -> None:
        self._annotated = self._mesh = 5

    def __call__(self, x: Any) -> Any:
        return x * self._mesh


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_functions_are_copied_and_pickled_as_they_were_made(copied: Callable[[Any], Any]) -> None:
    for function, factor in ((doubled, 2), (Scale(), 5)):
        f = copied({"f": gspmd.jit(function, mesh={"x": 8}, in_shardings=P("x"))})["f"]
        assert f(X).sharding.spec[0] == "x"
        np.testing.assert_array_equal(f(X), factor * X)
    np.testing.assert_array_equal(copied(decorated)(split(X, "x")), 3 * X)


def test_a_function_and_what_it_closes_over_are_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        constant: Any = jnp.ones(8)
        f: Any = gspmd.jit(lambda x: x + constant.sum(), mesh=MESH)
        f(X)
        jax.grad(lambda x: f(x).sum())(X)
        found = weakref.ref(f), weakref.ref(constant)
        f = constant = None
        assert [each() for each in found] == [None, None]
    finally:
        gc.enable()


def test_parameters_that_are_given_by_position_only_are_static_or_donated() -> None:
    def power(x: Any, n: int, /, *, plus: Any = 0) -> Any:
        return x**n + plus

    x = jnp.asarray(X)
    np.testing.assert_allclose(
        gspmd.jit(power, mesh=MESH, static_argnums=1, donate_argnums=0)(x + 0, 3, plus=1), X**3 + 1
    )
    np.testing.assert_allclose(gspmd.jit(operator.add, mesh=MESH, static_argnums=-1, donate_argnums=0)(x + 0, 3), X + 3)
    with pytest.raises(ValueError, match="static_argnames has 'n', which the function does not take by name"):
        gspmd.jit(power, mesh=MESH, static_argnames="n")


@pytest.mark.parametrize(("names", "static"), [(None, True), ((), False), ("y", True)])
def test_names_complete_numbers_only_where_they_are_not_given(names: Any, static: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return x + isinstance(y, int)

    for jit in (jax.jit, functools.partial(gspmd.jit, mesh=MESH)):
        jitted = jit(f, static_argnums=1, static_argnames=names)
        np.testing.assert_array_equal(jitted(X, 3), X + 1)
        np.testing.assert_array_equal(jitted(X, y=3), X + static)


def test_a_random_key_that_is_used_up_is_found() -> None:
    for jit in (jax.jit, functools.partial(gspmd.jit, mesh=MESH)):
        f, key = jit(jax.random.normal), jax.random.key(3)
        with jax.debug_key_reuse(True):
            f(key)
            with pytest.raises(jax.errors.KeyReuseError, match="Previously-consumed key"):
                f(key)
        f(key)


def test_tokens_are_refused_by_their_argument() -> None:
    with pytest.raises(TypeError, match="argument t is a token; pass a value"):
        gspmd.jit(lambda t, x: x, mesh=MESH)(jax.lax.create_token(), X)
    with pytest.raises(gspmd.Unsupported, match="returns a token; return a value"):
        gspmd.jit(lambda x: (x, jax.lax.create_token(x)), mesh=MESH)(X)


def test_compiler_options_of_an_inner_function_are_refused_as_by_jax() -> None:
    for jit in (jax.jit, functools.partial(gspmd.jit, mesh=MESH)):
        inner = jit(doubled, compiler_options={"xla_embed_ir_in_executable": True})
        with pytest.raises(ValueError, match="can only be passed to top-level"):
            jit(lambda x, inner=inner: inner(x))(X)


AUTO = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


@pytest.mark.parametrize("outer", [lambda f: f, jax.jit, gspmd.jit, lambda f: jax.grad(lambda x: f(x).sum())])
@pytest.mark.parametrize("given", [{}, {"mesh": AUTO}, {"out_shardings": P(None, "y")}, {"donate_argnums": 0}])
@pytest.mark.parametrize("names", [{"x"}, {"x", "y"}])
def test_inside_a_shard_map_a_function_is_a_part_of_it(outer: Any, given: Any, names: Any) -> None:
    inner = gspmd.jit(jax.nn.relu, **given)
    with jax.set_mesh(AUTO):
        mapped = jax.shard_map(inner, in_specs=P("x"), out_specs=P("x"), axis_names=names)
        plain = jax.shard_map(jax.nn.relu, in_specs=P("x"), out_specs=P("x"), axis_names=names)
        if "out_shardings" in given and "y" in names:
            with pytest.raises(gspmd.Error, match='over "y", which a manual computation around it holds'):
                outer(mapped)(X - 9)
        else:
            np.testing.assert_array_equal(outer(mapped)(X - 9), outer(plain)(X - 9))


@pytest.mark.parametrize("outer", [lambda f: f, jax.jit, gspmd.jit])
def test_functions_inside_auto_and_explicit_axes_are_parts_of_these(outer: Any) -> None:
    inner = gspmd.jit(jax.nn.relu)
    for mesh, around in (
        (EXPLICIT, functools.partial(jax.sharding.auto_axes, out_sharding=P("x"))),
        (EXPLICIT, functools.partial(jax.sharding.auto_axes, axes="y", out_sharding=P("x"))),
        (AUTO, functools.partial(jax.sharding.explicit_axes, in_sharding=P("x"))),
    ):
        with jax.set_mesh(mesh):
            found = outer(around(inner))(jax.device_put(X - 9, NamedSharding(mesh, P("x"))))
            np.testing.assert_array_equal(found, jax.nn.relu(X - 9))


@pytest.mark.parametrize(("shape", "spec"), [((8, 6), P(None, "x")), ((8, 16), P("x")), ((8,), P("x"))])
def test_products_of_sparse_rows_are_split_along_columns(shape: tuple[int, ...], spec: P) -> None:
    dense = np.where(np.arange(128).reshape(16, 8) % 3, 0, np.arange(128).reshape(16, 8)).astype(np.float32)
    rows, x = sparse.BCSR.fromdense(dense), np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = gspmd.jit(lambda x, rows: rows @ x, mesh=MESH, in_shardings=(spec, P()))(x, rows)
    np.testing.assert_allclose(found, dense @ x, rtol=1e-6)


def test_what_is_not_used_is_of_the_type_that_a_function_was_compiled_for() -> None:
    x = np.ones(8, np.float32)
    compiled = gspmd.jit(lambda x, unused: x * 2, mesh=MESH).lower(x, {"n": 1, "x": x}).compile()
    np.testing.assert_array_equal(compiled(x, {"n": 2, "x": 3 * x}), 2 * x)
    for other in (np.ones(16, np.float32), np.ones(8, np.int32), 3.0):
        with pytest.raises(TypeError, match=r"argument 'unused\['x'\]', which is not used, has"):
            compiled(x, {"n": 1, "x": other})


def test_stages_say_the_shardings_of_results_that_the_user_said() -> None:
    where = NamedSharding(MESH, P("x"))
    f = gspmd.jit(lambda x: {"a": x * 2, "b": x.sum()}, mesh=MESH, out_shardings={"a": P("x"), "b": None})
    traced = f.trace(np.ones(8, np.float32))
    for stage in (traced, traced.lower()):
        assert stage.out_info["a"].sharding == where
        assert stage.out_info["b"].sharding is None
    assert traced.lower().compile().out_info["a"].sharding == where

"""What fails with `jax.jit` fails with `gspmd.jit` in the same class of error; stages and functions are alike, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jit_meshes import MESH, counting, split

import gspmd

X = counting(8, 8)
ROWS = NamedSharding(MESH, P("x"))
Jit = Callable[..., Any]


def doubled(x: Any) -> Any:
    return x * 2


def compiled(jit: Jit) -> Any:
    return jit(doubled, in_shardings=ROWS).lower(X).compile()


# Each of these raises one class of error with `jax.jit`.
MISTAKES: dict[str, tuple[type[Exception], Callable[[Jit], Any]]] = {
    "keywords with in_shardings": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(x=X)),
    "another place": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(split(X, "y"))),
    "one device": (ValueError, lambda jit: jit(doubled, in_shardings=ROWS)(jax.device_put(X, jax.devices()[0]))),
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

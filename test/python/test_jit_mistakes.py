"""What a user gets wrong is told as an error of ours, with the place and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting

import gspmd

X = counting(8, 8)
DEVICES = np.array(jax.devices())
OTHER = jax.sharding.Mesh(DEVICES[4:], ("z",))


def add(a: Any, b: Any) -> Any:
    return a + b


def first(tree: Any, n: Any = 0) -> Any:
    return tree["a"]


def call(f: Any, *args: Any, **options: Any) -> Callable[[], Any]:
    return lambda: gspmd.jit(f, **{"mesh": MESH, **options})(*args)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "too few": (call(add, X), r"'add' cannot take this call: missing a required argument: 'b'; it takes \(a.*, b"),
    "too many": (call(add, X, X, X), "'add' cannot take this call: too many positional arguments"),
    "unknown name": (lambda: gspmd.jit(add, mesh=MESH)(X, X, c=X), "got an unexpected keyword argument 'c'"),
    "text": (call(first, {"a": "text"}), r"argument tree\['a'\] is of type str, which is not an array; make it static"),
    "object": (lambda: gspmd.jit(first, mesh=MESH)({"a": X}, n=object()), "argument n is of type object"),
    "object array": (call(first, {"a": np.array([None])}), r"argument tree\['a'\] has dtype object"),
    "text array": (call(first, {"a": np.array(["b"])}), r"argument tree\['a'\] has dtype <U1"),
    "a shape": (call(first, {"a": jax.ShapeDtypeStruct((8,), "float32")}), "with a shape in place of an array; use l"),
    "after static": (call(add, 1, "b", static_argnums=0), "argument b is of type str"),
    "a large integer": (call(add, X, 2**40), "argument b is 1099511627776, which JAX's integers cannot hold"),
    "in structure": (
        call(add, X, X, in_shardings=(P("x"),)),
        "in_shardings does not fit the values: different lengths",
    ),
    "in structure inside": (call(first, {"a": X}, in_shardings=({"b": P()},)), r"in_shardings\[0\] does not fit"),
    "in axis": (
        call(first, {"a": X}, in_shardings=({"a": P("q")},)),
        r"in_shardings\[0\]\['a'\]: the mesh has no axis",
    ),
    "in axis twice": (call(first, {"a": X}, in_shardings=P("x", "x")), r'\[0\]\[\'a\'\]: axis "x" is used twice'),
    "in rank": (call(first, {"a": X}, in_shardings=P("x", None, None)), r"\['a'\]: 3 entries do not fit a value of ra"),
    "in type": (call(first, {"a": X}, in_shardings=({"a": "x"},)), "expected a PartitionSpec, a NamedSharding or None"),
    "in mesh": (call(first, {"a": X}, in_shardings=NamedSharding(OTHER, P("z"))), "its mesh is {'z': 4}, expected"),
    "in devices": (
        call(first, {"a": X}, mesh=jax.sharding.Mesh(DEVICES[:4], ("x",)), in_shardings=NamedSharding(OTHER, P("z"))),
        "its mesh {'z': 4} has other devices than the program",
    ),
    "one device": (
        call(first, {"a": X}, in_shardings=SingleDeviceSharding(DEVICES[1])),
        "is on .* alone, but the program runs on 8 devices; use PartitionSpec",
    ),
    "two places": (call(add, X, X, device=DEVICES[0]), "a device was given in addition to a mesh or a backend"),
    "a backend": (call(add, X, X, backend="nonsense"), "no nonsense devices"),
    "no compiler option": (call(add, X, X, compiler_options={"xla_nonsense": 1}), "No such compile option"),
    "in names": (lambda: gspmd.jit(add, mesh=MESH, in_shardings=P("x"))(X, b=X), "do not cover keyword arguments: b"),
    "out structure": (call(add, X, X, out_shardings=(P(), P())), "out_shardings does not fit the values"),
    "out rank": (
        call(lambda a: {"l": a.sum()}, X, out_shardings=P("x")),
        r"out_shardings\['l'\]: 1 entries do not fit",
    ),
    "unhashable": (
        call(first, {"a": X}, [1], static_argnums=1),
        "static argument 'n' is of type list, which cannot be",
    ),
    "static array": (call(first, {"a": X}, X, static_argnames="n"), "static argument 'n' is of type ArrayImpl"),
    "no such number": (call(add, X, X, static_argnums=4), "static_argnums has 4, but the function takes 2 by position"),
    "no such name": (
        call(add, X, X, donate_argnames="c"),
        "donate_argnames has 'c', which the function does not take by name",
    ),
    "bad number": (call(add, X, X, static_argnums="a"), "static_argnums is 'a', expected a number or several"),
    "bad name": (call(add, X, X, donate_argnames=3), "donate_argnames is 3, expected a name or several"),
    "static and donated": (call(add, X, X, static_argnums=0, donate_argnames="a"), "argument 0 is static and donated"),
    "no option": (call(add, X, X, target_name="tpu"), "gspmd.jit has no option 'target_name'; it also takes"),
    "no function": (call(3), "3 is not a function"),
    "no mesh": (call(add, X, X, mesh=None, in_shardings=P("x")), "there is no mesh; give one"),
    "no mesh to search over": (call(add, X, X, mesh=None, shardings="search"), "there is no mesh; give one"),
    "no mesh to be partitioned over": (lambda: gspmd.jit(add).lower(X, X).partitioned, "there is no mesh; give one"),
    "a text for a mesh": (call(add, X, X, mesh="x"), "a mesh cannot be made from 'x'"),
    "a text for a size": (call(add, X, X, mesh={"x": "a"}), "a mesh maps names to sizes, not 'x' to 'a'"),
    "an empty axis": (call(add, X, X, mesh={"x": 0}), 'mesh axis "x" has size 0'),
    "other ids": (call(add, X, X, mesh=np.array([1, 2])), "must be a permutation of 0..1"),
    "few devices": (call(add, X, X, mesh=64), "the mesh has 64 devices, but there are 8.*JAX_NUM_CPU_DEVICES=64"),
    "an annotation's axis": (
        call(lambda x: gspmd.annotate(x, "q"), X),
        'the mesh has no axis "q"; its axes are "x", "y"',
    ),
    "an annotation's rank": (
        call(lambda x: gspmd.mesh_split(x, MESH, [0]), X),
        "1 entries do not fit a value of shape",
    ),
    "an annotation's number": (call(lambda x: gspmd.mesh_split(x, MESH, [0, 2]), X), "there is no mesh axis 2"),
    "another mesh inside": (call(lambda x: gspmd.mesh_split(x, (3,), [0, -1]), X), "3 devices in a program of 8"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(mistake: str) -> None:
    act, message = MISTAKES[mistake]
    with pytest.raises(gspmd.Error, match=message) as told:
        act()
    assert len(str(told.value)) < 500


def test_compiled_functions_check_what_they_are_called_with() -> None:
    compiled = gspmd.jit(first, mesh=MESH, static_argnums=1).lower({"a": X}, 1).compile()
    with pytest.raises(gspmd.UsageError, match=r"compiled for arguments .* static arguments are part of the program"):
        compiled({"a": X}, 1)
    with pytest.raises(gspmd.ExecutionError, match=r"argument 0 'tree\['a'\]' has shape \(4, 8\), expected the global"):
        compiled({"a": X[:4]})
    with pytest.raises(gspmd.ExecutionError, match=r"argument 0 'tree\['a'\]' has dtype int32, expected float32"):
        compiled({"a": X.astype("int32")})


def test_annotations_are_told_by_the_line_that_makes_them() -> None:
    def f(x: Any) -> Any:
        return gspmd.annotate(x, "q")

    with pytest.raises(gspmd.AnnotationError) as told:
        gspmd.jit(f, mesh=MESH)(X)
    place = told.value.location
    assert place is not None
    assert Path(place.file) == Path(__file__)
    assert Path(__file__).read_text().splitlines()[place.line - 1][place.column - 1 :] == 'gspmd.annotate(x, "q")'


def test_errors_of_the_function_are_its_own() -> None:
    def f(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gspmd.jit(f, mesh=MESH)(X)

    def g(x: Any) -> Any:
        raise ValueError("nothing was specified")

    with pytest.raises(ValueError, match="nothing was specified"):
        gspmd.jit(g, mesh=MESH)(X)


@pytest.mark.parametrize("donated", [(), (0,)])
def test_what_a_function_raises_under_a_transformation_is_what_it_raised(donated: Any) -> None:
    def loss(x: Any) -> Any:
        raise ValueError("layer 3: the batch is empty")

    def around(x: Any) -> Any:
        return f(x) + 1

    f = gspmd.jit(loss, mesh={"x": 8}, donate_argnums=donated)
    x = np.ones(8, np.float32)
    mesh = gspmd.make_mesh((8,), ("x",))
    for call in (
        jax.grad(f),
        jax.jit(f),
        jax.vmap(f),
        lambda x: jax.eval_shape(f, x),
        gspmd.jit(around, mesh={"x": 8}),
        jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x")),
    ):
        with pytest.raises(ValueError, match="layer 3: the batch is empty"):
            call(x)

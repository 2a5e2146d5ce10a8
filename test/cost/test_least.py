"""The least that has to be sent: below what is sent, always, and just that where plans are known to be the best."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping

import pytest

import gspmd

Dims = tuple[tuple[str, ...], ...]
Tensor = tuple[tuple[int, ...], Dims | None]
MESHES: tuple[Mapping[str, int], ...] = ({"x": 2}, {"x": 3}, {"x": 4}, {"x": 2, "y": 2})


def placements(rank: int, axes: tuple[str, ...]) -> Iterator[Dims]:
    """Every way to have axes on dimensions, or on none, in the order of the mesh."""
    for homes in itertools.product(range(rank + 1), repeat=len(axes)):
        yield tuple(tuple(axis for axis, home in zip(axes, homes, strict=True) if home == dim) for dim in range(rank))


def type_of(shape: tuple[int, ...], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def program(mesh: Mapping[str, int], arguments: list[Tensor], result: Tensor, body: str, element: str = "f32") -> str:
    """A function of %a0, %a1, ... whose body makes %r; `T0`, `T1`, ... and `R` stand for the types."""

    def sharding(dims: Dims | None) -> str:
        if dims is None:
            return ""
        text = ", ".join("{" + ", ".join(f'"{axis}"' for axis in dim) + "}" for dim in dims)
        return f" {{sdy.sharding = #sdy.sharding<@mesh, [{text}]>}}"

    names = {f"T{i}": type_of(shape, element) for i, (shape, _) in enumerate(arguments)} | {
        "R": type_of(result[0], element)
    }
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.items())
    given = ", ".join(f"%a{i}: T{i}{sharding(dims)}" for i, (_, dims) in enumerate(arguments))
    text = f"func.func @main({given}) -> (R{sharding(result[1])}) {{\n{body}\nreturn %r : R\n}}\n"
    return f"sdy.mesh @mesh = <[{axes}]>\n" + re.sub(r"\b(T\d|R)\b", lambda match: names[match[1]], text)


COPY = "%r = stablehlo.negate %a0 : R"
EXPONENTIAL = "%r = stablehlo.exponential %a0 : R"
TRANSPOSE = "%r = stablehlo.transpose %a0, dims = [1, 0] : (T0) -> R"
RESHAPE = "%r = stablehlo.reshape %a0 : (T0) -> R"
SUM = """%c = stablehlo.constant dense<0.0> : tensor<f32>
%r = stablehlo.reduce(%a0 init: %c) applies stablehlo.add across dimensions = [0] : (T0, tensor<f32>) -> R"""
DOT = "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (T0, T1) -> R"


def compared(text: str) -> tuple[int, int | None]:
    """What is sent, and the bound, which must not be above it."""
    report = gspmd.cost(text)
    assert (report.least_bytes or 0) <= report.sent_bytes + 1, text  # what collectives send is rounded
    return report.sent_bytes, report.least_bytes


# ---- reshards, which send the least there is -----------------------------------------------------------


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize(
    ("shape", "body", "result"),
    [
        # So large that fewer collectives do not make up for more bytes.
        ((18432,), COPY, (18432,)),
        ((96, 192), COPY, (96, 192)),
        ((96, 192), EXPONENTIAL, (96, 192)),
        ((96, 192), TRANSPOSE, (192, 96)),
        ((96, 192), RESHAPE, (18432,)),
    ],
)
def test_reshards_send_the_least(
    mesh: Mapping[str, int], shape: tuple[int, ...], body: str, result: tuple[int, ...]
) -> None:
    axes = tuple(mesh)
    for before, after in itertools.product(placements(len(shape), axes), placements(len(result), axes)):
        sent, least = compared(program(mesh, [(shape, before)], (result, after), body))
        assert sent == (least or 0)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_dimensions_that_are_taken_apart_send_no_less(mesh: Mapping[str, int]) -> None:
    for before, after in itertools.product(placements(1, tuple(mesh)), placements(2, tuple(mesh))):
        compared(program(mesh, [((144,), before)], ((12, 12), after), RESHAPE))


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_uneven_reshards_send_no_less(mesh: Mapping[str, int]) -> None:
    for before, after in itertools.product(placements(2, tuple(mesh)), repeat=2):
        compared(program(mesh, [((5, 7), before)], ((5, 7), after), COPY))


# ---- sums and products ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", MESHES[:3], ids=str)
def test_sums_send_the_least(mesh: Mapping[str, int]) -> None:
    for before, after in itertools.product(placements(2, ("x",)), placements(1, ("x",))):
        sent, least = compared(program(mesh, [((12, 24), before)], ((24,), after), SUM))
        assert sent == (least or 0)


def test_sums_over_two_axes_send_no_less() -> None:
    for before, after in itertools.product(placements(2, ("x", "y")), placements(1, ("x", "y"))):
        compared(program(MESHES[3], [((12, 24), before)], ((24,), after), SUM))


@pytest.mark.parametrize("sizes", [(12, 24, 12), (24, 12, 36), (12, 12, 12), (36, 4, 36)], ids=str)
@pytest.mark.parametrize("mesh", MESHES[:3], ids=str)
def test_products_send_no_less(mesh: Mapping[str, int], sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    for left, right, result in itertools.product(placements(2, ("x",)), repeat=3):
        compared(program(mesh, [((m, k), left), ((k, n), right)], ((m, n), result), DOT))


X, Y, NONE = ("x",), ("y",), ()


@pytest.mark.parametrize(
    ("left", "right", "result", "elements"),
    [
        ((NONE, X), (X, NONE), (NONE, NONE), 2 * 3 * 16 * 32 // 4),  # an all-reduce of the product
        ((NONE, X), (X, NONE), (X, NONE), 3 * 16 * 32 // 4),  # a reduce-scatter
        ((NONE, X), (X, NONE), None, 3 * 16 * 32 // 4),  # the same, wherever the result is to be
        ((X, NONE), (X, NONE), (X, NONE), 3 * 16 * 32 // 4),  # a sum of what each part of the right side adds
        ((NONE, NONE), (NONE, X), (NONE, NONE), 3 * 16 * 32 // 4),  # a gather of the product
    ],
)
def test_products_of_large_operands(left: Dims, right: Dims, result: Dims | None, elements: int) -> None:
    _, least = compared(program({"x": 4}, [((16, 512), left), ((512, 32), right)], ((16, 32), result), DOT))
    assert least == 4 * elements


def test_weights_are_gathered_where_these_are_fewer() -> None:
    """Fully sharded weights, and many rows on each device."""
    sent, least = compared(
        program({"x": 4}, [((512, 16), (X, NONE)), ((16, 32), (X, NONE))], ((512, 32), (X, NONE)), DOT)
    )
    assert sent == least == 4 * 3 * 4 * 32


def test_gradients_of_weights_on_all_devices_are_reduced() -> None:
    body = """%t = stablehlo.transpose %a0, dims = [1, 0] : (T0) -> tensor<16x512xf32>
%g = stablehlo.dot_general %t, %a1, contracting_dims = [1] x [0] : (tensor<16x512xf32>, T1) -> R
%r = stablehlo.subtract %a2, %g : R"""
    whole = (NONE, NONE)
    arguments: list[Tensor] = [((512, 16), (X, NONE)), ((512, 32), (X, NONE)), ((16, 32), whole)]
    sent, least = compared(program({"x": 4}, arguments, ((16, 32), whole), body))
    assert sent == least == 4 * 2 * 3 * 16 * 32 // 4


@pytest.mark.parametrize(("rows", "elements"), [(8, 2 * 3 * 8 * 16 // 4), (4096, 2 * 3 * 16 * 16 // 4)])
def test_a_layer_and_the_next(rows: int, elements: int) -> None:
    """Hidden units are split: the second product is reduced, or weights are sent, as far as they make a difference.

    Where the rectifier lets everything through, all hidden units are made of 16 inputs.
    """
    body = """%h = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (T0, T1) -> tensor<ROWSx128xf32>
%z = stablehlo.constant dense<0.0> : tensor<ROWSx128xf32>
%m = stablehlo.maximum %h, %z : tensor<ROWSx128xf32>
%r = stablehlo.dot_general %m, %a2, contracting_dims = [1] x [0] : (tensor<ROWSx128xf32>, T2) -> R"""
    arguments: list[Tensor] = [((rows, 16), (NONE, NONE)), ((16, 128), (NONE, X)), ((128, 16), (X, NONE))]
    _, least = compared(program({"x": 4}, arguments, ((rows, 16), (NONE, NONE)), body.replace("ROWS", str(rows))))
    assert least is not None
    assert least >= 4 * elements


def test_a_sum_that_copies_could_share() -> None:
    """Four summands, each on two devices, for all eight: 8 + 4 - 2 elements, while each half of the devices sends 6."""
    text = program({"x": 4, "y": 2}, [((12, 24), (X, NONE))], ((24,), (NONE,)), SUM)
    assert compared(text) == (2 * 3 * 24 // 4 * 4, 10 * 24 // 8 * 4)


# ---- what only looks like a need ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "%r = stablehlo.subtract %a0, %a0 : R",
        "%c = stablehlo.constant dense<0.0> : R\n%r = stablehlo.multiply %a0, %c : R",
        "%s = stablehlo.sign %a0 : R\n%r = stablehlo.multiply %s, %s : R",
        "%c = stablehlo.constant dense<0.0> : R\n%r = stablehlo.minimum %a0, %c : R",
        "%n = stablehlo.negate %a0 : R\n%r = stablehlo.add %a0, %n : R",
        "%n = stablehlo.negate %a0 : R\n%c = stablehlo.constant dense<0.0> : R\n%r = stablehlo.maximum %n, %c : R",
        """%c = stablehlo.constant dense<true> : tensor<12x24xi1>
%b = stablehlo.constant dense<1.0> : R
%r = stablehlo.select %c, %b, %a0 : tensor<12x24xi1>, R""",
    ],
)
def test_nothing_is_known_of_what_may_cancel_out(body: str) -> None:
    _, least = compared(program({"x": 4}, [((12, 24), (X, NONE))], ((12, 24), (NONE, NONE)), body))
    assert least is None


def test_elements_count_in_their_narrowest_form() -> None:
    body = """%n = stablehlo.convert %a0 : (T0) -> tensor<12x24xbf16>
%r = stablehlo.convert %n : (tensor<12x24xbf16>) -> R"""
    _, least = compared(program({"x": 4}, [((12, 24), (X, NONE))], ((12, 24), (NONE, NONE)), body))
    assert least == 2 * 12 * 24 * 3 // 4


def test_arguments_that_are_not_annotated_may_be_everywhere() -> None:
    _, least = compared(program({"x": 4}, [((12, 24), None)], ((12, 24), (X, NONE)), COPY))
    assert least is None


# ---- as it is told --------------------------------------------------------------------------------------


def test_it_is_told_in_python_and_of_partitioned_modules() -> None:
    text = program({"x": 4}, [((12, 24), (X, NONE))], ((12, 24), (NONE, NONE)), COPY)
    partitioned = gspmd.partition(text)
    alone, both = gspmd.cost(partitioned), gspmd.cost(partitioned, original=text)
    assert (alone.least, alone.least_bytes) == (None, None)
    assert both.least_bytes == both.sent_bytes
    assert both.least is not None
    assert [(need.result, need.argument) for need in both.least.needs] == [(0, 0)]


def test_it_takes_time_that_grows_with_the_program() -> None:
    lines, value = [], "%a0"
    for i in range(2500):
        lines += [
            f"%d{i} = stablehlo.dot_general {value}, %a1, contracting_dims = [1] x [0] : (R, T1) -> R",
            f"%t{i} = stablehlo.tanh %d{i} : R",
            f"%s{i} = stablehlo.transpose %t{i}, dims = [1, 0] : (R) -> R",
            f"%w{i} = stablehlo.add %s{i}, %a1 : R",
        ]
        value = f"%w{i}"
    sharded: list[Tensor] = [((16, 16), (X, NONE)), ((16, 16), (X, NONE))]
    last = f"%r = stablehlo.negate {value} : R"
    text = program({"x": 4}, sharded, ((16, 16), (NONE, NONE)), "\n".join([*lines, last]))
    from jaxlib.mlir import ir

    from gspmd.pass_manager import PassManager
    from gspmd.transforms.analysis.least.bound import least_sent
    from gspmd.transforms.ingest import Ingest
    from gspmd.transforms.ir.annotated import AnnotatedProgram
    from gspmd.transforms.ir.reading import model_of
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(text, new_context())
    PassManager([Ingest()]).run(module)
    with module.context, ir.Location.unknown():
        annotated = AnnotatedProgram(model_of(module))
    started = time.perf_counter()
    least_sent(annotated)
    assert time.perf_counter() - started < 5

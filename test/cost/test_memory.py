"""The peak of small programs, computed by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gspmd.dialect.notation import parse_mesh, parse_sharding
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.analysis.divergence import replicated_axes
from gspmd.transforms.analysis.memory import Memory, aliases_of, memory_of
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module

N = 4 * 1024  # bytes of a value


def memory(body: str, arguments: str = "a", results: str = "N", aliases: Mapping[int, int] | None = None) -> Memory:
    """`T` stands for the type of values of N bytes, `A op B` lines are given as StableHLO."""
    inputs = ", ".join(f"%{name}: T" for name in arguments)
    outputs = ", ".join("T" for _ in results)
    text = f"func.func public @main({inputs}) -> ({outputs}) {{\n{body}\n}}".replace(": T", ": tensor<32x32xf32>")
    text = text.replace("(T", "(tensor<32x32xf32>").replace(" T", " tensor<32x32xf32>")
    program = Program(model_of(parse_module(text, new_context())))
    return memory_of(program, Buffers(program), aliases or {})


def dot(result: str, left: str, right: str) -> str:
    return f"%{result} = stablehlo.dot_general %{left}, %{right}, contracting_dims = [1] x [0] : (T, T) -> T\n"


def test_a_chain_holds_two_temporaries() -> None:
    found = memory(dot("b", "a", "a") + dot("c", "b", "b") + dot("d", "c", "c") + dot("e", "d", "d") + "return %e : T")
    assert (found.arguments, found.results, found.aliased, found.temporaries) == (N, N, 0, 2 * N)
    assert found.peak == 3 * N
    assert found.allocated == 4 * N


def test_what_is_used_late_is_held() -> None:
    found = memory(dot("b", "a", "a") + dot("c", "b", "b") + dot("d", "c", "c") + dot("e", "d", "b") + "return %e : T")
    assert found.temporaries == 3 * N
    assert [held.kind for held in found.at_peak].count("temporary") == 3


def test_elementwise_operations_are_made_in_place_or_not_at_all() -> None:
    body = dot("b", "a", "a") + "%c = stablehlo.tanh %b : T\n%d = stablehlo.negate %c : T\n" + dot("e", "d", "d")
    assert memory(body + "return %e : T").temporaries == N


def test_constants_and_broadcasts_are_made_where_they_are_used() -> None:
    body = """%z = stablehlo.constant dense<1.0> : tensor<f32>
    %b = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> T
    %c = stablehlo.add %a, %b : T
    %d = stablehlo.multiply %c, %b : T
    return %d : T"""
    assert memory(body).temporaries == 0


def test_reshapes_are_other_names() -> None:
    body = dot("b", "a", "a") + "%v = stablehlo.reshape %b : (T) -> tensor<1024xf32>\n"
    body += "%w = stablehlo.reshape %v : (tensor<1024xf32>) -> T\n" + dot("c", "w", "w") + "return %c : T"
    assert memory(body).temporaries == N


def test_a_result_is_made_in_the_argument_that_is_given_for_it() -> None:
    body = dot("b", "a", "a") + dot("c", "b", "b") + "return %c : T"
    found = memory(body, aliases={0: 0})
    assert (found.aliased, found.temporaries, found.peak) == (N, N, 2 * N)


def test_but_not_while_the_argument_is_needed() -> None:
    body = dot("b", "a", "a") + dot("c", "b", "b") + dot("d", "c", "a") + "return %b, %d : T, T"
    found = memory(body, results="NN", aliases={0: 0})
    # The first result waits in memory of its own until the argument is not needed any more.
    assert found.peak == N + 3 * N


def test_arguments_that_are_returned_are_copied() -> None:
    assert memory("return %a, %a : T, T", results="NN").peak == 3 * N


LOOP = """
    %i0 = stablehlo.constant dense<0> : tensor<i32>
    {before}
    %r:2 = stablehlo.while(%i = %i0, %x = {init}) : tensor<i32>, tensor<32x32xf32>
    cond {{
      %n = stablehlo.constant dense<9> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      {body}
      stablehlo.return %j, %y : tensor<i32>, tensor<32x32xf32>
    }}
    return %r#1 : T"""
COUNTER, PREDICATE = 4, 1


def test_a_loops_carry_stays_in_place() -> None:
    found = memory(LOOP.format(before=dot("b", "a", "a"), init="%b", body="%y = stablehlo.tanh %x : T"))
    assert found.peak == 2 * N + COUNTER + PREDICATE


def test_a_carry_that_is_an_argument_is_copied_once() -> None:
    found = memory(LOOP.format(before="", init="%a", body="%y = stablehlo.tanh %x : T"))
    assert found.peak == 2 * N + COUNTER + PREDICATE


def test_what_a_round_makes_counts_beside_the_carry() -> None:
    body = dot("u", "x", "x") + dot("v", "u", "u") + dot("y", "v", "u")
    found = memory(LOOP.format(before=dot("b", "a", "a"), init="%b", body=body))
    # The argument, the carry, and two products: the third one is made in the carry, which is not needed any more.
    assert found.peak == 4 * N + COUNTER


def test_branches_need_as_much_as_the_largest() -> None:
    body = f"""%n = stablehlo.constant dense<0> : tensor<i32>
    %r = "stablehlo.case"(%n) ({{
      stablehlo.return %a : T
    }}, {{
      {dot("u", "a", "a")} {dot("v", "u", "u")} {dot("w", "v", "u")}
      stablehlo.return %w : T
    }}) : (tensor<i32>) -> T
    return %r : T"""
    found = memory(body)
    assert found.peak == 4 * N + COUNTER


def test_a_manual_computation_reads_its_operands_where_they_are() -> None:
    """In a program that is not partitioned yet; it has more arguments than results."""
    body = dot("c", "a", "b") + (
        '%m = sdy.manual_computation(%c, %b) in_shardings=[<mesh<["x"=1]>, [{}, {}]>, <mesh<["x"=1]>, [{}, {}]>] '
        'out_shardings=[<mesh<["x"=1]>, [{}, {}]>] manual_axes={"x"} (%k: T, %l: T) {\n'
        + dot("d", "k", "l")
        + dot("e", "d", "l")
        + "sdy.return %e : T\n} : (T, T) -> T\n"
    )
    found = memory(body + dot("f", "m", "a") + "return %f : T", "ab")
    assert (found.arguments, found.results, found.temporaries) == (2 * N, N, 3 * N)


def test_donated_arguments_take_the_first_result_of_their_size() -> None:
    donor = {"jax.buffer_donor": None}
    assert aliases_of([{}, donor, donor, donor], [8, 8, 4, 4], [4, 8, 8]) == {1: 1, 0: 2}


# ---- what is the same everywhere ----

MESH = parse_mesh('<["x"=4, "y"=2]>')


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%r = stablehlo.add %a, %b : tensor<8xf32>", {"y"}),
        ("%r = stablehlo.add %b, %b : tensor<8xf32>", {"x", "y"}),
        (("%i = stablehlo.partition_id : tensor<ui32>\n%f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>\n"
         "%r = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<8xf32>"), set()),
        (('%r = "stablehlo.all_reduce"(%a) ({^bb0(%p: tensor<f32>, %q: tensor<f32>):\n'
         "%s = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %s : tensor<f32>}) {gspmd.axes = "
         '"\\22x\\22", replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>} '
         ": (tensor<8xf32>) -> tensor<8xf32>"), {"x", "y"}),
        ("%r = stablehlo.custom_call @mhlo.erf(%b) : (tensor<8xf32>) -> tensor<8xf32>", {"x", "y"}),
        ("%r = stablehlo.custom_call @may_ask_for_its_device(%b) : (tensor<8xf32>) -> tensor<8xf32>", set()),
        ("%r = stablehlo.custom_call @mhlo.erf(%b) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>", set()),
        (('%r = "stablehlo.collective_broadcast"(%b) {gspmd.axes = "\\22x\\22", replica_groups = '
         "dense<[[0, 2]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>"), {"y"}),
    ],
)  # fmt: skip
def test_what_is_replicated(body: str, expected: set[str]) -> None:
    text = f"func.func public @main(%a: T, %b: T) -> T {{\n{body}\nreturn %r : T\n}}"
    text = text.replace(": T", ": tensor<8xf32>").replace("-> T", "-> tensor<8xf32>")
    program = Program(model_of(parse_module(text, new_context())))
    shardings = [parse_sharding(f"<@mesh, [{dims}]>", {"mesh": MESH}) for dims in ('{"x"}', "{}")]
    found = replicated_axes(program.body.ir, MESH, shardings)
    assert found[program.body.terminator.operands[0]] == expected


def test_a_carry_is_replicated_if_it_stays_so() -> None:
    text = """func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %i0 = stablehlo.constant dense<0> : tensor<i32>
    %r:3 = stablehlo.while(%i = %i0, %x = %b, %z = %b) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %n = stablehlo.constant dense<9> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %a : tensor<8xf32>
      stablehlo.return %j, %y, %z : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %r#1, %r#2 : tensor<8xf32>, tensor<8xf32>
    }"""
    program = Program(model_of(parse_module(text, new_context())))
    shardings = [parse_sharding(f"<@mesh, [{dims}]>", {"mesh": MESH}) for dims in ('{"x"}', "{}")]
    found = replicated_axes(program.body.ir, MESH, shardings)
    assert [found[value] for value in program.body.terminator.operands] == [{"y"}, {"x", "y"}]

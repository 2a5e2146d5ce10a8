"""The timeline of a step: what begins when, and what waits for it."""

from __future__ import annotations

import pytest

import gspmd
from gspmd.costs.timeline import COMPUTE, Event, Timeline

TARGET = "tpu-v5p"
HEAD = 'sdy.mesh @mesh = <["x"=4]>\n'
SPLIT = 'tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'


def timeline(body: str, arguments: str = f"%a: {SPLIT}, %b: {SPLIT}, %c: {SPLIT}") -> Timeline:
    text = f"{HEAD}func.func public @main({arguments}) -> ({SPLIT}) {{\n{body}\n}}\n"
    return gspmd.cost(text, target=TARGET).timeline


def product(result: str, left: str, right: str) -> str:
    dot = f"%{result} = stablehlo.dot_general %{left}, %{right}, contracting_dims = [1] x [0]"
    return f"{dot} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>"


def named(found: Timeline, name: str) -> list[Event]:
    return [event for event in found.events if event.name == name]


def test_a_product_waits_for_what_it_gathers() -> None:
    found = timeline(f"{product('0', 'a', 'b')}\nreturn %0 : tensor<4096x4096xf32>")
    (gather,), (dot,) = named(found, "all_gather"), named(found, "dot_general")
    assert (gather.lane, gather.start_s) == ('"x"', 0.0)
    assert dot.start_s == gather.end_s
    assert found.total_s == dot.end_s
    assert found.lanes == (COMPUTE, '"x"')
    assert (found.hidden_s, found.exposed_s) == pytest.approx((0.0, gather.duration_s))


def test_what_is_there_from_the_beginning_is_gathered_beside_a_product() -> None:
    lines = (product("0", "a", "b"), product("1", "0", "c"), "return %1 : tensor<4096x4096xf32>")
    found = timeline("\n".join(lines))
    first, second = sorted(named(found, "all_gather"), key=lambda event: event.start_s)
    assert second.start_s == first.end_s
    assert found.hidden_s == pytest.approx(min(second.duration_s, named(found, "dot_general")[0].duration_s))
    assert found.total_s == pytest.approx(found.compute_s + found.exposed_s)


def test_the_links_carry_one_collective_at_a_time() -> None:
    lines = (product("0", "a", "b"), product("1", "0", "c"), "return %1 : tensor<4096x4096xf32>")
    found = timeline("\n".join(lines))
    for lane in found.lanes:
        ends = 0.0
        for event in (event for event in found.events if event.lane == lane):
            assert event.start_s >= ends * (1 - 1e-12)
            ends = event.end_s


def loop(limit: int) -> str:
    type_ = "tensor<4096x4096xf32>"
    return f"""%zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, {type_}
     cond {{
      %limit = stablehlo.constant dense<{limit}> : tensor<i32>
      %more = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      {product("y", "x", "x")}
      stablehlo.return %next, %y : tensor<i32>, {type_}
    }}
    return %r#1 : {type_}"""


@pytest.mark.parametrize("turns", [1, 2, 10])
def test_of_a_loop_the_first_turn_is_told_and_all_are_counted(turns: int) -> None:
    found, once = timeline(loop(turns)), timeline(loop(1))
    assert found.total_s == pytest.approx(turns * once.total_s)
    assert found.compute_s == pytest.approx(turns * once.compute_s)
    assert found.communication_s == pytest.approx(turns * once.communication_s)
    later = [event for event in found.events if event.turns]
    assert {event.turns for event in later} == ({turns - 1} if turns > 1 else set())
    assert {event.lane for event in later} == ({COMPUTE, '"x"'} if turns > 1 else set())


def test_a_loop_without_turns_computes_nothing() -> None:
    assert named(timeline(loop(0)), "dot_general") == []


def test_a_branch_is_told_once() -> None:
    type_ = "tensor<4096x4096xf32>"
    body = f"""%r = "stablehlo.if"(%p) ({{
      {product("y", "a", "b")}
      stablehlo.return %y : {type_}
    }}, {{
      stablehlo.return %a : {type_}
    }}) : (tensor<i1>) -> {type_}
    return %r : {type_}"""
    found = timeline(body, f"%p: tensor<i1>, %a: {SPLIT}, %b: {SPLIT}")
    assert len(named(found, "dot_general")) == 1
    assert found.total_s == named(found, "dot_general")[0].end_s

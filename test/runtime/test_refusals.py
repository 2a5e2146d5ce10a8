"""Programs that a compiler does not take: which operation, and where it is in the user's model."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from jaxlib.mlir import ir

import gspmd
from gspmd.dialect.errors import ExecutionError
from gspmd.runtime import refusals
from gspmd.transforms.parsing.mlir import new_context

RULE = "sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}>"
UNKNOWN = (
    '%c = stablehlo.custom_call @foo(%b) {{api_version = 4 : i32, {rule}}} : ({t}) -> {t} loc("f"("model.py":12:4))'
)


def program(*body: str, mesh: int = 2) -> str:
    """A program of an argument `%a`, split, a flag `%p` and a number `%n`; operations come as text."""
    steps = "\n".join(body).format(t="tensor<8xf32>", rule=RULE)
    return f"""
    sdy.mesh @mesh = <["x"={mesh}]>
    func.func public @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}, %p: tensor<i1>,
                           %n: tensor<f32>) -> tensor<8xf32> {{
      {steps}
      return %r : tensor<8xf32> loc("model.py":30:4)
    }}
    """


TWICE = '%b = stablehlo.add %a, %a : {t} loc("model.py":10:4)'
SINE = '%r = stablehlo.sine %c : {t} loc("model.py":13:4)'
LOOP = """%l:2 = "stablehlo.while"(%p, %a) ({{
      ^bb0(%q: tensor<i1>, %v: {t}): stablehlo.return %q : tensor<i1>
    }}, {{
      ^bb0(%q: tensor<i1>, %v: {t}):
        %b = stablehlo.cosine %v : {t} loc("model.py":11:4)
        BODY
        stablehlo.return %p, %c : tensor<i1>, {t}
    }}) : (tensor<i1>, {t}) -> (tensor<i1>, {t}) loc("model.py":9:4)
    %r = stablehlo.sine %l#1 : {t} loc("model.py":13:4)"""
BRANCH = """%c = "stablehlo.if"(%p) ({{
        BODY
        stablehlo.return %c : {t}
    }}, {{ stablehlo.return %b : {t} }}) : (tensor<i1>) -> {t} loc("model.py":9:4)"""
CAPTURE = """%c = "stablehlo.sort"(%b) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.multiply %x, %n : tensor<f32> loc("model.py":21:9)
        %w = stablehlo.compare LT, %z, %y : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("model.py":22:9)
        stablehlo.return %w : tensor<i1>
    }}) {{dimension = 0 : i64}} : ({t}) -> {t} loc("model.py":20:4)"""
NESTED = LOOP.replace("BODY", BRANCH.replace("BODY", UNKNOWN))

PLACES = {
    "a custom call that the platform has not": (program(TWICE, UNKNOWN, SINE), 12, "stablehlo.custom_call"),
    "in a loop": (program(LOOP.replace("BODY", UNKNOWN)), 12, "stablehlo.custom_call"),
    "in a branch of a loop": (program(NESTED), 12, "stablehlo.custom_call"),
    "two of them": (
        program(TWICE, UNKNOWN, SINE.replace("%r", "%d"), UNKNOWN.replace("%c", "%r").replace("%b", "%d")),
        12,
        "stablehlo.custom_call",
    ),
    "a comparison that uses what is around it": (program(TWICE, CAPTURE, SINE), 21, "stablehlo.multiply"),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_refused_operation_is_named_with_its_place(case: str) -> None:
    text, line, op = PLACES[case]
    with pytest.raises(ExecutionError, match=re.escape(f"PJRT does not take '{op}': ")) as raised:
        gspmd.compile(gspmd.partition(text))
    assert raised.value.location is not None
    assert (raised.value.location.file, raised.value.location.line) == ("model.py", line)
    assert str(raised.value).startswith(f"model.py:{line}:")
    assert "\n" not in str(raised.value)


def test_the_line_is_that_of_a_function_of_jax() -> None:
    def model(x: jax.Array) -> jax.Array:
        def body(_: Any, c: jax.Array) -> jax.Array:
            return jax.ffi.ffi_call("no_such_handler", jax.ShapeDtypeStruct(c.shape, c.dtype))(c)

        return jax.lax.fori_loop(0, 3, body, x + 1)

    partitioned = gspmd.jit(model, mesh={"x": 2}, replicate_unsupported=True)
    with pytest.raises(ExecutionError, match=r"does not take 'stablehlo\.custom_call'") as raised:
        partitioned(np.ones(8, np.float32))
    assert raised.value.location is not None
    assert raised.value.location.file == __file__
    assert raised.value.location.line == model.__code__.co_firstlineno + 2


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_the_compiler_of_tpus_says_where() -> None:
    with pytest.raises(ExecutionError, match="Custom emitter for foo not found") as raised:
        gspmd.compile_for(program(NESTED, mesh=4), "tpu:v5e:2x2")
    assert raised.value.location is not None
    assert (raised.value.location.file, raised.value.location.line) == ("model.py", 12)


# ---- what compilers say ----

MODULE = """
func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32> loc("model.py":1:1)
  %1 = stablehlo.cosine %0 : tensor<4xf32> loc("model.py":2:1)
  %2 = stablehlo.tan %1 : tensor<4xf32> loc("model.py":3:1)
  return %2 : tensor<4xf32>
}
"""


def refused(said: str, names: Iterable[str] = ()) -> ExecutionError:
    """What becomes of a message, for a compiler that refuses the operations named, or everything."""
    with new_context():
        module = ir.Module.parse(MODULE)

        def compile_(given: ir.Module) -> None:
            text = str(given)
            if not names or any(name in text for name in names):
                raise JaxRuntimeError(said)

        return refusals.refusal(JaxRuntimeError(said), module, compile_)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "UNKNOWN: a b.py:12:9: error: 'stablehlo.tan' op is wrong\na b.py:12:9: note: see current operation",
            "a b.py:12:9: error: PJRT does not take 'stablehlo.tan': is wrong",
        ),
        (
            (
                'INVALID_ARGUMENT: Unsupported operation %tan.2 = s32[2,8]{1,0} tan(%add.2), metadata={op_name="f" '
                'source_file="m.py" source_line=11 source_end_line=11 source_column=4}'
            ),
            "m.py:11:4: error: PJRT does not take 'tan': Unsupported operation %tan.2 = s32[2,8]{1,0} tan",
        ),
        (
            (
                "INTERNAL: during context [hlo verifier]: Inconsistent while sharding among instructions: \n"
                '%while.1 = (f32[2]{0}, s32[]) while(%tuple.4), metadata={source_file="m.py" source_line=7}'
            ),
            (
                "m.py:7:0: error: PJRT does not take 'while': during context [hlo verifier]: Inconsistent while "
                "sharding among instructions:"
            ),
        ),
        (
            "INVALID_ARGUMENT: Custom emitter not found\nSuspected Python Code Location: /m/m.py:46:11 [f]\n x",
            "/m/m.py:46:11: error: PJRT does not take the module: Custom emitter not found",
        ),
        ("INTERNAL: out of luck", "gspmd: error: PJRT does not take the module: out of luck"),
        ("", "gspmd: error: PJRT does not take the module: JaxRuntimeError"),
    ],
    ids=["diagnostic", "instruction", "instruction on a line of its own", "suspected", "all refused", "nothing"],
)
def test_places_in_what_is_said(said: str, expected: str) -> None:
    assert str(refused(said)) == expected


@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
def test_what_is_said_without_a_place_is_found_by_leaving_out(name: str) -> None:
    line = {"sine": 1, "cosine": 2, "tan": 3}[name]
    said = "NOT_FOUND: nothing does this"
    expected = f"model.py:{line}:1: error: PJRT does not take 'stablehlo.{name}': nothing does this"
    assert str(refused(said, [f"stablehlo.{name}"])) == expected


def test_memory_is_no_matter_of_one_operation() -> None:
    assert refused("RESOURCE_EXHAUSTED: too large", ["stablehlo.sine"]).location is None


def test_the_last_one_is_found_of_several() -> None:
    assert str(refused("NOT_FOUND: no", ["stablehlo.sine", "stablehlo.cosine"])).startswith("model.py:2:1: ")


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_PATIENCE_S", 0.0)
    assert refused("NOT_FOUND: no", ["stablehlo.cosine"]).location is None

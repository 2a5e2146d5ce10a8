"""Every pass alone, on modules that no earlier pass has seen, says what has to run before, or works."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir

import gspmd
from gspmd.reading import parse_program
from gspmd.transforms.parsing.mlir import new_context
from gspmd.transforms.passes import Pass
from gspmd.transforms.pipeline import PASSES

_MESH = 'sdy.mesh @mesh = <["x"=4, "y"=4]>\n'


def _main(argument: str, result: str, *body: str, arguments: str = "") -> str:
    lines = "".join(f"  {line}\n" for line in body)
    signature = f"%a: tensor<8x8xf32> {_said(argument)}{arguments}"
    return f"{_MESH}func.func @main({signature}) -> (tensor<8x8xf32> {_said(result)}) {{\n{lines}}}\n"


def _said(dims: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}"


def _made(axis: str) -> str:
    return f'{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{"{axis}"}}, {{}}]>]>}}'


_RETURN = "return %0 : tensor<8x8xf32>"
_SPLIT = '[{"x"}, {}]'

UNPREPARED = {
    "nothing": "module {\n}\n",
    "no mesh": "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n",
    "no @main": _MESH + "func.func @f() {\n  return\n}\n",
    "a module inside": "module {\n  module {\n  }\n}\n",
    "another sharding": _main(_SPLIT, '[{}, {"x"}]', "%0 = stablehlo.tanh %a : tensor<8x8xf32>", _RETURN),
    "axes of one size": _main(
        _SPLIT,
        _SPLIT,
        f"%b = stablehlo.iota dim = 0 {_made('y')} : tensor<8x8xf32>",
        f"%t = stablehlo.tanh %b {_made('y')} : tensor<8x8xf32>",
        f"%0 = stablehlo.add %a, %t {_made('x')} : tensor<8x8xf32>",
        _RETURN,
    ),
    "an open sharding": _main('[{"x", ?}, {?}]', "[{?}, {?}]", "%0 = stablehlo.tanh %a : tensor<8x8xf32>", _RETURN),
    "a constraint": _main(
        _SPLIT, _SPLIT, '%0 = sdy.sharding_constraint %a <@mesh, [{}, {"y"}]> : tensor<8x8xf32>', _RETURN
    ),
    "a reshard": _main(_SPLIT, _SPLIT, '%0 = sdy.reshard %a <@mesh, [{}, {"y"}]> : tensor<8x8xf32>', _RETURN),
    "a data-flow edge": _main(_SPLIT, _SPLIT, "%0 = sdy.data_flow_edge %a : tensor<8x8xf32>", _RETURN),
    "a named computation": _main(
        _SPLIT,
        _SPLIT,
        '%0 = sdy.named_computation<"f">(%a) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] '
        "(%b: tensor<8x8xf32>) {",
        "sdy.return %b : tensor<8x8xf32>",
        "} : (tensor<8x8xf32>) -> tensor<8x8xf32>",
        _RETURN,
    ),
    "an unreduced argument": _main(
        '[{}, {"y"}], unreduced={"x"}', '[{}, {"y"}]', "%0 = stablehlo.tanh %a : tensor<8x8xf32>", _RETURN
    ),
    "an axis of size 1": _main(_SPLIT, _SPLIT, "%0 = stablehlo.tanh %a : tensor<8x8xf32>", _RETURN).replace(
        '"y"=4', '"y"=1'
    ),
    "a call": _main(_SPLIT, _SPLIT, "%0 = call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>", _RETURN)
    + "func.func private @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {\n  return %a : tensor<8x8xf32>\n}\n",
    "a marker": _main(
        _SPLIT,
        _SPLIT,
        '%0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{replicated}"} '
        ": (tensor<8x8xf32>) -> tensor<8x8xf32>",
        _RETURN,
    ),
    "a token": "module {\n" + _MESH + "func.func @main(%t: !stablehlo.token) -> !stablehlo.token {\n"
    "  %0 = stablehlo.after_all %t, %t : !stablehlo.token\n  return %0 : !stablehlo.token\n}\n}\n",
    "attributes of another kind": _main(
        _SPLIT, _SPLIT, "%0 = stablehlo.tanh %a {mhlo.frontend_attributes = 3} : tensor<8x8xf32>", _RETURN
    ),
    "device ids of another kind": _main(_SPLIT, _SPLIT, "return %a : tensor<8x8xf32>").replace(
        "sdy.sharding =", "gspmd.device_ids = 3, sdy.sharding =", 1
    ),
    "summands that are none": _main(_SPLIT, _SPLIT, "return %a : tensor<8x8xf32>").replace(
        "sdy.sharding =", "gspmd.unreduced, sdy.sharding =", 1
    ),
    "a mesh that is none": "module attributes {gspmd.mesh = 3} {\n"
    + _main(_SPLIT, _SPLIT, "return %a : tensor<8x8xf32>")
    + "}\n",
    "a mesh that is no text of one": 'module attributes {gspmd.mesh = "x"} {\n'
    + _main(_SPLIT, _SPLIT, "return %a : tensor<8x8xf32>")
    + "}\n",
}


@pytest.mark.parametrize("declaration", PASSES, ids=lambda declaration: declaration.argument)
@pytest.mark.parametrize("name", UNPREPARED)
def test_a_pass_works_or_says_where_and_why(name: str, declaration: type[Pass]) -> None:
    options = {"update_axes": ("x",)} if declaration.argument == "gspmd-shard-weight-update" else {}
    module = _module(name)
    refused: gspmd.Error | None = None
    try:
        gspmd.PassManager([declaration(**options)]).run(module, on_diagnostic=lambda _: None)
    except gspmd.Error as error:
        refused = error
    if refused is None:
        module.operation.verify()
        return
    assert refused.kind not in (gspmd.ErrorKind.INTERNAL, gspmd.ErrorKind.USAGE), refused
    assert refused.location is not None, refused


def _module(name: str) -> ir.Module:
    text = UNPREPARED[name]
    return parse_program(text if text.startswith("module") else f"module {{\n{text}}}\n", new_context())


@pytest.mark.parametrize(
    ("name", "passes", "message"),
    [
        ("no mesh", "gspmd-propagate", "-:1:1: error: expected one mesh but the module has 0; run gspmd-ingest first"),
        ("an axis of size 1", "gspmd-reshard", 'mesh <["x"=4, "y"=1]> has an axis of size 1; run gspmd-ingest first'),
        ("a call", "gspmd-propagate", "-:4:8: error: 'func.call' op calls a function, or annotates as frameworks do"),
        ("a marker", "gspmd-localize", "-:4:8: error: 'stablehlo.custom_call' op calls a function, or annotates as"),
        ("an unreduced argument", "gspmd-reshard", "has an unreduced argument or result; run gspmd-ingest first"),
        ("an open sharding", "gspmd-reshard", "has an argument or result whose sharding is open; run gspmd-propagate"),
        (
            "a constraint",
            "gspmd-localize",
            "-:4:8: error: 'sdy.sharding_constraint' op requires a sharding; run gspmd-re",
        ),
        (
            "another sharding",
            "gspmd-localize",
            "-:4:8: error: 'stablehlo.tanh' op cannot produce [{}, {}] from [{\"x\"}, {}]; run gspmd-reshard first",
        ),
        (
            "axes of one size",
            "gspmd-localize",
            (
                '-:6:8: error: \'stablehlo.add\' op cannot produce [{"x"}, {}] from [{"x"}, {}], '
                '[{"y"}, {}]; run gspmd-reshard'
            ),
        ),
        (
            "nothing",
            "gspmd-combine-collectives",
            "the module has no function '@main'; its functions are none; run gspmd-in",
        ),
    ],
)
def test_what_has_to_run_before(name: str, passes: str, message: str) -> None:
    with pytest.raises(gspmd.Error) as raised:
        gspmd.PassManager([passes]).run(_module(name))
    assert message in str(raised.value)


def test_what_a_pass_leaves_is_what_the_next_needs() -> None:
    names = ["gspmd-ingest", "gspmd-propagate", "gspmd-reshard", "gspmd-localize", "gspmd-optimize", "gspmd-order"]
    for text in (UNPREPARED["an open sharding"], UNPREPARED["a call"], UNPREPARED["a constraint"]):
        module = parse_program(text, new_context())
        for name in names:
            gspmd.PassManager([name]).run(module)
            module = parse_program(str(module), new_context())

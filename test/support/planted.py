"""Faults planted in passes, each with the pass and the operation that a search has to name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
from jaxlib.mlir import ir

from gspmd.dialect.rule import OpShardingRule
from gspmd.pass_manager import manager
from gspmd.transforms.decide import Decide
from gspmd.transforms.emit.counting import CountingEmitter
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange import step
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.localize import Localize
from gspmd.transforms.ops import OPS
from gspmd.transforms.optimize import Optimize
from gspmd.transforms.order import Order
from gspmd.transforms.passes import Pass
from gspmd.transforms.propagate import Propagate

Plant = Callable[[pytest.MonkeyPatch], None]

# Over eight devices: over four, less is sent if the value is gathered and every device sorts all of it.
_SORTED = """"stablehlo.sort"(%4) ({ ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1> }) {dimension = 1 : i64} : (tensor<576x576xf32>) -> tensor<576x576xf32>"""
PROGRAM = f"""sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<576x1024xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                       %b: tensor<1024x576xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}},
                       %c: tensor<576x576xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
                       %v: tensor<64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
    -> (tensor<576x576xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
        tensor<576x576xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
        tensor<576xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}},
        tensor<64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<576x1024xf32>, tensor<1024x576xf32>) -> tensor<576x576xf32>
  %1 = stablehlo.subtract %0, %c : tensor<576x576xf32>
  %2 = stablehlo.reverse %v, dims = [0] : tensor<64xf32>
  %3 = stablehlo.transpose %1, dims = [1, 0] : (tensor<576x576xf32>) -> tensor<576x576xf32>
  %4 = sdy.sharding_constraint %3 <@mesh, [{{"x"}}, {{"y"}}]> : tensor<576x576xf32>
  %5 = {_SORTED}
  %6 = stablehlo.concatenate %1, %5, dim = 0 : (tensor<576x576xf32>, tensor<576x576xf32>) -> tensor<1152x576xf32>
  %7 = stablehlo.slice %6 [0:1152:2, 0:576] : (tensor<1152x576xf32>) -> tensor<576x576xf32>
  %8 = stablehlo.tanh %7 : tensor<576x576xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %9 = stablehlo.reduce(%8 init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<576x576xf32>, tensor<f32>) -> tensor<576xf32>
  return %1, %8, %9, %2 : tensor<576x576xf32>, tensor<576x576xf32>, tensor<576xf32>, tensor<64xf32>
}}
"""


@dataclasses.dataclass(frozen=True)
class Planted:
    """A fault: what plants it, and what is to be found; `symptom` is a part of what is said of it."""

    name: str
    plant: Plant
    pass_name: str
    operation: str
    value: str
    step: str = ""
    symptom: str = ""
    program: str = PROGRAM


# ---- what is planted ------------------------------------------------------------------------------


def _with_localizer(name: str, localize: Callable[[LocalOp], None]) -> Plant:
    """Another localizer; what is only counted has the right one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = OPS[name].localize

        def either(op: LocalOp) -> None:
            if isinstance(op.emit, CountingEmitter):
                assert right is not None
                right(op)
            else:
                localize(op)

        patch.setitem(OPS, name, dataclasses.replace(OPS[name], localize=either))

    return plant


def _with_step(kind: str, emit: Callable[[Any], Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = step._KINDS[kind]

        def either(emission: Any) -> Any:
            return (right.emit if isinstance(emission.emit, CountingEmitter) else emit)(emission)

        patch.setitem(step._KINDS, kind, right._replace(emit=either))

    return plant


def _behind(pass_: type[Pass], change: Callable[[Operation], None]) -> Plant:
    """A change of the module that a pass makes at its end."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = pass_.run

        def run(self: Pass, module: Operation) -> None:
            right(self, module)
            change(module)

        patch.setattr(pass_, "run", run)

    return plant


def _first(module: Operation, name: str) -> Operation:
    return next(op for op in main_function(module).walk() if op.name == name)


def _swap_operands(name: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        op = _first(module, name)
        left, right = list(op.operands)
        op.operands[0], op.operands[1] = right, left

    return change


def _replace_by_operand(name: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        op = _first(module, name)
        op.replace(op.operands)

    return change


def _rename(name: str, other: str) -> Callable[[Operation], None]:
    def change(module: Operation) -> None:
        op = _first(module, name)
        made = Operation(other, op.operands, [r.type for r in op.results], dict(op.attributes), op.location)
        made.insert(Point.at(op))
        op.replace(made.results)

    return change


def _swap_results(module: Operation) -> None:
    end = main_function(module).regions[0].terminator
    first, second, *_ = end.operands
    end.operands[0], end.operands[1] = second, first


def _reverse_in_place(op: LocalOp) -> None:
    """As if shards did not have to swap places."""
    op.keep()


def _backwards(op: LocalOp) -> None:
    """Sorted the other way round: the comparator's operands are swapped."""
    (block,) = op.ir.regions
    compare = next(iter(block))
    compare.attributes["comparison_direction"] = ir.Attribute.parse("#stablehlo<comparison_direction GT>")
    right = _right["stablehlo.sort"]
    assert right is not None
    right(op)


def _fail(_: LocalOp) -> None:
    raise KeyError("no such thing")


def _unknown_call(op: LocalOp) -> None:
    """What no compiler knows."""
    target = ir.StringAttr.get("no_such_target")
    op.replace([op.emit.op("stablehlo.custom_call", op.operands[:1], [op.local_result(0)], call_target_name=target)])


_right = {name: definition.localize for name, definition in OPS.items()}


def _wrong_rule(patch: pytest.MonkeyPatch) -> None:
    """A reversal is taken for an operation on single elements, which needs no localizer."""

    def rule(info: OpInfo) -> OpShardingRule:
        return OPS["stablehlo.tanh"].rule(info)

    patch.setitem(OPS, "stablehlo.reverse", dataclasses.replace(OPS["stablehlo.reverse"], rule=rule, localize=None))


def _unfolds_wrongly(patch: pytest.MonkeyPatch) -> None:
    """Layers that are put back have a product the other way round."""
    right = manager.reroll.unfold

    def unfold(function: Operation, folded: Any) -> None:
        right(function, folded)
        ops = [op for op in function.regions[0] if op.name == "stablehlo.subtract"]
        op = ops[len(ops) // 2]
        op.operands[0], op.operands[1] = list(op.operands)[::-1]

    patch.setattr(manager.reroll, "unfold", unfold)
    fold_few = functools.partial(manager.reroll.fold, min_operations=0)
    patch.setattr(manager.reroll, "fold", fold_few)


_SQUARES = "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"
_SPLIT = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'


def _layers(count: int) -> str:
    lines, last = [], "%x"
    for number in range(count):
        lines += [
            f"  %p{number} = stablehlo.dot_general {last}, %w{number}, contracting_dims = [1] x [0] : {_SQUARES}",
            f"  %t{number} = stablehlo.tanh %p{number} : tensor<8x8xf32>",
            f"  %n{number} = stablehlo.negate %t{number} : tensor<8x8xf32>",
            f"  %s{number} = stablehlo.subtract %n{number}, {last} : tensor<8x8xf32>",
        ]
        last = f"%s{number}"
    arguments = ", ".join(f"{name}: tensor<8x8xf32> {_SPLIT}" for name in ("%x", *(f"%w{n}" for n in range(count))))
    head = f'sdy.mesh @mesh = <["x"=4]>\nfunc.func public @main({arguments}) -> tensor<8x8xf32> {{'
    return "\n".join([head, *lines, f"  return {last} : tensor<8x8xf32>", "}", ""])


_LOCALIZE, _OPTIMIZE = Localize.argument, Optimize.argument
PLANTED = (
    Planted(
        "shards of a reversal stay in place",
        _with_localizer("stablehlo.reverse", _reverse_in_place),
        _LOCALIZE,
        "stablehlo.reverse",
        "%2",
    ),
    Planted("a sort runs backwards", _with_localizer("stablehlo.sort", _backwards), _LOCALIZE, "stablehlo.sort", "%5"),
    Planted(
        "partial sums are not summed",
        _with_step("all_reduce", lambda e: e.value),
        _LOCALIZE,
        "stablehlo.dot_general",
        "%0",
        step="sdy.all_reduce",
    ),
    Planted(
        "a localizer fails",
        _with_localizer("stablehlo.sort", _fail),
        _LOCALIZE,
        "stablehlo.sort",
        "%5",
        symptom="KeyError",
    ),
    Planted(
        "XLA does not know what is emitted",
        _with_localizer("stablehlo.concatenate", _unknown_call),
        _LOCALIZE,
        "stablehlo.concatenate",
        "%6",
        symptom="no_such_target",
    ),
    Planted("a rule says too much", _wrong_rule, _LOCALIZE, "stablehlo.reverse", "%2"),
    Planted(
        "an all-reduce is optimised away",
        _behind(Optimize, _replace_by_operand("stablehlo.all_reduce")),
        _OPTIMIZE,
        "stablehlo.dot_general",
        "%0",
        step="sdy.all_reduce",
    ),
    Planted(
        "the decision swaps operands",
        _behind(Decide, _swap_operands("stablehlo.subtract")),
        Decide.argument,
        "stablehlo.subtract",
        "%1",
    ),
    Planted(
        "propagation changes an operation",
        _behind(Propagate, _rename("stablehlo.tanh", "stablehlo.sine")),
        Propagate.argument,
        "stablehlo.tanh",
        "%8",
    ),
    Planted(
        "ingest drops an operation",
        _behind(Ingest, _replace_by_operand("stablehlo.transpose")),
        Ingest.argument,
        "stablehlo.transpose",
        "%3",
    ),
    Planted("results change places", _behind(Order, _swap_results), Order.argument, "func.return", ""),
    Planted(
        "layers are put back wrongly",
        _unfolds_wrongly,
        "fold",
        "",
        "",
        program=_layers(12),
    ),
)

"""The program in memory: read and written it is the same text, and edits keep values and their users in step."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from jaxlib.mlir import ir

import gspmd
from gspmd.dialect.errors import Error, Unsupported
from gspmd.pass_manager import PassManager
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.localize import Localize
from gspmd.transforms.order import Order
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.passes import Pass, make_pass
from gspmd.transforms.pipeline import STAGES
from gspmd.transforms.propagate import Propagate
from gspmd.transforms.reshard import Reshard

TEST = Path(__file__).resolve().parent.parent
PROGRAM = """
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<4xf32>
  %2:2 = stablehlo.while(%i = %n, %x = %1) : tensor<i32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %y = stablehlo.add %x, %0 : tensor<4xf32>
    %j = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
  }
  %3 = stablehlo.subtract %2#1, %b : tensor<4xf32>
  return %3, %2#0 : tensor<4xf32>, tensor<i32>
}
"""


def read(text: str = PROGRAM) -> tuple[ir.Module, Operation]:
    """A module, and what it is in memory."""
    module = parse_module(text, new_context())
    return module, model_of(module)


def named(top: Operation, name: str) -> list[Operation]:
    return [op for op in top.walk() if op.name == f"stablehlo.{name}"]


def check(top: Operation) -> None:
    """Raise AssertionError unless what knows of each other does so on both sides."""
    uses: dict[Value, dict[Operation, int]] = {}
    values: list[Value] = []

    def visit(block: Block, owner: Operation) -> None:
        assert block.owner is owner
        values.extend(block.arguments)
        before: Operation | None = None
        for op in block:
            assert op.block is block
            assert op.previous is before
            assert before is None or (before.next is op and before.precedes(op) and not op.precedes(before))
            before = op
            values.extend(op.results)
            for operand in op.operands:
                count = uses.setdefault(operand, {})
                count[op] = count.get(op, 0) + 1
            for region in op.regions:
                visit(region, op)
        assert block.last is before

    for region in top.regions:
        visit(region, top)
    assert {value: value._users for value in values if value.is_used} == uses
    for value in values:
        assert {(use.op, use.position) for use in value.uses()} == {
            (op, i) for op in value.users for i, operand in enumerate(op.operands) if operand is value
        }


@pytest.mark.parametrize("folder", ["ingest", "ops", "optimize", "propagate", "reshard"])
def test_what_is_read_is_written(folder: str) -> None:
    seen = 0
    for path in sorted((TEST / folder).rglob("*.mlir")):
        for text in path.read_text().split("// -----"):
            try:
                module = parse_module(text, new_context())
            except Error:
                continue  # of tests of refusals
            before = module.operation.get_asm(enable_debug_info=True)
            with in_memory(module) as top:
                check(top)
            assert module.operation.get_asm(enable_debug_info=True) == before
            seen += 1
    assert seen > 10


UNREAD = "foo = dense<(1.0, 2.0)> : tensor<complex<f32>>"  # the bindings raise where this is read
WITH_UNREAD = f"""
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> (tensor<8xf32>, tensor<f32>)
    attributes {{{UNREAD}}} {{
  %z = stablehlo.constant {{{UNREAD}}} dense<0.0> : tensor<f32>
  %0 = stablehlo.add %a, %a {{{UNREAD}}} : tensor<8xf32>
  %1 = stablehlo.multiply %0, %a {{{UNREAD}}} : tensor<8xf32>
  %2 = stablehlo.reduce(%1 init: %z) across dimensions = [0] {{{UNREAD}}} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {{
      %s = stablehlo.add %p, %q {{{UNREAD}}} : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}
  return %1, %2 : tensor<8xf32>, tensor<f32>
}}
"""


@pytest.mark.parametrize(
    "text", ["module { module { } }", "module { func.func private @f(i32) module @m { module { } } }"]
)
def test_modules_without_operations_and_functions_without_bodies_are_kept(text: str) -> None:
    module = parse_module(text, new_context())
    with in_memory(module):
        pass
    assert module.operation.verify()
    assert str(module) == str(parse_module(text, new_context()))


def test_attributes_that_the_bindings_cannot_read_are_kept() -> None:
    module = parse_module(WITH_UNREAD, new_context())
    before = module.operation.get_asm(enable_debug_info=True)
    for _ in range(2):
        with in_memory(module) as top:
            check(top)
        assert module.operation.get_asm(enable_debug_info=True) == before


def test_what_has_such_an_attribute_can_be_changed() -> None:
    module = parse_module(WITH_UNREAD, new_context())
    with in_memory(module) as top:
        (multiply,), (reduce,) = named(top, "multiply"), named(top, "reduce")
        multiply.operands[0] = multiply.operands[1]
        named(top, "add")[0].erase()
        (inner,) = named(reduce, "add")
        inner.operands[0] = inner.operands[1]
        reduce.clone().insert(Point.after(reduce))
        check(top)
    module.operation.verify()
    text = str(module)
    assert "stablehlo.multiply %arg0, %arg0 {foo = " in text
    assert text.count("stablehlo.reduce(") == 2
    assert text.count("foo = ") == 7  # the function, the constant, the product, two sums of two operations each


DYNAMIC = f"""
module @m attributes {{my.{UNREAD}, my.bar = 3 : i32}} {{
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<2x4xf32> {{
    %s = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
    %0 = stablehlo.dynamic_reshape %a, %s : (tensor<8xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    %1 = stablehlo.reshape %0 : (tensor<?x?xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }}
}}
"""


@pytest.mark.parametrize("program", [f"module attributes {{my.{UNREAD}, my.bar = 3 : i32}} {{{WITH_UNREAD}}}", DYNAMIC])
def test_such_an_attribute_of_the_module_is_kept_by_passes_of_ours_and_of_mlirs(program: str) -> None:
    """Ingest runs passes of MLIR's on the second program, whose shapes these find."""
    names = [stage.argument for stage in STAGES]
    for passes in (names, [part for name in names for part in (name, "canonicalize", "cse")]):
        module = parse_module(program, new_context())
        PassManager([f"builtin.module({','.join(passes)})"]).run(module)
        head = str(module).partition(" {\n")[0]
        assert "my.foo = dense<(1.000000e+00,2.000000e+00)> : tensor<complex<f32>>" in head
        assert "my.bar = 3" in head
    assert str(gspmd.partition(parse_module(program, new_context())).module).partition(" {\n")[0] == head


def test_it_goes_through_all_passes() -> None:
    module = parse_module(WITH_UNREAD, new_context())
    with in_memory(module) as top:
        for stage in STAGES:
            make_pass(stage, ()).run(top)
            check(top)
    module.operation.verify()
    assert "stablehlo.multiply" in str(module)


@pytest.mark.parametrize("stage", [Propagate, Reshard, Localize, Order])
@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("func.func private @main(tensor<4xf32>)", "no body"),
        ("func.func @main() {\n  cf.br ^end\n^end:\n  return\n}", "a body of several blocks"),
    ],
)
def test_a_function_without_one_block_is_refused(stage: type[Pass], source: str, body: str) -> None:
    _, top = read('sdy.mesh @mesh = <["x"=4]>\n' + source)
    with pytest.raises(Unsupported, match=rf"'func.func' op has {body}; expected one"):
        make_pass(stage, ()).run(top)
    with pytest.raises(Unsupported, match=body):
        main_function(top)


def test_an_operand_moves_from_one_value_to_another() -> None:
    _, top = read()
    (multiply,), main = named(top, "multiply"), top.regions[0].first
    assert main is not None
    argument = main.regions[0].arguments[0]
    total = multiply.operands[0]
    multiply.operands[1] = argument
    assert total.users == [multiply, named(top, "while")[0].regions[1].first]
    assert [(use.op, use.position) for use in argument.uses()][-1] == (multiply, 1)
    check(top)


def test_all_users_but_some_get_another_value() -> None:
    _, top = read()
    add = named(top, "add")[0]
    (multiply,) = named(top, "multiply")
    add.result.replace_all_uses_with(add.operands[1], [multiply, None])
    assert add.result.users == [multiply]
    check(top)


def test_a_copy_is_one_of_its_own() -> None:
    _, top = read()
    (loop,) = named(top, "while")
    copy = loop.clone({loop.operands[1]: named(top, "add")[0].result})
    copy.insert(Point.after(loop))
    check(top)
    inner = [value for op in copy.walk() for value in op.results]
    assert not {user for value in inner for user in value.users} & set(loop.walk())
    copy.erase()
    check(top)


def test_a_region_takes_the_place_of_its_operation() -> None:
    _, top = read("""
      sdy.mesh @mesh = <["x"=2]>
      func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] manual_axes={}
            (%b: tensor<4xf32>) {
          %1 = stablehlo.negate %b : tensor<4xf32>
          sdy.return %1 : tensor<4xf32>
        } : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }""")
    (manual,) = (op for op in top.walk() if op.name == "sdy.manual_computation")
    manual.inline()
    check(top)
    (negate,) = named(top, "negate")
    assert negate.operands == [negate.neighbours().arguments[0]]


def test_what_is_used_is_not_erased() -> None:
    _, top = read()
    with pytest.raises(AssertionError, match=r"a result of 'stablehlo.multiply' is still used"):
        named(top, "multiply")[0].erase()


@pytest.mark.parametrize("seed", range(20))
def test_random_edits_keep_both_sides_right(seed: int) -> None:
    module, top = read()
    rng = random.Random(seed)
    for _ in range(60):
        ops = [op for op in top.walk() if op.name.startswith("stablehlo.") and not op.name.endswith("return")]
        op = rng.choice(ops)
        _edit(rng, op)
        check(top)
    del module


def _edit(rng: random.Random, op: Operation) -> None:
    """Change something at the operation such that the program is still one."""
    before = {value for block in _around(op) for value in _made_before(block, op)}
    like = [value for value in before if op.operands and value.type == op.operands[0].type]
    kind = rng.randrange(5)
    if kind == 0 and like:
        op.operands[0] = rng.choice(sorted(like, key=lambda value: (repr(value), value.index)))
    elif kind == 1:
        op.clone().insert(Point.at(op))
    elif kind == 2 and not any(result.is_used for result in op.results):
        op.erase()
    elif kind == 3 and op.regions == [] and len(op.results) == 1:
        same = [value for value in op.operands if value.type is op.result.type]
        if same:
            op.replace([rng.choice(same)])
    elif kind == 4 and op.next is not None and not set(op.results) & _read_by(op.next) and op.next.next is not None:
        op.move(Point.after(op.next))


def _around(op: Operation) -> list[Block]:
    blocks = [op.neighbours()]
    while (owner := blocks[-1].owner) is not None and owner.block is not None and owner.name != "func.func":
        blocks.append(owner.block)
    return blocks


def _made_before(block: Block, op: Operation) -> list[Value]:
    here = op.within(block)
    return [*block.arguments, *(value for each in block if each.precedes(here) for value in each.results)]


def _read_by(op: Operation) -> set[Value]:
    return {*op.operands, *(value for inner in op.walk() for value in inner.operands)}


def test_equal_types_are_one_object() -> None:
    assert TensorType((2, 3), "f32") is TensorType((2, 3), "f32", True, "")
    assert TensorType((2, 3), "f32") != TensorType((3, 2), "f32")
    assert TensorType((2, 3), "f32").of_element("i8").of_shape((6,)).text == "tensor<6xi8>"

"""Strict mode refuses what nobody asked for, and says all of it."""

from __future__ import annotations

import pytest

import gspmd
from gspmd.dialect.errors import ErrorKind, Unsupported
from gspmd.transforms.reshard.strict import ReshardError

MESH = 'sdy.mesh @mesh = <["x"=4]>\n'
X = '#sdy.sharding<@mesh, [{"x"}, {}]>'
Y = '#sdy.sharding<@mesh, [{}, {"x"}]>'
WHOLE = "#sdy.sharding<@mesh, [{}, {}]>"


def program(body: str, a: str = X, b: str = X, result: str = X) -> str:
    text = f"""func.func public @main(%a: T {{sdy.sharding = {a}}}, %b: T {{sdy.sharding = {b}}})
      -> (T {{sdy.sharding = {result}}}) {{
{body}
      return %r : T
    }}"""
    return MESH + text.replace(": T", ": tensor<8x8xf32>").replace("(T", "(tensor<8x8xf32>").replace(
        " T", " tensor<8x8xf32>"
    )


def refused(text: str, strict: bool | int = True) -> ReshardError:
    with pytest.raises(ReshardError) as caught:
        gspmd.partition(text, strict=strict)
    gspmd.partition(text)
    return caught.value


SUM = "%r = stablehlo.add %a, %b : T"
# Activations are split over the batch; the weight is split too, as FSDP has it, and gathered.
FSDP = "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (T, T) -> T"


def test_an_operand_that_is_moved() -> None:
    error = refused(program(SUM, b=Y))
    (found,) = error.reshards
    assert (found.operation, found.type, found.source, found.target) == (
        "stablehlo.add",
        "f32[8,8]",
        '[{}, {"x"}]',
        '[{"x"}, {}]',
    )
    assert (found.kinds, found.bytes) == (("all_to_all",), 8 * 8 * 4 // 4 * 3 // 4)
    assert found.cause == "operand 1 of 'stablehlo.add' is needed as [{\"x\"}, {}]"
    assert found.location is not None
    assert found.location.line == 4
    assert isinstance(error, Unsupported)
    assert error.kind is ErrorKind.UNSUPPORTED
    assert "-:4:" in str(error)


def test_fully_sharded_weights_are_gathered_which_nobody_wrote() -> None:
    (found,) = refused(program(FSDP)).reshards
    assert (found.kinds, found.bytes, found.target) == (("all_gather",), 8 * 8 * 4 * 3 // 4, "[{}, {}]")


def test_bytes_are_allowed_up_to_the_number_given() -> None:
    sent = 8 * 8 * 4 * 3 // 4
    gspmd.partition(program(FSDP), strict=sent)
    assert "more than 191 bytes" in str(refused(program(FSDP), strict=sent - 1))


def test_all_of_them_are_listed_the_largest_first() -> None:
    text = program(FSDP).replace("%b: tensor", f"%c: tensor<8x8xf32> {{sdy.sharding = {Y}}}, %b: tensor")
    text = text.replace("-> (tensor<8x8xf32>", f"-> (tensor<8x8xf32> {{sdy.sharding = {X}}}, tensor<8x8xf32>")
    text = text.replace(
        "return %r : ", "%s = stablehlo.add %a, %c : tensor<8x8xf32>\n      return %s, %r : tensor<8x8xf32>, "
    )
    error = refused(text)
    assert {found.operation for found in error.reshards} >= {"stablehlo.dot_general", "stablehlo.add"}
    assert [found.bytes for found in error.reshards] == sorted((f.bytes for f in error.reshards), reverse=True)
    assert len(error.others) == len(error.reshards) - 1
    assert f"the program has {len(error.reshards)}" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        program(SUM),
        # A constraint is the user's word.
        program('%c = sdy.sharding_constraint %b <@mesh, [{"x"}, {}]> : T\n      %r = stablehlo.add %a, %c : T', b=Y),
        # So is the sharding of a result.
        program(SUM, result=WHOLE),
        # Sums of partial results are part of the product.
        program(FSDP, a=Y, result=WHOLE),
        program(FSDP, a=Y, result=X),
        # Taking a part of what is everywhere sends nothing.
        program(SUM, b=WHOLE),
    ],
    ids=["agrees", "constraint", "result", "all_reduce", "reduce_scatter", "slice"],
)
def test_what_was_asked_for_is_allowed(text: str) -> None:
    gspmd.partition(text, strict=True)


def test_cost_is_strict_too() -> None:
    with pytest.raises(ReshardError):
        gspmd.cost(program(FSDP), strict=True)

"""Sharding rules as text: what is printed is read back, and what is wrong is refused with the reason."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule, print_rule
from gspmd.dialect.rule_notation import parse_rule

Shape = tuple[int, ...]
MATMUL = ([(8, 4), (4, 16)], [(8, 16)])


@st.composite
def rules(draw: st.DrawFn) -> OpShardingRule:
    """Rules of up to 22 factors, so that some symbols have numbers, in up to three operands and two results."""
    count = draw(st.integers(1, 22))
    kinds = [draw(st.sampled_from([PASS_THROUGH, REDUCTION, NEED_REPLICATION, PERMUTATION])) for _ in range(count)]
    everywhere = list(range(count))
    results_may = [f for f in everywhere if kinds[f] is not REDUCTION]

    def tensor(factors: list[int]) -> tuple[tuple[int, ...], ...]:
        dims, rest = [], draw(st.permutations(factors))
        while rest:
            size = draw(st.integers(1, min(2, len(rest))))
            dims.append(tuple(rest[:size]))
            rest = rest[size:]
        return tuple(dims)

    others = [tensor(draw(st.lists(st.sampled_from(everywhere), unique=True))) for _ in range(draw(st.integers(0, 2)))]
    results = [tensor(results_may) for _ in range(draw(st.integers(0, 2)))]
    return OpShardingRule(
        tuple(draw(st.integers(1, 9)) for _ in range(count)),
        (tensor(everywhere), *others),
        tuple(results),
        tuple(kinds),
        blocked=frozenset(draw(st.sets(st.sampled_from(everywhere)))),
    )


def shapes(rule: OpShardingRule) -> tuple[list[Shape], list[Shape]]:
    def of(tensors: tuple[tuple[tuple[int, ...], ...], ...]) -> list[Shape]:
        return [tuple(math.prod(rule.sizes[f] for f in dim) for dim in tensor) for tensor in tensors]

    return of(rule.operands), of(rule.results)


@given(rules(), st.booleans())
def test_what_is_printed_is_read_back(rule: OpShardingRule, custom: bool) -> None:
    text = print_rule(rule, custom)
    assert parse_rule(text) == rule
    assert parse_rule(f"#sdy.op_sharding_rule<{text}>", *shapes(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "([i, j], [j, k])->([i, k]) {i=8, j=4, k=16} reduction={j}",
        "([i, j], [j, k])->([i, k]) reduction={j}",
        "([i, j], [j, k]) -> ([i, k]), reduction={j}",
        "([a,b],[b,c])->([a,c]) reduction={b}, custom",
    ],
)
def test_sizes_follow_from_shapes(text: str) -> None:
    assert print_rule(parse_rule(text, *MATMUL)) == "([i, j], [j, k])->([i, k]) {i=8, j=4, k=16} reduction={j}"


@pytest.mark.parametrize(
    ("text", "less"),
    [
        (
            "([ij, k])->([i, k]) {i=8, j=1, k=4} need_replication={k}",
            "([i, k])->([i, k]) {i=8, k=4} need_replication={k}",
        ),
        ("([ij], [j])->([ij]) {i=8, j=1}", "([i], [j])->([i]) {i=8, j=1}"),
        ("([ij], [j])->([ij]) {i=1, j=1}", "([i], [j])->([i]) {i=1, j=1}"),
    ],
)
def test_factors_of_size_1_beside_others_split_nothing(text: str, less: str) -> None:
    assert parse_rule(text).without_units() == parse_rule(less)


def test_the_size_of_a_factor_follows_from_the_others_of_its_dimension() -> None:
    rule = parse_rule("([ij], [j])->([i])", [(12,), (4,)], [(3,)])
    assert rule.sizes == (3, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x", "it is not of the form (operands)->(results)"),
        ("([i, j], [j])->([i, k])", "operand 1 has rank 1, expected 2"),
        ("([i, j])->([i, k])", "it has 1 operands, expected 2"),
        ("([i, j], [j, k])->([i, k], [i])", "it has 2 results, expected 1"),
        ("([i, j], [j, k])->([i, j])", "factors j make 4 elements of a dimension of 16"),
        ("([i, j], [j, k])->([i, k]) {i=8, j=2, k=16}", "factors j make 2 elements of a dimension of 4"),
        ("([i, j], [j, kl])->([i, kl])", "the size of factor k does not follow from the shapes"),
        ("([i, j], [j, k])->([i, k]) sum={j}", "'sum={j}' is not a kind of factors"),
        ("([i, j], [j, k])->([i, k]) reduction={j} permutation={j}", "factor j has two kinds"),
        ("([i, j], [j, k])->([i, k]) reduction={i}", "reduction factor i occurs in a result"),
        ("([i, j], [j, k])->([i, k]) reduction={l}", "factor l is used nowhere"),
        ("([i, j], [j, k])->([i, k]) {i=8, i=8}", "'i=8' is not a size, or is a second size of a factor"),
        ("([i, j], [j, k])->([i, ])", "'' is not a list of factors such as i or ij"),
        ("([i, j], [j, 2])->([i, k])", "'2' is not a list of factors such as i or ij"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        parse_rule(text, *MATMUL)
    assert caught.value.message == f"sharding rule '{text}' is wrong: {reason}"


def test_a_rule_without_shapes_needs_sizes() -> None:
    with pytest.raises(AnnotationError, match="it has no sizes of factors"):
        parse_rule("([i])->([i])")
    with pytest.raises(AnnotationError, match="factor j has no size"):
        parse_rule("([i, j])->([i, j]) {i=8}")

"""XLA's notation of shardings: reading undoes printing, and XLA reads what is printed."""

from __future__ import annotations

import contextlib
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib import _hlo  # type: ignore[attr-defined]
from support.dialect_strategies import ROLES, bodies

from gspmd.dialect.device_order import Iota
from gspmd.dialect.errors import AnnotationError, Error, ParseError
from gspmd.dialect.hlo_notation import parse_hlo_sharding, parse_open_dims, print_hlo_sharding, print_open_dims
from gspmd.dialect.hlo_sharding import (
    HloSharding,
    Maximal,
    Metadata,
    Named,
    Role,
    ShardGroup,
    Tiled,
    TupleOf,
    Whole,
)
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import CLOSED, TensorSharding

CANONICAL = [
    "{replicated}",
    "{manual}",
    "{unknown}",
    "{unreduced}",
    "{maximal device=3}",
    "{}",
    "{{replicated}}",
    "{{replicated}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{maximal device=0}}",
    "{devices=[2,2]0,2,1,3}",
    "{devices=[2,2]<=[4]}",
    "{devices=[2,2]<=[2,2]T(1,0)}",
    "{devices=[1,1]<=[1]}",
    "{devices=[2,2]<=[4] last_tile_dim_replicate}",
    "{devices=[2,2]<=[4] last_tile_dims={manual}}",
    "{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, unreduced}}",
    "{devices=[2,2,2]<=[8] last_tile_dims={maximal, replicated}}",
    "{devices=[2,2]<=[4] shard_as 3}",
    "{devices=[2,2]<=[4] last_tile_dims={manual} shard_like 0}",
    "{maximal device=1 shard_like 3}",
    '{replicated shard_as 1 metadata={op_name="a" source_line=3}}',
    '{devices=[2]<=[2] metadata={{op_name="a\\"}{b"}, {op_type="x" profile_type={1} id=-4}}}',
    "{mesh['a'=2,'b'=4], [{'a'}, {}]}",
    "{mesh['a'=2,'b'=4], [{'b', 'a'}, {?}]}",
    "{mesh['a'=2,'b'=4], [{'b', ?}, {}]}",
    "{mesh['a'=8], [{'a':(1)2, ?}, {'a':(4)2}], replicated={'a':(2)2}}",
    "{mesh['a'=2,'b'=4], [{}, {}], replicated={'a'}, unreduced={'b':(1)2}, manual={'b':(2)2}}",
    "{mesh['a'=4,'b'=16], device_ids=([16,4]T(1,0)), [{'a'}]}",
    "{mesh['a'=2,'b'=2], device_ids=(0,3,1,2), [{'a'}]}",
    "{mesh['a'=2,'b'=4], replicated}",
    "{mesh['a'=2,'b'=4], manual}",
    "{mesh['a'=2,'b'=4], unreduced}",
    "{mesh['a'=2,'b'=2], [], manual={'a'}}",
    "{mesh['a'=2], device_ids=(1,0), replicated}",
    "{mesh['a'=1,'b'=2], [{'a'}, {'b'}]}",
    "{mesh[], replicated}",
    "{maximal_mesh[device_id=5]}",
    "{{mesh['a'=2], [{'a'}]}, {devices=[2]<=[2]}}",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_is_printed_as_it_was(text: str) -> None:
    assert print_hlo_sharding(parse_hlo_sharding(text)) == text
    if "metadata" not in text:  # jaxlib does not print it
        renamed = text.replace("maximal_mesh", "single_device")  # from XLA of jaxlib 0.12 on
        assert str(_hlo.HloSharding.from_string(text)) in (text, xla_normal(text), renamed)


def xla_normal(text: str) -> str:
    """XLA prints normal forms only."""
    return print_hlo_sharding(parse_hlo_sharding(str(_hlo.HloSharding.from_string(text))))


values = st.text(alphabet='abc {},="/*\\', max_size=5).map(lambda s: '"' + re.sub(r'(["\\])', r"\\\1", s) + '"')
free_metadata = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["op_name", "x"]), st.one_of(values, st.sampled_from(["3", "-1", "{1,{2}}", "word"]))
        ),
        max_size=3,
    ).map(lambda fields: Metadata(tuple(fields))),
    max_size=3,
).map(tuple)
xla_metadata = st.lists(
    st.tuples(values, st.integers(0, 9)).map(lambda v: Metadata((("op_name", v[0]), ("source_line", str(v[1]))))),
    max_size=3,
).map(tuple)


@st.composite
def singles(draw: st.DrawFn, metadata: Any = free_metadata) -> HloSharding:
    body: Any = draw(
        st.one_of(bodies(), st.integers(0, 9).map(Maximal), st.integers(0, 9).map(lambda d: Maximal(d, True)))
    )
    is_named = isinstance(body, Named) or (isinstance(body, Maximal) and body.is_named)
    groups = st.builds(ShardGroup, st.integers(0, 9), st.booleans())
    return HloSharding(body, None if is_named else draw(st.none() | groups), draw(metadata))


def with_tuples(leaves: st.SearchStrategy[HloSharding]) -> st.SearchStrategy[HloSharding]:
    return st.one_of(leaves, st.lists(leaves, max_size=12).map(lambda s: HloSharding(TupleOf(tuple(s)))))


shardings = with_tuples(singles())


def fields(sharding: HloSharding) -> Any:
    """All that a value says, not only what counts in comparisons."""
    if isinstance(sharding.body, TupleOf):
        return [fields(leaf) for leaf in sharding.body.leaves]
    return repr(sharding.body), sharding.shard_group, sharding.metadata


@given(shardings)
def test_reading_undoes_printing(sharding: HloSharding) -> None:
    text = print_hlo_sharding(sharding)
    again = parse_hlo_sharding(text)
    assert fields(again) == fields(sharding)
    assert again == sharding
    assert print_hlo_sharding(again) == text


@given(with_tuples(singles(xla_metadata)))
def test_xla_reads_what_is_printed(sharding: HloSharding) -> None:
    reread = parse_hlo_sharding(str(_hlo.HloSharding.from_string(print_hlo_sharding(sharding))))
    assert reread == sharding


TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|<=|\w+|\S""")


@given(shardings, st.randoms(use_true_random=False))
def test_white_space_and_comments_mean_nothing(sharding: HloSharding, rng: random.Random) -> None:
    tokens = TOKEN.findall(re.sub(r"/\*index=\d+\*/", "", print_hlo_sharding(sharding)))
    text = " " + "".join(t + rng.choice([" ", "\n\t", " /* {x} 'y' */ ", "/**/"]) for t in tokens)
    assert fields(parse_hlo_sharding(text)) == fields(sharding)


@given(
    st.permutations(["devices=[2,2,1]<=[4]", "last_tile_dims={manual, replicated}", "shard_like 3", 'metadata={a="b"}'])
)
def test_words_come_in_any_order(words: list[str]) -> None:
    expected = HloSharding(
        Tiled((2, 2, 1), Iota((4,), (0,)), (Role.MANUAL, Role.REPLICATED)),
        ShardGroup(3, True),
        (Metadata((("a", '"b"'),)),),
    )
    assert fields(parse_hlo_sharding("{" + " ".join(words) + "}")) == fields(expected)


KINDS = ["replicated", "maximal device=1", "manual", "unknown", "unreduced"]


@given(st.lists(st.sampled_from(KINDS), min_size=1, unique=True))
def test_of_several_kinds_the_strongest_holds(kinds: list[str]) -> None:
    text = "{" + " ".join(kinds) + "}"
    strongest = min(kinds, key=KINDS.index)
    if "maximal device=1" in kinds and strongest != "maximal device=1":
        with pytest.raises(ParseError, match="only a maximal sharding has a 'device='"):
            parse_hlo_sharding(text)
    else:
        assert parse_hlo_sharding(text) == parse_hlo_sharding("{" + strongest + "}")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("{devices=[2,2]<=[4] last_tile_dims={replicated}}", "{devices=[2,2]<=[4] last_tile_dim_replicate}"),
        ("{devices=[2,2]<=[4] last_tile_dims={}}", "{devices=[2,2]<=[4]}"),
        ("{devices=[2,3]<=[1,3,2,1]T(2,3,1,0)}", "{devices=[2,3]<=[3,2]T(1,0)}"),
        ("{devices=[60]<=[3,4,5]T(1,2,0)}", "{devices=[60]<=[3,20]T(1,0)}"),
        ("{maximal devices=[1]4}", "{maximal device=4}"),
        ('{mesh["a"=2], [{"a"}]}', "{mesh['a'=2], [{'a'}]}"),
        ("{mesh['a'=2], []}", "{mesh['a'=2], replicated}"),
        ("{mesh['a'=2,'b'=2], [], unreduced={'a','b'}}", "{mesh['a'=2,'b'=2], unreduced}"),
        ("{mesh['a'=2,'b'=3], device_ids=([6]), [{'a'}]}", "{mesh['a'=2,'b'=3], [{'a'}]}"),
        ("{mesh['a'=2], [{'a'}], metadata={op_name='x'}}", "{mesh['a'=2], [{'a'}], metadata={{op_name='x'}}}"),
        (
            "{mesh['a'=4], [{}], manual={'a':(2)2}, unreduced={'a':(1)2}}",
            "{mesh['a'=4], [{}], unreduced={'a':(1)2}, manual={'a':(2)2}}",
        ),
    ],
)
def test_other_spellings(text: str, canonical: str) -> None:
    assert print_hlo_sharding(parse_hlo_sharding(text)) == canonical


@given(st.text(min_size=0, max_size=5))
def test_axis_names_may_be_anything(name: str) -> None:
    mesh = Mesh(((name, 2),))
    sharding = HloSharding(Named(TensorSharding(mesh, (CLOSED,), manual=mesh.all_axes()), Iota((2,), (0,))))
    assert fields(parse_hlo_sharding(print_hlo_sharding(sharding))) == fields(sharding)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected '\{'"),
        ("replicated", r"expected '\{' but found 'replicated' at offset 0"),
        ("{replicated", "found 'end of text'"),
        ("{replicated} x", "expected the end but found 'x' at offset 13"),
        ("{bogus}", "expected a word of the sharding notation"),
        ("{replicated, manual}", "found ','"),
        ("{{}}", "expected 'devices='"),
        ("{{{replicated}}}", "expected a word"),
        ("{{replicated},}", r"expected '\{' but found '\}'"),
        ("{last_tile_dim_replicate}", "expected 'devices='"),
        ("{maximal}", "needs exactly one 'device='"),
        ("{maximal device=1,2}", "found ','"),
        ("{maximal device=-1}", "negative"),
        ("{maximal devices=[2]0,1}", "needs exactly one 'device='"),
        ("{device=1}", "only a maximal sharding"),
        ("{replicated device=1}", "only a maximal sharding"),
        ("{replicated devices=[2]<=[2]}", "goes without tile dims"),
        ("{manual devices=[2]0,1}", "goes without tile dims"),
        ("{unreduced last_tile_dims={manual}}", "goes without tile dims"),
        ("{unknown last_tile_dim_replicate}", "goes without tile dims"),
        ("{devices=[1]0}", "one device is not a tiling"),
        ("{devices=[2]0}", "one device is not a tiling"),
        ("{devices=[2]}", "whole number"),
        ("{devices=[2,2]0,1,2}", "need 4 devices but 3 are given"),
        ("{devices=[2]0,0}", "device 0 is listed twice and device 1 is missing"),
        ("{devices=[2]0,2}", "device 2 is out of range"),
        ("{devices=[-2]0,1}", "at least 1"),
        ("{devices=[]<=[2]}", "must be one or more"),
        ("{devices=[4]<=[5]}", "need 4 devices but 5 are given"),
        ("{devices=[4]<=[2,2]}", "expected 'T'"),
        ("{devices=[4]<=[4]T(0)}", r"no 'T\(..\)'"),
        ("{devices=[4]<=[]}", "one size"),
        ("{devices=[4]<=[2,2]T(1,1)}", "permutation of 0..1"),
        ("{devices=[4]<=[2,2]T(1,2)}", "permutation of 0..1"),
        ("{devices=[4]<=[2,2]T(0)}", "permutation of 0..1"),
        ("{devices=[2]<=[2] devices=[2]<=[2]}", "every word only once"),
        ("{devices=[2]<=[2] last_tile_dims={manual} last_tile_dim_replicate}", "every word only once"),
        ("{replicated shard_as 1 shard_like 1}", "every word only once"),
        ("{replicated shard_as}", "whole number"),
        ("{devices=[2]<=[2] last_tile_dims={unknown}}", "expected 'replicated', 'manual', 'unreduced' or 'maximal'"),
        ("{devices=[2]<=[2] last_tile_dims={manual, manual}}", "2 subgroups do not fit 1"),
        ("{replicated metadata=3}", r"expected '\{'"),
        ("{replicated metadata={op_name}}", "expected '='"),
        ("{replicated metadata={op_name=}}", "expected the value"),
        ("{replicated metadata={op_name={}", "found 'end of text'"),
        ("{replicated /* metadata", "expected a word"),
        ("{mesh['a'=2]}", "expected ','"),
        ("{mesh['a'=2], }", r"expected '\['"),
        ("{mesh[a=2], replicated}", "quoted name"),
        ("{mesh['a'=2], [{'b'}]}", 'no axis "b"'),
        ("{mesh['a'=2], [{?, 'a'}]}", "must be the last entry"),
        ("{mesh['a'=2], [{'a'}p1]}", "no priorities"),
        ("{mesh['a'=2], [{'a'}, {'a'}]}", "used twice"),
        ("{mesh['a'=12], [{'a':(1)4}, {'a':(6)2}]}", "cannot both be factors"),
        ("{mesh['a'=8], [{'a':(1)8}]}", "not a proper part"),
        ("{mesh['a'=8], [{'a':(2)1}]}", "not a proper part"),
        ("{mesh['a'=8], [{'a':(3)2}]}", "does not divide"),
        ("{mesh['a'=8], [{'a':(1)2, 'a':(2)2}]}", "must be written as it"),
        ("{mesh['a'=2,'b'=2], [{}], unreduced={'b','a'}}", "mesh order"),
        ("{mesh['a'=2,'b'=2], [{}], manual={'b','a'}}", "mesh order"),
        ("{mesh['a'=2], [{}], manual={'a'}, manual={}}", "each once"),
        ("{mesh['a'=2], [{}], shard_as 1}", "each once"),
        ("{mesh['a'=2], [{}] shard_as 1}", r"expected '\}'"),
        ("{mesh['a'=2], unknown}", r"expected '\['"),
        ("{mesh['a'=2,'a'=2], replicated}", "occurs twice"),
        ("{mesh['a'=0], replicated}", "size 0"),
        ("{mesh['a'=2], device_ids=(0,0), replicated}", "listed twice"),
        ("{mesh['a'=2], device_ids=(0), replicated}", "does not fit 1 device ids"),
        ("{mesh['a'=2], device_ids=([2,2]T(1,0)), replicated}", "does not fit 4 device ids"),
        ("{mesh['a'=2], device_ids=([2,1]), replicated}", "expected 'T'"),
        ("{mesh[], manual}", "cannot be manual"),
        ("{mesh[], device_ids=(5), replicated}", "out of range"),
        ("{maximal_mesh[device_id=5], replicated}", "expected 'metadata'"),
    ],
)
def test_text_that_is_no_sharding_is_refused(text: str, message: str) -> None:
    with pytest.raises((ParseError, AnnotationError), match=message):
        parse_hlo_sharding(text)


@given(st.data())
def test_any_text_reads_or_is_refused(data: st.DataObject) -> None:
    text = list(data.draw(st.sampled_from(CANONICAL)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([*"{},[02'\"T²", ""]))
    with contextlib.suppress(Error):
        sharding = parse_hlo_sharding("".join(text))
        assert fields(parse_hlo_sharding(print_hlo_sharding(sharding))) == fields(sharding)


def test_constants_have_their_words() -> None:
    for role in (*ROLES, Role.UNKNOWN):
        assert print_hlo_sharding(HloSharding(Whole(role))) == f"{{{role.value}}}"


@given(st.lists(st.integers(0, 20), unique=True))
def test_open_dims_are_read_as_printed(dims: list[int]) -> None:
    assert parse_open_dims(print_open_dims(dims)) == tuple(dims)
    assert parse_open_dims(f"{{{print_open_dims(dims)}, other=[1]}}") == tuple(dims)

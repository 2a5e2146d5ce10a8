"""Optimised HLO read back, and the time it takes on a torus."""

from __future__ import annotations

from pathlib import Path

import pytest

from gspmd.compiled.hlo_work import work_in
from gspmd.compiled.optimized_hlo import OptimizedModule, bytes_of_type
from gspmd.compiled.step_time import group_links, step_time
from gspmd.dialect.errors import InputError
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.hlo_groups import first_group, pairs
from gspmd.transforms.machine.target_file import read_target

# As libtpu prints it, shortened: a loop of three turns with a gather, a product fused with a reduce-scatter, a permute.
HLO = (Path(__file__).parent / "Inputs" / "step.hlo").read_text()


def test_loops_run_as_often_as_their_condition_says() -> None:
    module = OptimizedModule(HLO)
    assert module.trips("main", module.computations["main"]["while"]) == 3
    runs = {v.instruction.name: v.times for v in module.visits()}
    assert (runs["gather"], runs["dot"], runs["scattered"]) == (3, 3, 1)


def test_a_loop_that_does_not_count_is_told() -> None:
    text = HLO.replace("direction=LT", "direction=NE")
    module = OptimizedModule(text)
    assert module.trips("main", module.computations["main"]["while"]) is None
    assert {v.instruction.name: v.known for v in module.visits()}["gather"] is False


def test_counts_that_xla_knows_are_taken() -> None:
    text = HLO.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"5"}}')
    module = OptimizedModule(text)
    assert module.trips("main", module.computations["main"]["while"]) == 5


@pytest.mark.parametrize(
    ("type_", "count"),
    [
        ("f32[16,128]{1,0:T(8,128)}", 8192),
        ("bf16[3]", 6),
        ("pred[]", 1),
        ("(s32[2], u8[5], token[])", 13),
        ("f8e4m3fn[10]", 10),
        ("s4[6]", 3),
        ("c64[2]", 16),
    ],
)
def test_bytes_of_types(type_: str, count: int) -> None:
    assert bytes_of_type(type_) == count


@pytest.mark.parametrize(
    ("attributes", "group"),
    [
        ("replica_groups={{0,2},{1,3}}", (0, 2)),
        ("replica_groups=[2,4]<=[8]", (0, 1, 2, 3)),
        ("replica_groups=[2,4]<=[4,2]T(1,0)", (0, 2, 4, 6)),
        ("replica_groups=[4,2]<=[2,2,2]T(1,0,2)", (0, 1)),
        ("replica_groups={}", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("channel_id=1", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("replica_groups=mesh['a'=4,'b'=2] {'b'}, dimensions={1}", (0, 1)),
        ("replica_groups=mesh['a'=4,'b'=2] {'a'}", (0, 2, 4, 6)),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=4] {'c','a'}", (0, 4, 1, 5, 2, 6, 3, 7)),
        ("replica_groups=mesh['a'=8] {'a':(1)2}", (0, 4)),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", (0, 2)),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}, dimensions={0}", (0, 2, 4, 6)),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=(3,1,0,2,7,5,4,6) {'a'}", (3, 7)),
        ("replica_groups=mesh['i'=4,'j'=1,'k'=2], device_ids=([2,2,2]T(2,1,0)) {'i':(2)2,'k'}", (0, 4, 2, 6)),
    ],
)
def test_first_groups(attributes: str, group: tuple[int, ...]) -> None:
    assert first_group(attributes, 8) == group


def test_groups_in_an_unknown_form_are_refused() -> None:
    with pytest.raises(InputError, match="cannot read the groups of a collective: 'torus"):
        first_group("replica_groups=torus<2,4>, dimensions={0}", 8)


def test_pairs_of_permutes() -> None:
    assert pairs("source_target_pairs={{0,1},{1,2},{3,0}}") == ((0, 1), (1, 2), (3, 0))


def test_a_step_is_cycles_and_collectives() -> None:
    target = read_target("tpu:v5e:2x4")
    mesh = Mesh((("x", 4), ("y", 2)))
    placement = target.place(mesh)
    found = step_time(HLO, target, target.placed(placement), placement.coordinates)
    assert found.compute_s - found.estimated_s == pytest.approx(3 * 1500 / 1.5e9)
    assert [(c.kind, c.devices, c.sent_bytes, c.runs, c.is_async) for c in found.collectives] == [
        ("reduce_scatter", 2, 4096, 1, False),
        ("collective_permute", 2, 2048, 1, True),
        ("all_gather", 4, 3 * 2048, 3, False),
    ]
    assert found.collectives[2].source == "model.py:7"
    assert found.upper_bound_s == found.compute_s + found.communication_s
    assert found.lower_bound_s == max(found.compute_s, found.communication_s)
    assert found.lower_bound_s <= found.scheduled_s <= found.upper_bound_s
    low, scheduled, high = found.utilisation(1e6, 1e12)
    assert low == pytest.approx(1e-6 / found.upper_bound_s)
    assert low <= scheduled <= high


def test_the_timeline_has_what_the_step_has_by_axes() -> None:
    target = read_target("tpu:v5e:2x4")
    mesh = Mesh((("x", 4), ("y", 2)))
    placement = target.place(mesh)
    found = step_time(HLO, target, target.placed(placement), placement.coordinates, mesh)
    assert [c.axes for c in found.collectives] == ['"y"', '"y"', '"x"']
    assert found.timeline.source == "compiler"
    assert found.timeline.total_s == found.scheduled_s
    assert found.timeline.compute_s == pytest.approx(found.compute_s)
    assert found.timeline.communication_s == pytest.approx(found.communication_s)
    assert {*found.timeline.lanes} == {"compute", '"x"', '"y"'}
    assert any(event.turns == 2 for event in found.timeline.events)


def test_what_is_started_early_is_hidden_behind_what_follows() -> None:
    """The permute begins before a long product and is waited for after it."""
    text = HLO.replace(
        "  %permute-done",
        '  %long = bf16[16,64]{1,0} fusion(%result), calls=%other, backend_config={"estimated_cycles":"1500000"}\n'
        "  %permute-done",
    )
    target = read_target("tpu:v5e:2x4")
    placement = target.place(Mesh((("x", 4), ("y", 2))))
    hardware = target.placed(placement)
    found = step_time(text, target, hardware, placement.coordinates)
    permute = next(c for c in found.collectives if c.kind == "collective_permute")
    assert permute.time_s > 0
    assert found.scheduled_s == pytest.approx(found.upper_bound_s - permute.time_s)


def test_a_collective_that_is_printed_in_several_fusions_runs_once() -> None:
    """It begins in one, proceeds beside the product in the next, and is awaited in the last."""
    text = (Path(__file__).parent / "Inputs" / "async_fusions.hlo").read_text()
    target = read_target("tpu:v5e:2x4")
    placement = target.place(Mesh((("x", 4), ("y", 2))))
    found = step_time(text, target, target.placed(placement), placement.coordinates)
    assert [(c.kind, c.devices, c.sent_bytes, c.runs, c.is_async) for c in found.collectives] == [
        ("all_gather", 4, 3 * 2048, 1, True)
    ]
    assert found.compute_s == pytest.approx(1500000 / 1.5e9)
    assert found.estimated_s == 0
    assert found.scheduled_s == found.lower_bound_s
    work = work_in(OptimizedModule(text), Mesh((("x", 4), ("y", 2))))
    assert [c.sent_bytes for c in work.collectives] == [3 * 2048]
    assert work.flops == {"bf16": 2 * 32 * 64 * 4 * 16}, "the window takes in one element and padding"


def test_groups_lie_on_the_dimensions_in_which_they_differ() -> None:
    target = read_target("tpu:v5p:4x4x8")
    row = group_links([(0, 1, z, 0) for z in range(8)], target)
    assert [(link.size, link.length, link.stride, link.ring) for link in row] == [(8, 8, 1, True)]
    strided = group_links([(x, 1, z, 0) for x in (0, 2) for z in (0, 4)], target)
    assert [(link.line, link.size, link.stride) for link in strided] == [(0, 2, 2), (2, 2, 4)]


def test_the_busiest_link_decides_a_permute() -> None:
    """A shift by two along a line loads its links twice."""
    target = read_target("tpu:v5e:1x8")
    coordinates = [(0, i, 0) for i in range(8)]

    def seconds(shift: int) -> float:
        moves = ",".join(f"{{{i},{i + shift}}}" for i in range(8 - shift))
        text = HLO.replace("{{0,1},{1,0}}", f"{{{moves}}}")
        found = step_time(text, target, target.placed(target.place(Mesh((("x", 8),)))), lambda i: coordinates[i])
        permute = next(c for c in found.collectives if c.kind == "collective_permute")
        return permute.time_s - shift * target.network.latency_s

    assert seconds(2) == pytest.approx(2 * seconds(1))


# ---- several slices ----

# As libtpu prints it, shortened: what goes to the other slice is sent while a product runs that takes 3 us.
SLICES = """HloModule step, num_partitions=16

ENTRY %main (param: f32[1024,128]) -> f32[1024,128] {
  %param = f32[1024,128]{1,0} parameter(0)
  %after-all = token[] after-all()
  %send = (f32[1024,128]{1,0}, u32[], token[]) send(%param, %after-all), is_host_transfer=true
  %recv = (f32[RECEIVED]{1,0}, u32[], token[]) recv(%after-all), is_host_transfer=true, frontend_attributes={ATTRIBUTES}
  %dot = f32[1024,128]{1,0} fusion(%param), backend_config={"estimated_cycles":"4500"}
  %send-done = token[] send-done(%send), is_host_transfer=true
  %recv-done = (f32[RECEIVED]{1,0}, token[]) recv-done(%recv), is_host_transfer=true
  ROOT %result = f32[1024,128]{1,0} bitcast(%dot)
}
"""


@pytest.mark.parametrize(
    ("kind", "name", "received", "target", "sent"),
    [
        ("all_reduce", "ALL_REDUCE", "1024,128", '"{1,2}x{0:7}"', 2**19),
        ("all_gather", "ALL_GATHER", "2048,128", '"{1,2}x{0:7}"', 2**19),
        ("reduce_scatter", "REDUCE_SCATTER", "512,128", '"{1,2}x{0:7}"', 2**18),
        ("all_to_all", "ALL_TO_ALL", "1024,128", "{{100000,200000},{100001,200001}}", 2**18),
        ("collective_permute", "ONE_TO_ONE", "1024,128", "{{100000->200000},{200000->100000}}", 2**19),
    ],
)
def test_what_goes_from_slice_to_slice_is_priced_by_the_network_between(
    kind: str, name: str, received: str, target: str, sent: int
) -> None:
    attributes = f'_xla_megascale_target={target},_xla_megascale_transfer_type="{name}"'
    machine = read_target("tpu:v5e:2x4*2@S2.Y4.X2")
    placement = machine.place(Mesh((("x", 16),)))
    text = SLICES.replace("RECEIVED", received).replace("ATTRIBUTES", attributes)
    found = step_time(text, machine, machine.placed(placement), placement.coordinates)
    (collective,) = found.collectives
    assert (collective.kind, collective.devices, collective.sent_bytes) == (kind, 2, sent)
    assert collective.time_s == pytest.approx(1e-5 + sent / 3.125e9)
    assert found.scheduled_s == pytest.approx(collective.time_s)  # the product is hidden behind it


def test_a_permute_within_slices_and_across_takes_what_is_slower() -> None:
    target = read_target("tpu:v5e:2x4*2@S2.Y4.X2")
    placement = target.place(Mesh((("x", 16),)))
    text = """HloModule step, num_partitions=16

ENTRY %main (param: f32[1024,128]) -> f32[1024,128] {
  %param = f32[1024,128]{1,0} parameter(0)
  ROOT %moved = f32[1024,128]{1,0} collective-permute(%param), source_target_pairs={{0,1},PAIRS}
}
"""
    inside, across = (
        step_time(text.replace("PAIRS", pair), target, target.placed(placement), placement.coordinates).communication_s
        for pair in ("{1,0}", "{1,8}")
    )
    assert inside == pytest.approx(1e-6 + 2**19 / 45e9)
    assert across == pytest.approx(1e-5 + 2**19 / 3.125e9)

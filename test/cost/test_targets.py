"""Seconds of collectives on known networks, and descriptions in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import Error, InputError, ParseError, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.machine.cost import Hardware, collective_time, sent_bytes
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.machine.targets import TARGETS, Network, Target

KINDS = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")
MB = 1e6


def torus(dims: int, wrap: int = 4, **options: object) -> Target:
    """Links of 1 MB/s one way, without latency."""
    fields: dict[str, object] = {"flops": {"bf16": 1.0}, "memory_bytes": 0.0, "memory_bytes_per_s": 1.0, **options}
    return Target("test", network=Network(MB, 0.0, dims, wrap), **fields)  # type: ignore[arg-type]


def seconds(target: Target, mesh: Mesh, kind: str, local_bytes: float, *axes: str | Axis) -> float:
    chosen = tuple(mesh.axis(axis) if isinstance(axis, str) else axis for axis in axes)
    devices = 1
    for axis in chosen:
        devices *= axis.size
    return collective_time(kind, local_bytes, devices, target.hardware(mesh), chosen)


# ---- the default ----


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_target_every_axis_is_one_link(kind: str) -> None:
    mesh = Mesh((("x", 4), ("y", 2)))
    expected = 1e-6 + sent_bytes(kind, 1000, 8) / 1e11
    assert collective_time(kind, 1000, 8, Hardware()) == expected
    assert collective_time(kind, 1000, 8, read_hardware("", mesh), mesh.all_axes()) == expected
    assert read_hardware("neutral", mesh) == Hardware()


# ---- rings and lines ----


def test_a_ring_sends_both_ways() -> None:
    mesh = Mesh((("x", 8),))
    assert seconds(torus(1), mesh, "all_gather", MB, "x") == pytest.approx(7 / 2)
    assert seconds(torus(1), mesh, "all_reduce", MB, "x") == pytest.approx(2 * 7 / 8 / 2)
    assert seconds(torus(1), mesh, "reduce_scatter", MB, "x") == pytest.approx(7 / 8 / 2)


def test_a_line_sends_one_way() -> None:
    mesh = Mesh((("x", 6),))
    assert seconds(torus(1), mesh, "all_gather", MB, "x") == pytest.approx(5)


def test_an_all_to_all_is_limited_by_the_middle_of_the_ring() -> None:
    # 8 devices send 1/8 MB to each other device; shortest ways are 1+2+3+4+3+2+1 = 16 hops, over two links.
    assert seconds(torus(1), Mesh((("x", 8),)), "all_to_all", MB, "x") == pytest.approx(16 / 8 / 2)
    # Of a line of 6, 3 devices send 1/6 MB to 3 others over the middle link.
    assert seconds(torus(1), Mesh((("x", 6),)), "all_to_all", MB, "x") == pytest.approx(9 / 6)


def test_a_permute_takes_one_link() -> None:
    assert seconds(torus(1), Mesh((("x", 8),)), "collective_permute", MB, "x") == pytest.approx(1)


def test_axes_of_their_own_add_up_and_axes_of_one_line_share_it() -> None:
    mesh = Mesh((("x", 4), ("y", 8)))
    gathered = 31 * MB
    assert seconds(torus(2), mesh, "all_gather", MB, "x", "y") == pytest.approx(gathered / (4 * MB))
    assert seconds(torus(1), mesh, "all_gather", MB, "x", "y") == pytest.approx(gathered / (2 * MB))
    # Alone, the inner axis is a line of 8; the outer one is a ring whose links 8 groups share.
    assert seconds(torus(1), mesh, "all_gather", MB, "y") == pytest.approx(7)
    assert seconds(torus(1), mesh, "all_gather", MB, "x") == pytest.approx(3 / (2 / 8))


def test_parts_of_an_axis_lie_where_the_axis_lies() -> None:
    mesh = Mesh((("x", 8),))
    assert seconds(torus(1), mesh, "all_gather", MB, mesh.axis("x", 4, 2)) == pytest.approx(1)
    assert seconds(torus(1), mesh, "all_gather", MB, mesh.axis("x", 1, 4)) == pytest.approx(3 / (2 / 2))


def test_axes_of_one_device_take_no_line() -> None:
    mesh = Mesh((("x", 4), ("one", 1), ("y", 4)))
    links = torus(2).hardware(mesh).axes
    assert links["x"][0].line != links["y"][0].line
    assert links["x"][0].ring
    assert links["y"][0].ring


# ---- domains ----


def test_what_exceeds_a_domain_goes_outside() -> None:
    nodes = Target("gpu", {"bf16": 1.0}, 0.0, 1.0, Network(10 * MB, 0.0), 8, Network(MB, 0.0))
    mesh = Mesh((("nodes", 4), ("gpus", 8)))
    assert seconds(nodes, mesh, "all_gather", MB, "gpus") == pytest.approx(7 / 10)
    assert seconds(nodes, mesh, "all_gather", MB, "nodes") == pytest.approx(3)
    # All eight devices of a node send together.
    assert seconds(nodes, mesh, "all_gather", MB, "nodes", "gpus") == pytest.approx(31 / 8)
    assert seconds(nodes, mesh, "all_to_all", MB, "nodes", "gpus") == pytest.approx(3 / 4)
    assert seconds(nodes, mesh, "collective_permute", MB, "nodes") == pytest.approx(1)
    # An axis may be inside in part.
    assert seconds(nodes, Mesh((("x", 32),)), "all_gather", MB, "x") == pytest.approx(31 / 8)


def test_latency_is_counted_by_the_hop() -> None:
    target = Target("test", {"bf16": 1.0}, 0.0, 1.0, Network(1e30, 1.0, 1, 4))
    assert seconds(target, Mesh((("x", 8),)), "all_gather", 1, "x") == pytest.approx(4)
    assert seconds(target, Mesh((("x", 6),)), "all_gather", 1, "x") == pytest.approx(5)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("axes", [(("x", 4), ("y", 2)), (("a", 2), ("b", 2), ("c", 2), ("d", 16)), (("x", 3),), ()])
def test_every_target_prices_every_mesh(name: str, axes: tuple[tuple[str, int], ...]) -> None:
    mesh = Mesh(axes)
    hardware = read_hardware(name, mesh)
    assert hardware.name == name
    assert hardware.memory_bytes > 1e9
    assert hardware.flops_of("bf16") >= hardware.flops_of("f32") >= hardware.flops_of("f64") > 0
    for kind in KINDS:
        for axis in mesh.all_axes():
            one, two = (collective_time(kind, n * MB, axis.size, hardware, (axis,)) for n in (1, 2))
            assert 0 < one < two < 2


def test_published_figures() -> None:
    """Bisection bandwidths of whole pods follow from their links: Cloud TPU's documentation gives both."""
    # A cut through a torus of 16x16 chips has 2 * 16 links.
    for name, links, published in (
        ("tpu-v3", 2 * 32 * 2, 6.4e12),  # twice as many devices as chips, each with half of a link
        ("tpu-v4", 2 * 16 * 16, 24e12),
        ("tpu-v5e", 2 * 16, 1.6e12),
        ("tpu-v6e", 2 * 16, 3.2e12),
    ):
        assert links * TARGETS[name].network.bytes_per_s == pytest.approx(published, rel=0.15)


# ---- files ----

WHOLE = """
[flops]
bf16 = 1e14
f32 = 2e13
[memory]
bytes = 16e9
bytes_per_s = 8e11
[network]
topology = "torus"
dims = 2
wrap = 4
bytes_per_s = 5e10
latency_s = 2e-6
devices = 16
[outside]
bytes_per_s = 1e9
[axes.y]
bytes_per_s = 7e10
"""


def hardware_of(text: str, folder: Path, mesh: Mesh | None = None) -> Hardware:
    path = folder / "target.toml"
    path.write_text(text)
    return read_hardware(str(path), mesh or Mesh((("x", 4), ("y", 2))))


def test_a_file_describes_all_of_it(tmp_path: Path) -> None:
    hardware = hardware_of(WHOLE, tmp_path)
    assert (hardware.memory_bytes, hardware.memory_bytes_per_s) == (16e9, 8e11)
    assert (hardware.flops_of("bf16"), hardware.flops_of("i8")) == (1e14, 2e13)
    assert (hardware.axes["x"][0].bytes_per_s, hardware.axes["x"][0].ring) == (5e10, True)
    assert (hardware.axes["y"][0].bytes_per_s, hardware.axes["y"][0].latency_s) == (7e10, 2e-6)


def test_a_file_changes_a_known_target(tmp_path: Path) -> None:
    hardware = hardware_of('like = "tpu-v5p"\nmemory.bytes = 1e9\n', tmp_path)
    known = read_hardware("tpu-v5p", Mesh((("x", 4), ("y", 2))))
    assert hardware.memory_bytes == 1e9
    assert hardware.axes == known.axes
    assert hardware.flops_of("bf16") == known.flops_of("bf16")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flops.bf16 = ", "target.toml:1:1: error: not TOML: invalid value"),
        ("", "target.toml:1:1: error: 'flops' is missing; give operations a second by element type"),
        ("[flops]\nbf16 = 1e14\n", ":1:1: error: 'network.bytes_per_s' is missing"),
        (
            WHOLE.replace("f32 = 2e13", 'f32 = "fast"'),
            "target.toml:4:1: error: 'flops.f32' is 'fast'; expected a number",
        ),
        (WHOLE.replace("8e11", "-1"), "target.toml:7:1: error: 'memory.bytes_per_s' is -1; expected a number above 0"),
        (WHOLE.replace("8e11", "nan"), "'memory.bytes_per_s' is nan; expected a number"),
        (WHOLE.replace("dims = 2", "dims = 1.5"), ":10:1: error: 'network.dims' is 1.5; expected a whole number"),
        (WHOLE.replace('"torus"', '"star"'), "'network.topology' is 'star'; expected 'torus' or 'switch'"),
        (WHOLE.replace("wrap = 4", "warp = 4"), ":11:1: error: 'network.warp' is not known; known are bytes_per_s"),
        ('like = "tpu-v0"\n', ":1:1: error: 'like' is 'tpu-v0'; known are tpu-v3"),
        ("flops = 3\n", "'flops' is 3; expected a table"),
        (WHOLE.replace("[axes.y]", "[axes.z]"), 'has links for axis "z", the mesh has "x", "y"'),
    ],
)
def test_a_bad_file_is_refused_where_it_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        hardware_of(text, tmp_path)
    assert isinstance(caught.value, ParseError | UsageError)
    assert message in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"cannot read 'none.toml': no such file or directory; .*tpu-v5p"):
        read_hardware("none.toml", Mesh((("x", 4),)))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParseError, match="is not TOML"):
        read_hardware(str(path), Mesh((("x", 4),)))


def test_an_unknown_target_lists_those_that_are_known() -> None:
    with pytest.raises(UsageError) as caught:
        read_hardware("tpu-v5x", Mesh((("x", 4),)))
    assert all(name in str(caught.value) for name in TARGETS)

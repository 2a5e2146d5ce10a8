"""`gspmd.visualize` and `gspmd show` draw any sharding in 80 columns, in colors only where there is a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh as JaxMesh
from jax.sharding import NamedSharding, PartitionSpec

import gspmd
from gspmd.dialect.errors import AnnotationError, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.pictures.terminal import picture_text


def sharding(dims: str, rest: str = "", **axes: int) -> TensorSharding:
    return parse_sharding(f"<@mesh, {dims}{rest}>", {"mesh": Mesh(tuple(axes.items()))})


def jax_mesh() -> JaxMesh:
    return JaxMesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))


def test_an_array_of_jax_is_drawn_as_it_lies(capsys: pytest.CaptureFixture[str]) -> None:
    array = jax.device_put(jnp.zeros((8, 4)), NamedSharding(jax_mesh(), PartitionSpec("x", "y")))
    gspmd.visualize(array)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == '8x4 [{"x"}, {"y"}]'
    assert printed[3] == "  0:2 │  0   │  1   │"
    assert printed[-2] == "  6:8 │  6   │  7   │"


def test_an_array_on_one_device_is_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    gspmd.visualize(jnp.zeros((8, 4)))
    assert "0" in capsys.readouterr().out.splitlines()[2]


def test_an_array_of_uneven_shards_is_drawn_with_what_each_has(capsys: pytest.CaptureFixture[str]) -> None:
    split = PartitionSpec("x")
    made = gspmd.jit(lambda x: x + 1, mesh={"x": 4, "y": 2}, out_shardings=split)(np.zeros((9, 2)))
    assert isinstance(made, gspmd.ShardedArray)
    gspmd.visualize(made)
    printed = capsys.readouterr().out
    assert "6:9 │" in printed
    assert "padding │" in printed


def test_a_sharding_needs_a_shape_of_its_rank(capsys: pytest.CaptureFixture[str]) -> None:
    value = gspmd.partition(
        'sdy.mesh @mesh = <["x"=4]>\nfunc.func public @main(%a: tensor<6xf32> '
        '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {\n  return %a : tensor<6xf32>\n}\n'
    ).in_shardings[0]
    gspmd.visualize(value, (6,))
    assert capsys.readouterr().out.splitlines()[1].split() == ["0:2", "2:4", "4:6", "padding"]
    gspmd.visualize(NamedSharding(jax_mesh(), PartitionSpec("x")), [8])
    with pytest.raises(UsageError, match="a sharding without a shape"):
        gspmd.visualize(value)
    with pytest.raises(AnnotationError, match="does not fit a tensor of rank 2"):
        gspmd.visualize(value, (6, 6))
    for wrong in ("6x6", (6.5,), 6, (-1,)):
        with pytest.raises(UsageError, match="expected a list of sizes"):
            gspmd.visualize(value, wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot draw a traced value"):
        jax.jit(gspmd.visualize)(jnp.zeros(8))
    with pytest.raises(UsageError, match="cannot draw 'x'"):
        gspmd.visualize("x", (6,))


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((100_000, 2048), sharding('[{"x"}, {"y"}]', x=32, y=64)),
        ((7,), sharding('[{"x"}]', x=4096)),
        ((0, 5), sharding('[{"x"}, {"y"}]', x=2, y=2)),
        ((), sharding("[]", x=2048)),
        ((8, 8, 8, 8), sharding('[{"x"}, {"y"}, {"z"}, {"w"}]', x=8, y=8, z=8, w=8)),
        ((8, 8), sharding('[{}, {"x"}]', ', unreduced={"y"}', x=2, y=3)),
    ],
)
def test_pictures_fit_80_columns(shape: tuple[int, ...], given: TensorSharding) -> None:
    lines = picture_text(shape, given).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 150


def test_more_than_two_dimensions_are_layers() -> None:
    text = picture_text((4, 8, 8), sharding('[{"x"}, {"y"}, {"z"}]', x=2, y=2, z=2))
    assert "dimension 0: 0:2" in text
    assert "dimension 0: 2:4" in text


def test_summands_are_layers() -> None:
    text = picture_text((8,), sharding('[{"x"}]', ', unreduced={"y"}', x=2, y=2))
    assert text.splitlines()[0] == "  summand 0"


def on_a_terminal(words: list[str], **environment: str) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    command = [sys.executable, "-P", "-m", "gspmd.tools.cli", *words]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm", **environment})
    os.close(theirs)
    read = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        read += part
    assert child.wait() == 0, read
    os.close(ours)
    return read.decode()


def test_colors_are_for_terminals_and_can_be_declined() -> None:
    program = str(Path(__file__).parent / "show.mlir")
    assert "\x1b[30;44m" in on_a_terminal(["show", program, "--value", "%a"])
    assert "\x1b[30;44m" not in on_a_terminal(["show", program, "--value", "%a"], NO_COLOR="1")
    assert "\x1b[30;44m" not in on_a_terminal(["show", program, "--value", "%a", "--color=never"])

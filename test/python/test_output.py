"""What is written: regular files as a whole, everything else as what it is; and what is refused before the work."""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from pathlib import Path

import pytest

from gspmd.dialect.errors import InputError, UsageError
from gspmd.output import Output, beside, outputs, write
from gspmd.tools import cli

NULL, FULL = os.makedev(1, 3), os.makedev(1, 7)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def device(name: str, number: int) -> None:
    try:
        os.mknod(name, 0o666 | stat.S_IFCHR, number)
        os.close(os.open(name, os.O_WRONLY))
    except OSError:
        pytest.skip("this user cannot make devices")


def test_a_file_appears_whole_with_usual_permissions(folder: Path) -> None:
    write("new", b"1")
    Path("old").write_bytes(b"longer than what comes")
    Path("old").chmod(0o640)
    write("old", b"1")
    mask = os.umask(0)
    os.umask(mask)
    assert [stat.S_IMODE(os.stat(name).st_mode) for name in ("new", "old")] == [0o666 & ~mask, 0o640]
    assert Path("new").read_bytes() == Path("old").read_bytes() == b"1"
    assert sorted(path.name for path in folder.iterdir()) == ["new", "old"]


@pytest.mark.usefixtures("folder")
def test_through_links() -> None:
    Path("there").write_bytes(b"old")
    Path("link").symlink_to("there")
    Path("dangling").symlink_to("made")
    write("link", b"1")
    write("dangling", b"2")
    assert Path("link").is_symlink()
    assert Path("dangling").is_symlink()
    assert (Path("there").read_bytes(), Path("made").read_bytes()) == (b"1", b"2")


@pytest.mark.usefixtures("folder")
def test_devices_stay_devices() -> None:
    device("null", NULL)
    Path("link").symlink_to("null")
    write("null", b"1")
    write("link", b"1")
    assert os.stat("null").st_rdev == NULL
    device("full", FULL)
    with pytest.raises(InputError, match="cannot write 'full': no space left on device"):
        write("full", b"1")
    assert os.stat("full").st_rdev == FULL


@pytest.mark.usefixtures("folder")
def test_a_fifo_is_written_to() -> None:
    os.mkfifo("fifo")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("fifo").read_bytes()))
    reader.start()
    output = Output("fifo")
    output.write(b"1" * 100_000)
    reader.join()
    assert read == [b"1" * 100_000]
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)


@pytest.mark.usefixtures("folder")
def test_a_reader_may_have_read_enough() -> None:
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    output = Output("fifo")
    os.close(reader)
    output.write(b"1" * 100_000)


@pytest.mark.usefixtures("folder")
def test_a_fifo_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gspmd.output._READER_PATIENCE_S", 0.1)
    os.mkfifo("fifo")
    with pytest.raises(InputError, match="cannot write 'fifo': no process has opened it for reading"):
        Output("fifo")


REFUSED = {
    "": "the name of a file to write is empty",
    "folder": "is a directory",
    "folder/": "is a directory",
    "none/file": "no such file or directory",
    "new/": "no such file or directory",
    "file/below": "not a directory",
    "read-only": "is read-only",
    "link": "is read-only",
    "loop": "too many levels of symbolic links",
    "socket": "is a block device or a socket",
    "a\0b": "embedded null byte",
    "a" * 300: "file name too long",
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", REFUSED, ids=repr)
def test_what_is_refused_before_the_work(name: str) -> None:
    Path("folder").mkdir()
    Path("file").write_bytes(b"old")
    Path("read-only").write_bytes(b"old")
    Path("read-only").chmod(0o444)
    Path("link").symlink_to("read-only")
    Path("loop").symlink_to("loop")
    before = {path.name: path.lstat().st_mode for path in Path().iterdir()}
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(InputError, match=REFUSED[name]):
            Output(name, stdout=True)
    assert {path.name: path.lstat().st_mode for path in Path().iterdir() if path.name != "socket"} == before
    assert Path("read-only").read_bytes() == b"old"


@pytest.mark.usefixtures("folder")
def test_one_place_is_not_written_twice() -> None:
    Path("link").symlink_to("file")
    assert [output and output.path for output in outputs("file", None, "other")] == ["file", None, "other"]
    for twice in (("file", "link"), ("-", "-")):
        with pytest.raises(UsageError, match="is an output twice"):
            outputs(*twice)


def test_what_is_said_beside_stdout_goes_to_stderr(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (output,) = outputs("-")
    assert output
    with beside(output):
        print("said")
        output.write(b"written")
    assert capfdbinary.readouterr() == (b"written", b"said\n")


def test_stdout_that_was_closed_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    Output("-", stdout=True).write(b"1")


PROGRAM = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
COMMANDS = {
    "partition": ["partition", "p.mlir", "-o"],
    "run": ["run", "p.mlir", "-o"],
    "compile": ["compile", "p.mlir", "--target", "cpu", "-o"],
    "compile --hlo": ["compile", "p.mlir", "--target", "cpu", "--hlo"],
    "cost": ["cost", "p.mlir", "--write-budget"],
    "suggest": ["suggest", "p.mlir", "--tries", "2", "-o"],
    "search": ["search", "p.mlir", "--time-limit", "0.1", "-o"],
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_writes_so(command: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("p.mlir").write_text(PROGRAM)
    Path("read-only").write_bytes(b"old")
    Path("read-only").chmod(0o444)
    for refused in ("", "read-only", "none/file", "."):
        assert cli.main([*COMMANDS[command], refused]) == 1
        said = capfdbinary.readouterr()
        assert said.out == b""
        assert said.err.count(b"error:") == 1
    assert Path("read-only").read_bytes() == b"old"
    assert cli.main([*COMMANDS[command], "file"]) == 0
    capfdbinary.readouterr()
    assert cli.main([*COMMANDS[command], "-"]) == 0
    written = capfdbinary.readouterr().out
    if command not in ("run", "compile"):  # whose files tell when they were written, or are not the same every time
        assert written == Path("file").read_bytes()
    assert len(written) > 100
    assert sorted(path.name for path in Path().iterdir()) == ["file", "p.mlir", "read-only"]
    device("null", NULL)
    assert cli.main([*COMMANDS[command], "null"]) == 0
    assert os.stat("null").st_rdev == NULL

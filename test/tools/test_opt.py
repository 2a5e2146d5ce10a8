"""gspmd-opt as a process: what it imports, what it leaves on disk, how it fails."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from generate import page_of

PROGRAM = "func.func @main() {\n  return\n}\n"
BROKEN = "func.func @main() {\n  retur\n}\n"


def opt(*args: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[bytes]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    command = [sys.executable, "-P", "-m", "gspmd.tools.opt", *args]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def run_python(code: str, *args: str, stdin: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *args]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def test_never_imports_jax() -> None:
    code = "import sys; from gspmd.tools.opt import main; main(['--cse']); print('jax' in sys.modules)"
    finished = run_python(code)
    assert finished.stdout.splitlines()[-1] == "False", finished.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import gspmd; dir(gspmd)",
        "from gspmd.tools.cli import main; main(['--help'])",
        "from gspmd.tools.cli import main; main(['partition', '--nonsense'])",
        "from gspmd.tools.opt import main; main(['--list-passes'])",
    ],
)
def test_what_compiles_nothing_loads_no_compiler(code: str) -> None:
    finished = run_python(f"{code}; import sys; print({{'jax', 'jaxlib', 'numpy', 'rich'}} & set(sys.modules))")
    assert finished.stdout.splitlines()[-1] == "set()", finished.stderr


def test_help_loads_no_compiler() -> None:
    code = "try:\n  main(['--help'])\nfinally:\n  print('jaxlib' in sys.modules)"
    assert run_python(f"import sys\nfrom gspmd.tools.opt import main\n{code}").stdout.splitlines()[-1] == "False"


def test_the_table_of_passes_is_up_to_date() -> None:
    page, text = page_of("pass_table")
    assert page.read_text(encoding="utf-8") == text, "run python docs/generate.py pass_table"


def test_output_is_written_as_a_whole_with_usual_permissions(tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    assert opt("-o", str(out), stdin=PROGRAM).returncode == 0
    assert "func.func @main" in out.read_text()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask
    assert [p.name for p in tmp_path.iterdir()] == ["out.mlir"]


def test_a_link_as_output_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.mlir").symlink_to("out.mlir")
    assert opt("-o", str(tmp_path / "link.mlir"), stdin=PROGRAM).returncode == 0
    assert (tmp_path / "link.mlir").is_symlink()
    assert "@main" in (tmp_path / "out.mlir").read_text()


@pytest.mark.parametrize("args", [[], ["--no-such-pass"], ["--split-input-file"], ["--verify-diagnostics"]])
def test_output_is_untouched_after_an_error(tmp_path: Path, args: list[str]) -> None:
    out = tmp_path / "out.mlir"
    out.write_text("before")
    assert opt(*args, "-o", str(out), stdin=BROKEN).returncode in (1, 2)
    assert out.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.mlir"]


def test_input_may_be_the_output(tmp_path: Path) -> None:
    path = tmp_path / "both.mlir"
    path.write_text(PROGRAM)
    assert opt("--mlir-print-op-generic", str(path), "-o", str(path)).returncode == 0
    assert '"func.func"' in path.read_text()


def test_syntax_error_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "broken.mlir"
    path.write_text(BROKEN)
    finished = opt(str(path))
    assert finished.returncode == 1
    assert finished.stdout == b""
    (line,) = finished.stderr.decode().splitlines()
    assert line.startswith(f"{path}:2:3: error: custom op 'retur' is unknown")
    assert opt(stdin=BROKEN).stderr.decode().startswith("<stdin>:2:3: error: ")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00abc", b"ML\xefRgarbage", b"ML\xefR"])
def test_bytes_that_are_no_module_are_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bytes.mlir"
    path.write_bytes(data)
    for finished in (opt(str(path)), opt(stdin=data)):
        assert finished.returncode == 1
        assert len(finished.stderr.splitlines()) == 1
        assert b"error: " in finished.stderr
        assert b"Traceback" not in finished.stderr


def test_bytecode_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "module.mlirbc"
    assert opt("--emit-bytecode", "-o", str(path), stdin=PROGRAM).returncode == 0
    assert path.read_bytes().startswith(b"ML\xefR")
    assert b"func.func @main" in opt(str(path)).stdout


def test_usage_errors_exit_with_2() -> None:
    assert opt("--no-such-pass", stdin=PROGRAM).returncode == 2
    assert opt("--verify-each=perhaps", stdin=PROGRAM).returncode == 2
    assert opt("--pass-pipeline=(", stdin=PROGRAM).returncode == 2


def test_a_reader_that_leaves_is_no_error_message() -> None:
    body = "".join(f"  %{i} = stablehlo.constant dense<0> : tensor<i32>\n" for i in range(20_000))
    big = f"func.func @main() {{\n{body}  return\n}}\n"
    command = f"'{sys.executable}' -P -m gspmd.tools.opt | head -c 10"
    finished = subprocess.run(["sh", "-c", command], input=big.encode(), capture_output=True, check=False)
    assert finished.stdout == b"module {\n "
    assert finished.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-P", "-m", "gspmd.tools.opt"]
        finished = subprocess.run(command, input=PROGRAM.encode(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert finished.returncode == 1
    assert finished.stderr == b"gspmd-opt: error: cannot write to stdout: no space left on device\n"


_BUG = """
import sys
from gspmd.transforms.optimize import Optimize
from gspmd.tools.opt import main
def run(self, module):
    {body}
Optimize.run = run
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{}['x']", "gspmd-opt: internal error: KeyError: 'x' in pass 'gspmd-optimize'; run again with --debug"),
        (
            "del module.regions[0].first.attributes['sym_name']",
            "<stdin>:1:1: internal error: the module is invalid after pass 'gspmd-optimize': 'func.func' op requires",
        ),
    ],
)
def test_a_defect_of_a_pass_is_told_without_a_traceback(body: str, expected: str) -> None:
    finished = run_python(_BUG.replace("{body}", body), "--gspmd-optimize")
    assert finished.returncode == 70
    assert finished.stdout == ""
    assert finished.stderr.startswith(expected)
    assert "Traceback" not in finished.stderr
    assert "Traceback" in run_python(_BUG.replace("{body}", body), "--gspmd-optimize", "--debug").stderr


def test_remarks_of_passes_are_printed_and_can_be_expected() -> None:
    code = _BUG.replace(
        "{body}",
        "from gspmd.transforms.parsing.diagnostics import remark\n    remark(module.regions[0].first, 'is replicated')",
    )
    finished = run_python(code, "--gspmd-optimize")
    assert finished.returncode == 0
    assert finished.stderr == "<stdin>:1:1: remark: 'func.func' op is replicated\n"
    expected = "// expected-remark @below {{is replicated}}\n" + PROGRAM
    finished = run_python(code, "--gspmd-optimize", "--verify-diagnostics", stdin=expected)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (BROKEN, "<stdin>:2:3: error: unexpected error: custom op 'retur' is unknown"),
        ("// expected-error {{x}}\n" + PROGRAM, '<stdin>:1:4: error: expected error "x" was not produced'),
        (
            "// expected-warning @+2 {{is unknown}}\n" + BROKEN,
            "<stdin>:3:3: error: unexpected error: custom op 'retur'",
        ),
        ("// expected-error @+1 {{is unknown}}\n" + BROKEN, "<stdin>:3:3: error: unexpected error: custom op 'retur'"),
    ],
)
def test_verify_diagnostics_fails_on_what_differs(source: str, message: str) -> None:
    finished = opt("--verify-diagnostics", stdin=source)
    assert finished.returncode == 1
    assert finished.stderr.decode().startswith(message)


def test_help_names_every_pass_with_its_options() -> None:
    text = opt("--help").stdout.decode()
    for name in ("gspmd-ingest", "gspmd-propagate", "gspmd-reshard", "gspmd-localize", "gspmd-optimize", "cse"):
        assert f"--{name}" in text
    assert "replicate-unsupported=<bool>" in text
    assert opt("--list-passes").stdout.decode() in text
    assert max(map(len, text.splitlines())) <= 80

"""lit: runs the RUN lines of the .mlir files below this folder, with the Python that runs lit."""

# ruff: noqa: F821 - lit defines `config` and `lit_config`

import os
import shlex
import sys
from pathlib import Path

import lit.formats

_root = Path(__file__).resolve().parent.parent

config.name = "gspmd"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(_root / "test")
config.test_exec_root = lit_config.params.get("exec_root", str(_root / "build" / "test"))

for _variable in ("PYTHONPATH", "PYTHONHASHSEED", "COVERAGE_PROCESS_START"):
    if _variable in os.environ:
        config.environment[_variable] = os.environ[_variable]
config.environment["GSPMD_DIAGNOSTICS"] = "short"
config.environment["JAX_PLATFORMS"] = "cpu"
config.environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

_python = shlex.quote(sys.executable)
_tools = {
    "gspmd-opt": f"{_python} -P -m gspmd.tools.opt",
    "gspmd": f"{_python} -P -m gspmd.tools.cli",
    "FileCheck": f"{_python} -P -m filecheck",
}
for _name, _command in _tools.items():
    # The tool's name as a word of its own, not as part of a path or of a pass's name.
    config.substitutions.append((rf"(?<![\w./=-]){_name}(?![\w./-])", _command))
config.substitutions.append(("%python", _python))

"""JAX's own tests with `gspmd.jit` in the place of `jax.jit`: which pass with one and fail with the other.

Run as `python test/jax_suite.py CHECKOUT [--files pjit_test ..] [-k EXPRESSION] [--jobs N] [--json FILE]`, where
CHECKOUT is one of https://github.com/jax-ml/jax at the version that is installed. Each file is run twice, in processes
that may crash or hang: once as it is, which `--keep FOLDER` keeps for the next time, once with `jax.jit` and `pjit`
replaced (`jax_tests/in_place_of_jit.py`). Tests that fail only with gspmd are printed by what they fail with.
`jax_tests/left_out.json` names those that ask for what `gspmd.jit` does not promise, each group with its reason; the
exit code is 1 if less than 97 % of the others pass. JAX's tests need `absl-py`, some of them
`cloudpickle`, and those for several processes `portpicker`.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from support.simple_code import SIMPLE_CODE

HERE = Path(__file__).resolve().parent / "jax_tests"
PROCESSES = "multiprocess/"
FILES = (
    *("pjit_test", "shard_map_test", "array_test", "api_test", "lax_control_flow_test", "custom_partitioning_test"),
    *("custom_partitioning_sharding_rule_test", "layout_test", "memories_test", "shard_alike_test"),
    *("python_callback_test", "debugging_primitives_test", "export_test", "mutable_array_test", "aot_test"),
    *("ragged_collective_test", "pallas/pallas_test"),
    *(f"{PROCESSES}{name}_test" for name in ("pjit", "array", "all_reduce", "all_gather", "all_to_all")),
    *(f"{PROCESSES}{name}_test" for name in ("axis_index", "device_id", "multihost_utils")),
)
GOAL = 0.97
_SHOWN = 4  # tests that are named for each message
_TIMEOUT_S = 3600
_TEST_TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a test ended: `passed`, `failed` or `skipped`, and the last line of what it failed with."""

    ended: str
    message: str = ""


@dataclasses.dataclass(frozen=True)
class Compared:
    """A file's tests by name, with `jax.jit` and with `gspmd.jit`, and those that are left out with their reason."""

    file: str
    plain: dict[str, Outcome]
    replaced: dict[str, Outcome]
    left_out: dict[str, str]

    @property
    def counted(self) -> list[str]:
        """What passes with `jax.jit` and is not left out."""
        return [name for name, end in self.plain.items() if end.ended == "passed" and name not in self.left_out]

    @property
    def only_with_gspmd(self) -> dict[str, Outcome]:
        """What of that does not pass with `gspmd.jit`."""
        missing = Outcome("failed", "the test was not run")
        found = {name: self.replaced.get(name, missing) for name in self.counted}
        return {name: end for name, end in found.items() if end.ended != "passed"}


def main() -> int:
    arguments = _parse()
    wrong = False
    results = {}
    print(f"{'file':<42}{'jax.jit':>9}{'left out':>10}{'gspmd.jit':>11}{'of':>7}{'share':>8}", flush=True)
    for file in arguments.files:
        compared = _compare(arguments, file)
        results[file] = compared
        count, failing = len(compared.counted), compared.only_with_gspmd
        share = 1 - len(failing) / count if count else 1.0
        wrong |= share < GOAL
        plain = sum(end.ended == "passed" for end in compared.plain.values())
        out = sum(name in compared.left_out for name, end in compared.plain.items() if end.ended == "passed")
        print(f"{file:<42}{plain:>9}{out:>10}{count - len(failing):>11}{count:>7}{share:>8.1%}", flush=True)
        _print_families(failing)
    if arguments.json:
        arguments.json.write_text(json.dumps({name: dataclasses.asdict(each) for name, each in results.items()}))
    return 1 if wrong else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("-k", dest="expression", default="", help="which tests, as pytest takes it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write how every test ended")
    parser.add_argument(
        "--keep", type=Path, help="a folder that keeps how tests end with jax.jit, which does not change"
    )
    arguments = parser.parse_args()
    if not (arguments.checkout / "tests").is_dir():
        parser.error(f"{arguments.checkout} is no checkout of JAX")
    return arguments


def _compare(arguments: argparse.Namespace, file: str) -> Compared:
    plain = _with_jax(arguments, file)
    replaced = _run(arguments, file, replaced=True)
    if arguments.expression:
        plain = {name: end for name, end in plain.items() if name in replaced}
    return Compared(file, plain, replaced, _left_out(file, plain))


def _with_jax(arguments: argparse.Namespace, file: str) -> dict[str, Outcome]:
    """How tests end with `jax.jit`: those of a whole file are kept."""
    if arguments.keep is None:
        return _run(arguments, file, replaced=False)
    place = arguments.keep / version("jax") / f"{file}.json"
    if place.exists():
        return {name: Outcome(**end) for name, end in json.loads(place.read_text()).items()}
    found = _run(arguments, file, replaced=False)
    if found and not arguments.expression:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({name: dataclasses.asdict(end) for name, end in found.items()}))
    return found


def _left_out(file: str, names: dict[str, Outcome]) -> dict[str, str]:
    """The reasons of tests that are left out; patterns are matched with `Class::test`."""
    groups = json.loads((HERE / "left_out.json").read_text())
    found = {}
    for group in groups:
        for pattern in group["tests"].get(file, []):
            found.update({name: group["reason"] for name in names if fnmatch.fnmatchcase(name, pattern)})
    return found


def _environment(arguments: argparse.Namespace, replaced: bool) -> dict[str, str]:
    folders = [str(HERE), str(HERE / "in_every_process"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "GSPMD_JAX_CHECKOUT": str(arguments.checkout.resolve()),
        "GSPMD_IN_PLACE_OF_JIT": "1" if replaced else "",
        "PYTHONPATH": os.pathsep.join(folders),
        "JAX_NUM_GENERATED_CASES": "5",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", SIMPLE_CODE),
    }


def _run_in_processes(arguments: argparse.Namespace, file: str, replaced: bool) -> dict[str, Outcome]:
    """Run a file's tests in two processes of four devices each; what fails in one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        more = {"TEST_UNDECLARED_OUTPUTS_DIR": folder, "JAX_NUM_CPU_DEVICES": "4"}
        path = (arguments.checkout / "tests" / f"{file}.py").resolve()
        try:
            done = subprocess.run(
                [sys.executable, str(path), "--num_processes=2"],
                cwd=folder,
                env=_environment(arguments, replaced) | more,
                timeout=_TIMEOUT_S,
                capture_output=True,
                text=True,
                check=False,
            )
            told = done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            told = "".join(text.decode() for text in (error.stdout, error.stderr) if text)
    outcomes: dict[str, Outcome] = {}
    words = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    for word, test, method in re.findall(r"^\[ *(OK|FAILED|SKIPPED) *\] (\w+)\.(\w+)", told, re.MULTILINE):
        name = f"{test}::{method}"
        if name not in outcomes or word == "FAILED":
            outcomes[name] = Outcome(words[word], "failed in a process" if word == "FAILED" else "")
    if not outcomes:
        print(f"// {file}: nothing was run: {told[-800:]}", flush=True)
    return outcomes


def _run(arguments: argparse.Namespace, file: str, replaced: bool) -> dict[str, Outcome]:
    """Run a file's tests in workers that are replaced when they crash."""
    if file.startswith(PROCESSES):
        return _run_in_processes(arguments, file, replaced)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "outcomes"
        environment = _environment(arguments, replaced) | {"GSPMD_OUTCOMES": str(log)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "in_place_of_jit", "-p", "no:cacheprovider"]
        command += ["-n", str(arguments.jobs), "--max-worker-restart", "1000", "--tb=short", "-W", "ignore"]
        command += ["-o", f"faulthandler_timeout={_TEST_TIMEOUT_S}", "-o", "faulthandler_exit_on_timeout=true"]
        command += ["-k", arguments.expression] if arguments.expression else []
        command += [str((arguments.checkout / "tests" / f"{file}.py").resolve())]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, timeout=_TIMEOUT_S, capture_output=True, text=True, check=False
            )
            told = done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            told = f"{file} took more than {_TIMEOUT_S} s"
        outcomes: dict[str, Outcome] = {}
        for line in log.read_text().splitlines() if log.exists() else ():
            entry = json.loads(line)
            outcomes[entry["test"]] = Outcome(entry["ended"], entry["message"])
        if not outcomes:
            print(f"// {file}: nothing was run: {told[-800:]}", flush=True)
        return outcomes


def _print_families(failing: dict[str, Outcome]) -> None:
    """Failures by message, the most first; numbers, names and addresses in messages do not tell families apart."""
    families: dict[str, list[str]] = defaultdict(list)
    for name, end in failing.items():
        families[re.sub(r"0x[0-9a-f]+|\d+", "N", end.message)[:160]].append(name)
    for message, names in sorted(families.items(), key=lambda item: -len(item[1])):
        print(f"// {len(names):>4} x {message}")
        print(f"//        {', '.join(names[:_SHOWN])}{' ..' if len(names) > _SHOWN else ''}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

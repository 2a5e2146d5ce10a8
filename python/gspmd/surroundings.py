"""What of an environment gspmd can use, and what each part is for: versions, extras, devices, compilers, solvers."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

_TESTED = ((0, 10), (0, 12))  # the least and the largest minor version of jax and jaxlib
_EXTRAS = (
    ("tpu", "libtpu", "gspmd compile for TPUs that are not here"),
    ("checkpoint", "orbax-checkpoint", "checkpoints of sharded states"),
    ("plot", "matplotlib", "gspmd demo --plot"),
    ("docs", "mkdocs", "the documentation as a site"),
    ("test", "pytest", "the tests"),
    ("test-ecosystem", "flax", "tests with libraries that stand on JAX"),
    ("release", "build", "building and checking packages"),
)
"""The extras of pyproject.toml, with a distribution that each brings."""
_SETTINGS = (
    ("JAX_PLATFORMS", "the devices that JAX may use"),
    ("JAX_NUM_CPU_DEVICES", "how many CPU devices JAX has"),
    ("XLA_FLAGS", "flags of XLA"),
    ("JAX_COMPILATION_CACHE_DIR", "where JAX keeps compiled programs, with what gspmd partitioned"),
    ("GSPMD_DIAGNOSTICS", "the form of errors"),
    ("NO_COLOR", "no colors"),
    ("COLUMNS", "the width of text"),
)
_PROBES = {
    "cpu": "import jax; print(len(jax.devices('cpu')), jax.devices('cpu')[0].device_kind)",
    "gpu": "import jax; print(len(jax.devices('gpu')), jax.devices('gpu')[0].device_kind)",
    "tpu": "import jax; print(len(jax.devices('tpu')), jax.devices('tpu')[0].device_kind)",
    "TPU compiler": "from gspmd.compiled.machines import quieten; quieten(); from jax.experimental import topologies; "
    "print(len(topologies.get_topology_desc(platform='tpu', topology_name='v5e:2x2').devices))",
    "self-test": "from gspmd.surroundings import self_test; print(self_test())",
}
_TIME_S = 120.0  # after which a probe has failed


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that gspmd uses, present or missing: what was `found`, what it is for, and advice if any is needed.

    `is_fault` says that gspmd cannot work properly because of it.
    """

    group: str
    name: str
    is_there: bool
    found: str
    purpose: str
    advice: str = ""
    is_fault: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return dataclasses.asdict(self)


def findings() -> Iterator[Finding]:
    """Everything, group by group, each as soon as it is known. Devices and compilers are tried in other processes."""
    yield from _versions()
    for extra, distribution, purpose in _EXTRAS:
        version = _version(distribution)
        advice = "" if version else f"pip install 'gspmd[{extra}]'"
        yield Finding("extras", extra, bool(version), f"{distribution} {version}" if version else "", purpose, advice)
    yield from _devices()
    yield from _compilers()
    yield Finding("solvers", "decisions", True, "built in", "gspmd-decide, gspmd search and gspmd suggest")
    for name, purpose in _SETTINGS:
        if os.environ.get(name):
            yield Finding("settings", name, True, os.environ[name], purpose)
    failure = _probe("self-test")
    agrees = failure == "agrees"
    yield Finding(
        "self-test",
        "a small program",
        agrees,
        "agrees with one device" if agrees else failure,
        "partitioned, run on two CPU devices and compared",
        "" if agrees else "please report this, with all that is above",
        is_fault=not agrees,
    )


def self_test() -> str:
    """Partition a small program, run it on two virtual CPU devices, and compare it; `agrees`, or what is wrong."""
    from gspmd.virtual_devices import request_devices

    request_devices("cpu", 2)
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    from gspmd.checks.checking import check

    mesh = jax.make_mesh((2,), ("x",))
    shardings = NamedSharding(mesh, PartitionSpec(None, "x")), NamedSharding(mesh, PartitionSpec("x", None))
    types = jax.ShapeDtypeStruct((8, 6), "float32"), jax.ShapeDtypeStruct((6, 4), "float32")
    report = check(jax.jit(jax.numpy.matmul, in_shardings=shardings).lower(*types))
    return "agrees" if report.passed else str(report).splitlines()[-1]


def _versions() -> Iterator[Finding]:
    version = _version("gspmd")
    place = Path(__file__).parent
    yield Finding("versions", "gspmd", True, f"{version or 'a source tree, not installed'} in {place}", "")
    yield Finding("versions", "python", True, f"{platform.python_version()} in {sys.executable}", "3.11 or newer")
    yield Finding("versions", "system", True, f"{platform.system()} {platform.machine()}", "")
    least, largest = (".".join(map(str, bound)) for bound in _TESTED)
    for name, purpose in (("jax", "tracing and running"), ("jaxlib", "MLIR, StableHLO, XLA and PJRT")):
        found = _version(name)
        is_tested = _TESTED[0] <= _minor(found) <= _TESTED[1]
        advice = "" if is_tested else f"versions {least} to {largest} are tested"
        yield Finding("versions", name, bool(found), found, purpose, advice, is_fault=not found)
    for name in ("numpy", "rich"):
        yield Finding("versions", name, bool(_version(name)), _version(name), "")


def _devices() -> Iterator[Finding]:
    for name, purpose in (
        ("cpu", "gspmd run, check and demo, with as many virtual devices as a mesh has"),
        ("gpu", "gspmd run --platform gpu, and gspmd.jit"),
        ("tpu", "gspmd run --platform tpu, and gspmd.jit"),
    ):
        is_possible = name != "tpu" or bool(_version("libtpu"))
        found = _probe(name) if is_possible else "no libtpu"
        is_there = found[:1].isdigit()
        is_fault = name == "cpu" and not is_there
        yield Finding("devices", name, is_there, found if is_there or is_fault else "", purpose, is_fault=is_fault)


def _compilers() -> Iterator[Finding]:
    yield Finding("compilers", "cpu", True, f"XLA in jaxlib {_version('jaxlib')}", "devices that are here")
    libtpu = _version("libtpu")
    found = _probe("TPU compiler") if libtpu else ""
    is_there = found.isdigit()
    advice = "" if is_there else "pip install 'gspmd[tpu]'" if not libtpu else f"libtpu {libtpu} fails: {found}"
    yield Finding(
        "compilers", "tpu", is_there, f"libtpu {libtpu}" if is_there else "", "TPUs that are not here", advice
    )
    for name in ("XLA GSPMD", "Shardy"):
        yield Finding("compilers", name, True, "in jaxlib", "gspmd compare")


def _version(distribution: str) -> str:
    """The version that is installed, empty if none is."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _probe(name: str) -> str:
    """What a probe prints in a process of its own, which may crash or hang; else what it failed with, in one line."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if name in ("gpu", "tpu"):
        variables.pop("JAX_PLATFORMS", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:] = {json.dumps(sys.path)}; {_PROBES[name]}"],
            env=variables,
            capture_output=True,
            text=True,
            timeout=_TIME_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"TimeoutError: no answer in {_TIME_S:.0f} s"
    printed = done.stdout.strip().splitlines() if done.returncode == 0 else done.stderr.strip().splitlines()
    return printed[-1] if printed else f"Failure: exit code {done.returncode}"

"""Ask for devices before jax is imported, which reads the environment only once."""

from __future__ import annotations

import os
import re

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import MAX_VIRTUAL_DEVICES

_COUNT_FLAG = re.compile(r"--xla_force_host_platform_device_count=([0-9]{1,9})")
_COUNT = "JAX_NUM_CPU_DEVICES"


def request_devices(platform: str, count: int) -> None:
    """Let jax, once imported, use `platform`, with at least `count` CPU devices if that is the platform.

    A larger number of CPU devices in JAX_NUM_CPU_DEVICES or XLA_FLAGS is kept. The number goes into the former, because
    XLA may already have read its flags, to convert an HLO program. Raises UsageError for an invalid number, or for more
    devices than a process can have.
    """
    if not platform:
        raise UsageError("the name of the platform is empty", hint="give cpu, gpu or tpu")
    os.environ["JAX_PLATFORMS"] = platform
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    if platform != "cpu":
        return
    asked = [int(n) for n in _COUNT_FLAG.findall(os.environ.get("XLA_FLAGS", ""))]
    given = os.environ.get(_COUNT, "")
    if given and not re.fullmatch(r"[0-9]{1,9}", given):
        raise UsageError(f"{_COUNT} is '{given}', expected a number of devices", hint=f"set it as {_COUNT}=8")
    asked += [int(given)] if given else []
    check_virtual_devices(max([count, *asked]))
    os.environ[_COUNT] = str(max([count, *asked]))


def check_virtual_devices(count: int) -> None:
    """Raise UsageError for more CPU devices than a process can have."""
    if count > MAX_VIRTUAL_DEVICES:
        raise UsageError(
            f"{count} virtual devices, expected at most {MAX_VIRTUAL_DEVICES}",
            hint="use a smaller mesh",
            code=Code.LIMIT,
        )

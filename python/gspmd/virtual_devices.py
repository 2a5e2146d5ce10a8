"""Ask for devices before jax is imported, which reads the environment only once."""

from __future__ import annotations

import os
import re

_COUNT_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_COUNT = "JAX_NUM_CPU_DEVICES"


def request_devices(platform: str, count: int) -> None:
    """Let jax, once imported, have `platform`; of CPU devices at least `count`, of the others what is there.

    A larger number of CPU devices that the user asked for, in JAX_NUM_CPU_DEVICES or XLA_FLAGS, stays. The number
    goes into the former: XLA may have read its flags by now, to convert an HLO program.
    """
    os.environ["JAX_PLATFORMS"] = platform
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    if platform != "cpu":
        return
    asked = [int(n) for n in _COUNT_FLAG.findall(os.environ.get("XLA_FLAGS", ""))]
    if os.environ.get(_COUNT, "").isdigit():
        asked.append(int(os.environ[_COUNT]))
    os.environ[_COUNT] = str(max([count, *asked]))

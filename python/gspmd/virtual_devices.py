"""Ask for devices before jax is imported, which reads the environment only once."""

from __future__ import annotations

import os
import re

_COUNT_FLAG = "--xla_force_host_platform_device_count"


def request_devices(platform: str, count: int) -> None:
    """Let jax, once imported, have `platform`; of CPU devices at least `count`, of the others what is there.

    A larger number of CPU devices that the user asked for in XLA_FLAGS stays.
    """
    os.environ["JAX_PLATFORMS"] = platform
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    if platform != "cpu":
        return
    flags = os.environ.get("XLA_FLAGS", "")
    match = re.search(rf"{_COUNT_FLAG}=(\d+)", flags)
    if match is None:
        os.environ["XLA_FLAGS"] = f"{flags} {_COUNT_FLAG}={count}".strip()
    elif int(match[1]) < count:
        os.environ["XLA_FLAGS"] = flags.replace(match.group(), f"{_COUNT_FLAG}={count}")

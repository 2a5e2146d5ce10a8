"""Flags of XLA for tests: what they compile runs so briefly that optimized machine code does not pay."""

from __future__ import annotations

import os

SIMPLE_CODE = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
)
"""Without the passes of LLVM and without emitters of optimized fusions; XLA's own passes run all the same."""


def users_environment(**variables: str) -> dict[str, str]:
    """The environment of a process as users start it, without the variables of JAX and XLA but for `SIMPLE_CODE`."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    return {**rest, "XLA_FLAGS": SIMPLE_CODE, **variables}

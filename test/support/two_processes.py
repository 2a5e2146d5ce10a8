"""Runs a script in two processes of four devices each, joined by jax.distributed over the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from support.simple_code import users_environment


def run_twice(script: Path, *args: str, timeout_s: float = 60) -> list[subprocess.CompletedProcess[str]]:
    """`script ADDRESS PROCESS args...`, how each of the two ended; what still runs after `timeout_s` is killed.

    Strings have other hashes in the second process: nothing may depend on them.
    """
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        address = f"localhost:{probe.getsockname()[1]}"
    processes = []
    for number in range(2):
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
        environment = users_environment(
            JAX_NUM_CPU_DEVICES="4", JAX_PLATFORMS="cpu", PYTHONHASHSEED=str(number + 1), PYTHONPATH=path
        )
        command = [sys.executable, str(script), address, str(number), *args]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
    try:
        outputs = [process.communicate(timeout=timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]

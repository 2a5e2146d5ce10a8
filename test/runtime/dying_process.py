"""Run twice by a test: the second process dies, or stops, in the middle of training; the first one waits for it."""

from __future__ import annotations

import os
import signal
import sys
import time

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

import gspmd

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), heartbeat_timeout_seconds=30)
step = gspmd.jit(lambda w, x: w + (x @ x.T).sum(), mesh=(4, 2), in_shardings=(P("x"), P("x", "y")))
w, x = np.zeros(8, np.float32), np.ones((8, 8), np.float32)
started = time.monotonic()
try:
    for i in range(1000):
        if i == 5:
            started = time.monotonic()
            if jax.process_index() == 1:
                os.kill(os.getpid(), getattr(signal, sys.argv[3]))
        w = gspmd.wait(step(w, x), timeout_s=3.0)
except gspmd.ExecutionError as error:
    print(f"step {i} after {time.monotonic() - started:.1f} s: {error}", flush=True)
    os._exit(3)  # jax.distributed would wait for the other process

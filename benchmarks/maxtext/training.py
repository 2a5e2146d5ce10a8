"""One configuration of MaxText run on eight CPU devices, with every jitted function of the trainer watched."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configurations import Run
from figures import figures
from watching import Record, Watch, check_made_by

DEVICES = 8
_TRAINERS = {
    "train": "maxtext.trainers.pre_train.train",
    "sft": "maxtext.trainers.post_train.sft.train_sft_native",
}
# Where all steps are jitted. The trainer jits the fold of a key, too, which has no mesh, and is left to JAX.
_JITTED_IN = ("maxtext.utils.train_utils",)


def prepare() -> None:
    """Before anything imports jax."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ |= {"DECOUPLE_GCLOUD": "TRUE", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}


def measure(run: Run, how: str) -> dict[str, Any]:
    """Losses, and what the jitted step sends, holds, computes and takes. All that MaxText prints goes to stderr."""
    prepare()
    started, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        program = _decoded if run.program == "decode" else _trained
        step, library_s = program(run, how, [base(), *run.arguments, f"base_output_directory={folder}"])
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
        executable = step.executable()
        check_made_by(how, executable)
        return {
            "values": step.results,
            "run_s": wall_s - library_s,
            "run_cpu_s": cpu_s,
            "first_call_s": step.first_call_s,
            "call_s": step.call_s,
            "lower_s": step.lower_s,
            "partition_s": step.partition_s,
            "compile_s": step.compile_s,
            **figures(executable),
        }


def base() -> str:
    """MaxText's file of all keys and their usual values."""
    import maxtext

    assert maxtext.__file__ is not None, "the package, and not the folder of this file"
    return str(Path(maxtext.__file__).parent / "configs" / "base.yml")


def _timed_import(names: tuple[str, ...]) -> float:
    """Import modules; returns the seconds that this took."""
    started = time.perf_counter()
    for name in names:
        importlib.import_module(name)
    return time.perf_counter() - started


def _trained(run: Run, how: str, arguments: list[str]) -> tuple[Record, float]:
    trainer = _TRAINERS[run.program]
    library_s = _timed_import((*_JITTED_IN, trainer))
    watch = Watch(how, _loss)
    watch.within(_JITTED_IN)
    main: Callable[[list[str]], None] = importlib.import_module(trainer).main
    main(["", *arguments])
    return next(record for record in watch.records if record.compiled is not None), library_s


def _loss(results: Any) -> float:
    """The loss among the results of a step, which has it alone where copies of the model train apart (DiLoCo)."""
    metrics = results[1]
    return float(metrics["scalar"]["learning/loss"] if isinstance(metrics, dict) else metrics.mean())


def _decoded(run: Run, how: str, arguments: list[str]) -> tuple[Record, float]:
    """A prompt is read, and some tokens after it are generated with the cache; logits are what is compared."""
    library_s = _timed_import(("maxtext.configs.pyconfig", "maxtext.utils.model_creation_utils"))
    library_s += _timed_import(("maxtext.inference.inference_utils", "maxtext.utils.lora_utils"))
    import jax
    import jax.numpy as jnp
    from maxtext.configs import pyconfig

    watch = Watch(how, _logits)
    engine_module = watch.imported("maxtext.inference.maxengine.maxengine")
    _make_tree(engine_module.engine_api.ResultTokens)
    engine = engine_module.MaxEngine(pyconfig.initialize(["", *arguments]))
    key = jax.random.PRNGKey(0)
    params = engine.load_params(rng=key)
    state = engine.init_decode_state(rng=key)
    tokens = jnp.arange(1, 17, dtype=jnp.int32)
    prefix, _ = engine.prefill(params=params, padded_tokens=tokens, true_length=12, rng=key)
    state = engine.insert(prefix, state, slot=0)
    for _ in range(4):
        state, _ = engine.generate(params=params, decode_state=state, rng=key)
    step = next(record for record in watch.records if record.name == "_generate_jit")
    return step, library_s


def _make_tree(result: type) -> None:
    """What JetStream's results of a step are to JAX, and what MaxText has in their place without JetStream is not."""
    import jax

    leaves = ("data", "log_prob")  # whatever is in them, as JAX has other things there while it traces

    def flat(value: Any) -> tuple[list[Any], Any]:
        rest = {name: each for name, each in vars(value).items() if name not in leaves}
        return [getattr(value, name) for name in leaves], tuple(rest.items())

    def whole(rest: Any, children: Any) -> Any:
        value = object.__new__(result)
        vars(value).update(rest)
        vars(value).update(zip(leaves, children, strict=True))
        return value

    jax.tree_util.register_pytree_node(result, flat, whole)


def _logits(results: Any) -> float | None:
    """The mean square of the logits, where there are any."""
    import jax.numpy as jnp

    first = results[0] if isinstance(results, tuple) else results
    return float(jnp.square(first["logits"]).mean()) if isinstance(first, dict) and "logits" in first else None

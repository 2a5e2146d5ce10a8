"""gspmd demo: one training step of a real model, partitioned, run and compared."""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import time
from typing import Any

from gspmd.dialect.errors import UsageError
from gspmd.tools._stages import stage

NAME = "demo"
SUMMARY = "trace a model's training step with JAX, partition it, run it on virtual CPU devices and check it"
EXIT_PASSED, EXIT_WRONG = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="decoder_lm", help="which example (default: decoder_lm)")
    parser.add_argument("--list", action="store_true", help="list the examples and their recipes")
    parser.add_argument("--mesh", default="x=4,y=2", metavar="AXES", help="mesh axes (default: x=4,y=2)")
    parser.add_argument("--recipe", help="how the model is split (default: the example's)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a size, as layers=4")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the partitioned module")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when every result agrees, 1 when one does not."""
    if args.list:
        print("\n".join(_list()))
        return EXIT_PASSED
    axes = _mesh_axes(args.mesh)
    from gspmd.virtual_devices import request_devices

    request_devices("cpu", math.prod(axes.values()))
    times: dict[str, float] = {}
    started = time.perf_counter()
    with stage("starting JAX"):
        example = _example(args.model)
        config = _config(example, args)
    import jax
    import numpy as np
    from jax.sharding import Mesh

    times["start"] = time.perf_counter() - started
    devices = np.array(jax.devices("cpu")[: math.prod(axes.values())]).reshape(tuple(axes.values()))
    started = time.perf_counter()
    with stage("tracing the model"):
        text = example.lower(config, Mesh(devices, tuple(axes))).as_text(debug_info=True)
    times["trace"] = time.perf_counter() - started
    return _partition_and_check(args, example, config, text, times)


def _partition_and_check(
    args: argparse.Namespace, example: Any, config: Any, text: str, times: dict[str, float]
) -> int:
    import jax

    from gspmd import api, report
    from gspmd.checking import check
    from gspmd.tools.command import write_output

    with stage("partitioning"):
        product = api.partition(text, on_stage=times.__setitem__)
    if args.output:
        write_output(args.output, product.module_text.encode())
    batch = example.batch(config)
    inputs = jax.tree.leaves((example.init_state(config), *(batch if isinstance(batch, tuple) else (batch,))))
    outcome = check(text, product, inputs=inputs, devices=jax.devices("cpu"), stage=_Timed(times))
    sizes = ", ".join(f"{name} {value}" for name, value in vars(config).items())
    print(f"{args.model}: one training step ({sizes})\n")
    print("\n".join(report.program_lines(product.signature, product.collectives)) + "\n")
    print("time:")
    print("\n".join(report.table([(name, f"{s:.3f} s") for name, s in times.items()], right=(1,))) + "\n")
    for result in outcome.results:
        if result.reason:
            print(f"{result.name}: error {result.max_rel_error:.2g}; {result.reason}")
    worst = max(outcome.results, key=lambda r: r.max_rel_error)
    verdict = "PASS" if outcome.passed else "FAIL"
    print(
        f"{verdict}: {sum(r.passed for r in outcome.results)} of {len(outcome.results)} results agree with the "
        f"unpartitioned program; largest error {worst.max_rel_error:.2g} relative to the result's largest value"
    )
    return EXIT_PASSED if outcome.passed else EXIT_WRONG


class _Timed:
    """Progress of slow steps, and how long each took."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times = times

    def __call__(self, name: str) -> Any:
        return _TimedStage(self.times, name)


class _TimedStage:
    def __init__(self, times: dict[str, float], name: str) -> None:
        self.times = times
        self.name = name
        self.progress = stage(name)
        self.started = 0.0

    def __enter__(self) -> None:
        self.started = time.perf_counter()
        self.progress.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.progress.__exit__(*error)
        if self.name != "partitioning":
            self.times[self.name] = time.perf_counter() - self.started


def _mesh_axes(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.strip() or not size.strip().isdigit() or int(size) < 1 or name.strip() in axes:
            raise UsageError(f"--mesh is '{text}'", hint="write it as x=4,y=2")
        axes[name.strip()] = int(size)
    return axes


def _names() -> list[str]:
    from gspmd import examples

    return sorted(module.name for module in pkgutil.iter_modules(examples.__path__) if not module.ispkg)


def _example(name: str) -> Any:
    if name not in _names():
        raise UsageError(f"there is no example '{name}'", hint=f"choose one of {', '.join(_names())}")
    return importlib.import_module(f"gspmd.examples.{name}")


def _list() -> list[str]:
    lines = []
    for name in _names():
        example = _example(name)
        lines.append(f"{name}: {(example.__doc__ or '').strip().splitlines()[0]}")
        lines.append(f"    recipes: {', '.join(example.RECIPES)}")
    return lines


def _config(example: Any, args: argparse.Namespace) -> Any:
    """The example's configuration with what `--recipe` and `--set` say."""
    known = {name: type(value) for name, value in vars(example.Config()).items()}
    chosen: dict[str, Any] = {}
    settings = [item.partition("=") for item in args.set]
    if args.recipe is not None:
        settings.append(("recipe", "=", args.recipe))
    for name, _, value in settings:
        if name not in known:
            raise UsageError(f"the example has no setting '{name}'", hint=f"it has {', '.join(known)}")
        chosen[name] = _setting(name, value, known[name])
    if chosen.get("recipe", example.Config().recipe) not in example.RECIPES:
        raise UsageError(f"the example has no recipe '{chosen['recipe']}'", hint=f"it has {', '.join(example.RECIPES)}")
    return example.Config(**chosen)


def _setting(name: str, value: str, type_: type) -> Any:
    if type_ is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if type_ is int and value.isdigit() and int(value) > 0:
        return int(value)
    if type_ is str:
        return value
    raise UsageError(f"'{value}' is not a value for '{name}'", hint=f"give a {type_.__name__}")

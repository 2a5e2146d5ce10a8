"""gspmd demo: train a real model for some steps, partitioned, and compare it with the same model on one device."""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import time
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import count_of
from gspmd.tools._stages import stage
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT

NAME = "demo"
SUMMARY = "partition a model's step, run it on virtual CPU devices and compare it with one device"
_KINDS = {bool: "true or false", int: "a number of at least 1", str: "a word"}
SEARCH = "search"  # not a recipe of any example, but accepted for each
_DEVICES = 8  # the number that the recipes use


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="decoder_lm", help="which example (default: decoder_lm)")
    parser.add_argument("--list", action="store_true", help="list the examples and their recipes")
    parser.add_argument(
        "--all", action="store_true", help="run every example in its default recipe, with one line of output each"
    )
    parser.add_argument(
        "--recipe",
        help="how to shard the model (default: the example's); all: each in turn; search: as gspmd search finds",
    )
    parser.add_argument("--mesh", metavar="AXES", help="sizes of the recipe's mesh axes, such as x=4,y=2")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="how many steps to run (default: 5)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model, such as layers=4"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the curves of both runs (.png, .svg; needs matplotlib)")
    parser.add_argument(
        *("--save-program", "--annotated"),
        dest="program",
        metavar="FILE",
        help="write the annotated program, to be read by the other commands",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the partitioned module")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when every step agrees, 3 when one does not; errors are exceptions."""
    if args.steps < 1:
        raise UsageError(f"--steps is {args.steps}", hint="give a number of at least 1", code=Code.BAD_VALUE)
    axes = _mesh_axes(args.mesh) if args.mesh is not None else None
    from gspmd.virtual_devices import request_devices

    request_devices("cpu", max(_DEVICES, math.prod((axes or {}).values())))
    if args.list:
        from gspmd.tables import fitted

        print("\n".join(fitted(_list())))
        return EXIT_DONE
    if args.all:
        return max(_run_one(args, name, args.recipe, None, brief=True) for name in _names())
    if args.recipe == "all":
        return max(_run_one(args, args.model, recipe, axes, brief=True) for recipe in _example(args.model).RECIPES)
    return _run_one(args, args.model, args.recipe, axes, brief=False)


def _run_one(
    args: argparse.Namespace, name: str, recipe_name: str | None, axes: dict[str, int] | None, brief: bool
) -> int:
    from gspmd.tools._demonstration import Demonstration

    started = time.perf_counter()
    with stage("starting JAX"):
        example = _example(name)
        searches = recipe_name == SEARCH
        config = _config(example, args.set, None if searches else recipe_name)
    recipe = example.RECIPES[config.recipe]
    if axes is not None and list(axes) != list(recipe.mesh) and not searches:
        raise UsageError(
            f"--mesh has axes {', '.join(axes)}, recipe '{config.recipe}' has {', '.join(recipe.mesh)}",
            hint="give each of these a size",
            code=Code.OPTIONS_DISAGREE,
        )
    demonstration = Demonstration(name, example, config, axes or dict(recipe.mesh), searches)
    demonstration.times["start"] = time.perf_counter() - started
    return EXIT_DONE if demonstration.run(args, brief) else EXIT_VERDICT


def _mesh_axes(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        count = count_of(size.strip())
        if not name.strip() or not count or name.strip() in axes:
            raise UsageError(f"--mesh is '{text}'", hint="write it as x=4,y=2", code=Code.BAD_VALUE)
        axes[name.strip()] = count
    return axes


def _names() -> list[str]:
    from gspmd import examples

    return sorted(module.name for module in pkgutil.iter_modules(examples.__path__) if not module.ispkg)


def _example(name: str) -> Any:
    if name not in _names():
        raise UsageError(
            f"there is no example '{name}'", hint=f"choose one of {', '.join(_names())}", code=Code.BAD_VALUE
        )
    return importlib.import_module(f"gspmd.examples.{name}")


def _list() -> list[str]:
    lines = []
    for name in _names():
        example = _example(name)
        lines += ["", f"{name}: {(example.__doc__ or '').strip().splitlines()[0]}"]
        default = example.Config().recipe
        width = max(map(len, example.RECIPES))
        for recipe, meaning in example.RECIPES.items():
            mesh = ", ".join(f"{axis}={size}" for axis, size in meaning.mesh.items())
            chosen = "*" if recipe == default else " "
            lines.append(f"  {chosen} {recipe.ljust(width)}  {meaning.summary} ({mesh})")
    return [*lines[1:], "", "Recipes marked * are the default; choose others with --recipe, or search to find one."]


def _config(example: Any, given: list[str], recipe: str | None) -> Any:
    """The example's configuration, with `--recipe` and `--set` applied."""
    known = {name: type(value) for name, value in vars(example.Config()).items()}
    chosen: dict[str, Any] = {}
    settings = [item.partition("=") for item in given]
    if recipe is not None:
        settings.append(("recipe", "=", recipe))
    for name, _, value in settings:
        if name not in known:
            raise UsageError(
                f"the example has no setting '{name}'", hint=f"it has {', '.join(known)}", code=Code.BAD_VALUE
            )
        chosen[name] = _setting(name, value, known[name])
    if chosen.get("recipe", example.Config().recipe) not in example.RECIPES:
        raise UsageError(
            f"the example has no recipe '{chosen['recipe']}'",
            hint=f"it has {', '.join(example.RECIPES)}",
            code=Code.BAD_VALUE,
        )
    return example.Config(**chosen)


def _setting(name: str, value: str, type_: type) -> Any:
    if type_ is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if type_ is int and (count := count_of(value)):
        return count
    if type_ is str:
        return value
    raise UsageError(f"'{value}' is not a value for '{name}'", hint=f"expected: {_KINDS[type_]}", code=Code.BAD_VALUE)

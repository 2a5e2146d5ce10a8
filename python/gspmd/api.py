"""The functions that most programs need: partition a module, or only derive its shardings."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.reading import read_program
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import Signature, signature_of

if TYPE_CHECKING:  # a program from the cache needs no passes
    from gspmd.collectives import Collective
    from gspmd.pass_manager.manager import After
    from gspmd.transforms.ops.custom_rules import RuleSource
    from gspmd.transforms.passes import Pass


@dataclasses.dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of one argument or result, in both notations; `str` gives Shardy's."""

    value: TensorSharding

    @property
    def sdy(self) -> str:
        """As `sdy` text: `<@mesh, [{"x"}, {}]>`."""
        return print_sharding(self.value)

    @property
    def mhlo(self) -> str:
        """As an `mhlo.sharding` string: `{devices=[4,1]<=[4]}`."""
        from gspmd.dialect.hlo_convert import to_hlo_sharding
        from gspmd.dialect.hlo_notation import print_hlo_sharding

        return print_hlo_sharding(to_hlo_sharding(self.value))

    def __str__(self) -> str:
        return self.sdy


class Partitioned:
    """A per-device program, its signature and its collectives.

    `module` is the StableHLO module every device runs; its collectives name partition ids.
    """

    def __init__(self, module: ir.Module) -> None:
        self.module = module

    @functools.cached_property
    def signature(self) -> Signature:
        """The mesh, and the global shape and sharding of every argument and result."""
        return signature_of(self.module)

    @functools.cached_property
    def module_text(self) -> str:
        return str(self.module)

    @property
    def mesh(self) -> Mesh:
        return self.signature.mesh

    @property
    def num_partitions(self) -> int:
        return self.signature.num_partitions

    @property
    def in_shardings(self) -> tuple[Sharding, ...]:
        """One per argument."""
        return tuple(Sharding(value.sharding) for value in self.signature.inputs)

    @property
    def out_shardings(self) -> tuple[Sharding, ...]:
        """One per result."""
        return tuple(Sharding(value.sharding) for value in self.signature.outputs)

    @functools.cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """Every collective, with its mesh axes, bytes and cause."""
        from gspmd.collectives import collectives_of

        return collectives_of(self.module, self.mesh)

    def __repr__(self) -> str:
        return f"<Partitioned over {self.num_partitions} devices, {len(self.collectives)} collectives>"


def partition(
    program: Any,
    num_partitions: int | None = None,
    *,
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    strict: bool | int = False,
    target: str = "",
    options: Mapping[str, Any] | None = None,
    verify: bool = False,
    on_stage: Callable[[str, float], None] | None = None,
) -> Partitioned:
    """Turn an annotated single-device program into one per-device program.

    `program` is MLIR text, bytecode, HLO text or proto, a path to any of these, a module, or the result of
    `jax.jit(f).lower(..)`. `num_partitions` is needed only if the program has no mesh; otherwise it must equal the size
    of the mesh. With `replicate_unsupported`, every device computes an unsupported operation on gathered operands,
    instead of an error. `custom_rules` are the sharding rules of custom calls by target: text (`"([i, j], [j, k])->([i,
    k]) reduction={j}"`), a function that returns it for an `OpInfo`, or a `CallPartitioner`, which partitions the calls
    itself. `strict` refuses programs with reshards that no annotation requires; a number is the bytes that a device may
    send for each. `target` is the hardware for which collectives are chosen: a name (`tpu-v5p`), a shape
    (`tpu:v5e:16x16*2`) or a .toml file. `options` are options of passes by name, such as `{"combine_bytes": 65536,
    "update_axes": ["data"]}`; `gspmd-opt --list-passes` lists them. `verify` refuses a result that is not proved
    correct (docs/verify.md). `on_stage` is called after each stage with its name and seconds: the passes, `fold` and
    `unfold` around those that see repeated layers once, and `write`; the time of reading belongs to the first.

    Errors: ParseError, AnnotationError, Unsupported (all `gspmd.Error`), with locations in the program; ReshardError,
    with all reshards, for `strict`; NotProved for `verify`; UsageError for options that do not exist.
    """
    from gspmd.pass_manager.manager import run_pipeline

    module = read_program(program)
    given = read_program(module) if verify else None
    passes = passes_of(num_partitions, replicate_unsupported, strict, target, options)
    _run(run_pipeline, passes, module, custom_rules, on_stage)
    if given is not None:
        from gspmd.verification.verifying import check_proved

        check_proved(given, module)
    return Partitioned(module)


def propagate(
    program: Any,
    num_partitions: int | None = None,
    *,
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
) -> ir.Module:
    """Derive the sharding of every value; returns the annotated module, with global shapes."""
    from gspmd.pass_manager.manager import run_passes

    module = read_program(program)
    _run(run_passes, passes_of(num_partitions, replicate_unsupported)[:2], module, custom_rules, None)
    return module


def passes_of(
    num_partitions: int | None,
    replicate_unsupported: bool,
    strict: bool | int = False,
    target: str = "",
    options: Mapping[str, Any] | None = None,
) -> list[Pass]:
    """The passes that `partition` runs for these arguments. Raises UsageError."""
    from gspmd.transforms.pipeline import default_pipeline

    _check_arguments(num_partitions, strict, target, options)
    given: dict[str, Any] = {
        "num_partitions": num_partitions or 0,
        "replicate_unsupported": replicate_unsupported,
        "strict": strict is not False,
        "strict_bytes": int(strict) if strict is not True else 0,
        "target": target,
    }
    for name in options or {}:
        if name.replace("-", "_") in (*given, "custom_rules"):
            raise UsageError(f"option '{name}' is an argument of its own", hint="leave it out of options")
    bound = {"constraints": "bind"} if given["strict"] else {}  # with strict, every constraint asks for its reshard
    return default_pipeline({**given, **bound, **(options or {})})


def attaching(custom_rules: Mapping[str, RuleSource] | None) -> After:
    """A function that attaches custom rules to custom calls after `gspmd-ingest`.

    Raises UsageError unless `custom_rules` is a mapping.
    """
    if custom_rules is not None and not isinstance(custom_rules, Mapping):
        raise UsageError(f"custom_rules is {shown(custom_rules)}, expected rules by target", code=Code.BAD_VALUE)

    from gspmd.partitioned_calls import split_calls
    from gspmd.transforms.ingest import Ingest
    from gspmd.transforms.ir.modules import main_function
    from gspmd.transforms.ops.custom_rules import attach_rules, custom_calls

    def after(stage: str, top: Operation) -> None:
        if stage == Ingest.argument and custom_rules:
            attach_rules(custom_calls(main_function(top)), custom_rules)
            if split_calls(top, custom_rules):
                attach_rules(custom_calls(main_function(top)), custom_rules)

    return after


def _check_arguments(num_partitions: Any, strict: Any, target: Any, options: Any) -> None:
    """Raise UsageError for arguments of a wrong type."""
    names = isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
    for name, value, is_one, expected in (
        ("num_partitions", num_partitions, num_partitions is None or is_count(num_partitions), "a number, or None"),
        ("strict", strict, isinstance(strict, bool) or is_count(strict), "True, False or a number of bytes"),
        ("target", target, isinstance(target, str), "a name, or the path of a .toml file"),
        ("options", options, options is None or names, "a dictionary from names to values"),
    ):
        if not is_one:
            raise UsageError(f"{name} is {shown(value)}, expected {expected}", code=Code.BAD_VALUE)


def _run(
    run: Callable[[Sequence[Pass], ir.Module, After], None],
    passes: list[Pass],
    module: ir.Module,
    custom_rules: Mapping[str, RuleSource] | None,
    on_stage: Callable[[str, float], None] | None,
) -> None:
    started = time.perf_counter()
    attach = attaching(custom_rules)

    def tell(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        if on_stage is not None:
            on_stage(stage, now - started)
        started = now

    def after(stage: str, top: Operation) -> None:
        attach(stage, top)
        tell(stage)

    run(passes, module, after)
    tell("write")

"""The one place that orders the passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gspmd.transforms.ingest import Ingest
from gspmd.transforms.localize import Localize
from gspmd.transforms.optimize import Optimize
from gspmd.transforms.propagate import Propagate
from gspmd.transforms.reshard import Reshard
from gspmd.transforms.support.passes import Option, Pass, options_of, select_options, unknown_option

PASSES: tuple[type[Pass], ...] = (Ingest, Propagate, Reshard, Localize, Optimize)
"""Every pass of ours, in the order of the default pipeline."""

PIPELINE = "gspmd-partition"
"""The name that stands for the default pipeline wherever a pass can be named."""


def default_pipeline(options: Mapping[str, Any] | None = None) -> list[Pass]:
    """From what a framework emits to the program of one device.

    `options` are fields of the passes (`max_rounds`) with their values; each goes to every pass that declares it.
    Raises UsageError for an option that no pass declares.
    """
    options = options or {}
    known = {option.field for option in pipeline_options()}
    for name in options:
        if name not in known:
            raise unknown_option(PIPELINE, name, known)
    return [declaration(**select_options(declaration, options)) for declaration in PASSES]


def pipeline_options() -> tuple[Option, ...]:
    """The options of the default pipeline: those of its passes, each name once."""
    return tuple({option.name: option for declaration in PASSES for option in options_of(declaration)}.values())

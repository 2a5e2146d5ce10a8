"""The default pipeline: the order of the stages, and the passes that options add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gspmd.transforms.decide import Decide
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.localize import Localize
from gspmd.transforms.optimize import PASSES as COLLECTIVE_PASSES
from gspmd.transforms.optimize import Optimize
from gspmd.transforms.optimize.regather import Regather
from gspmd.transforms.optimize.weight_update import ShardWeightUpdate
from gspmd.transforms.order import Order
from gspmd.transforms.passes import Option, Pass, current_name, options_of, select_options, unknown_option
from gspmd.transforms.propagate import Propagate
from gspmd.transforms.repairs import LegalizeForXla
from gspmd.transforms.reshard import Reshard

STAGES: tuple[type[Pass], ...] = (Ingest, Propagate, Decide, Reshard, Localize, Optimize, Order, Regather)
"""The passes of the default pipeline, in its order."""

OPTIONAL: tuple[type[Pass], ...] = (ShardWeightUpdate,)
"""Those of the default pipeline that an option asks for."""

PASSES: tuple[type[Pass], ...] = (*STAGES, *OPTIONAL, *COLLECTIVE_PASSES, LegalizeForXla)
"""Every pass of ours."""

PIPELINE = "gspmd-partition"
"""The name that stands for the default pipeline wherever a pass can be named."""


def default_pipeline(options: Mapping[str, Any] | None = None) -> list[Pass]:
    """From what a framework emits to the program of one device.

    `options` are fields of the passes (`combine_bytes`, also written `combine-bytes`) with their values; each goes to
    every pass that declares it. The update of weights is split where `update_axes` are given. Raises UsageError for an
    option that no pass declares, and for a value of another type.
    """
    known = {option.field: option for option in pipeline_options()}
    given = {}
    for name, value in (options or {}).items():
        field = current_name(PIPELINE, known.values(), name.replace("_", "-")).replace("-", "_")
        if field not in known:
            raise unknown_option(PIPELINE, name, (option.name for option in known.values()))
        given[field] = known[field].checked(value, PIPELINE)
    passes = [declaration(**select_options(declaration, given)) for declaration in STAGES]
    if given.get("update_axes"):
        passes.insert(1, ShardWeightUpdate(**select_options(ShardWeightUpdate, given)))
    return passes


def pipeline_options() -> tuple[Option, ...]:
    """The options of the default pipeline: those of its passes, each name once."""
    return tuple(
        {option.name: option for declaration in (*STAGES, *OPTIONAL) for option in options_of(declaration)}.values()
    )

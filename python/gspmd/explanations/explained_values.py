"""What is said of one value of an explained program."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.derivations import Derivation


@dataclasses.dataclass(frozen=True, slots=True)
class ExplainedValue:
    """A value of the program.

    `name` as in the given module (`%12`, `@f:%3` in an inlined function, `%12/1` for what became several
    operations); `kind` is `argument`, `result`, `operation` or `block argument`; `label` what the framework calls
    it (`state['params']['w']`), empty if unknown; `operation` the name of its producer; `called_for` the results of the
    calls it was inlined through; `used_by` names the consumer of a copy of a constant; `frames` are `location` and its
    callers, as `file:line`. `sharding` is in Shardy's notation, without the mesh. `device_ids` is the device order of
    an argument or result that is annotated with another order than the mesh, empty otherwise. `placement` is both as a
    value, for `shape`.
    """

    name: str
    kind: str
    label: str
    operation: str
    type: str
    location: SourceLocation | None
    called_for: str
    used_by: str
    frames: tuple[str, ...]
    sharding: str
    local_shape: tuple[int, ...]
    derivations: tuple[Derivation, ...]
    shape: tuple[int, ...]
    placement: TensorSharding
    device_ids: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; `location` is `file:line:column` or null."""
        return {
            **{f: getattr(self, f) for f in ("name", "kind", "label", "operation", "type", "called_for", "used_by")},
            "location": str(self.location) if self.location else None,
            "sharding": self.sharding,
            "local_shape": list(self.local_shape),
            "derivations": [d.to_dict() for d in self.derivations],
            **({"device_ids": list(self.device_ids)} if self.device_ids else {}),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class RefinedValue:
    """A value for which `gspmd-decide` chose another sharding than propagation.

    The other sharding lowers the total cost of the producer and the consumers of the value.
    """

    name: str
    operation: str
    location: SourceLocation | None
    sharding: str
    runs_as: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; `location` is `file:line:column` or null."""
        return {**dataclasses.asdict(self), "location": str(self.location) if self.location else None}

"""Writes what torch_xla's `exported_program_to_stablehlo` makes of modules, annotated in the text, to `Inputs/`.

Needs PyTorch and torch_xla (`pip install torch==2.9.0 torch_xla==2.9.0`, which made the files that are kept):

    python test/support/make_pytorch_stablehlo.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
from torch.nn import functional
from torch_xla.stablehlo import exported_program_to_stablehlo

INPUTS = Path(__file__).parents[1] / "frameworks/Inputs"


class Encoder(torch.nn.Module):
    """A Transformer block of 4 heads on `[batch, sequence, 16]`."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))
        self.out, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)
        self.up, self.down = torch.nn.Linear(16, 36), torch.nn.Linear(36, 16)

    def forward(self, x: Any) -> Any:
        heads = [part(x).unflatten(-1, (4, 4)).transpose(1, 2) for part in (self.query, self.key, self.value)]
        attended = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(attended))
        return x + self.down(functional.gelu(self.up(x)))


class Images(torch.nn.Module):
    """Two convolutions on `[batch, 3, height, width]`, the second of stride 2, with pooling between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 4, 3, stride=2, padding=1)

    def forward(self, x: Any) -> Any:
        return self.second(functional.max_pool2d(functional.relu(self.norm(self.first(x))), 2))


# The module, its argument's shape, and by name how parameters are split; "" is the argument, "result" the result.
MODULES: dict[str, tuple[type[torch.nn.Module], tuple[int, ...], dict[str, str]]] = {
    "encoder": (
        Encoder,
        (4, 12, 16),
        {
            "": '[{"x"}, {}, {}]',
            **{f"{name}.weight": '[{"y"}, {}]' for name in ("query", "key", "value", "up")},
            **{f"{name}.weight": '[{}, {"y"}]' for name in ("out", "down")},
        },
    ),
    "images": (Images, (2, 3, 44, 10), dict.fromkeys(("", "result"), '[{}, {}, {"x", "y"}, {}]')),
}


def exported(module: torch.nn.Module, argument: Any) -> tuple[str, list[str]]:
    """The StableHLO of a module, and the names of its arguments."""
    found = exported_program_to_stablehlo(torch.export.export(module.eval(), (argument,)))
    names = [location.name for location in found._bundle.stablehlo_funcs[0].meta.input_locations]
    return found.get_stablehlo_text("forward"), names


def annotated(text: str, names: list[str], shardings: Mapping[str, str]) -> str:
    """The text with a mesh, and shardings on arguments and result by name."""

    def split(value: str, name: str) -> str:
        sharding = shardings.get(name)
        return value if sharding is None else f"{value} {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}"

    head, signature, body = re.split(r"( *func\.func @main[^\n]*\n)", text, maxsplit=1)
    mesh = '  sdy.mesh @mesh = <["x"=4, "y"=2]>\n'
    signature = re.sub(r"%arg(\d+): tensor<[^>]*>", lambda m: split(m[0], names[int(m[1])]), signature)
    signature = re.sub(r"-> (tensor<[^>]*>)", lambda m: f"-> ({split(m[1], 'result')})", signature)
    return head + mesh + signature + body


if __name__ == "__main__":
    for name, (module, shape, shardings) in MODULES.items():
        text, names = exported(module(), torch.zeros(shape))
        told = f"// Arguments: {', '.join(names)}\n"
        (INPUTS / f"pytorch_{name}.mlir").write_text(told + annotated(text, names, shardings))

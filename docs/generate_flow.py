"""Writes docs/flow.md: one matmul on its way through the passes, with the module that each of them leaves.

Run `python docs/generate_flow.py` after a change to what the passes print.
"""

from __future__ import annotations

import re
from pathlib import Path

from gspmd.pass_manager import PassManager
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.pipeline import STAGES

PAGE = Path(__file__).with_name("flow.md")

_PROGRAM = """\
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
"""

_INTRODUCTION = f"""# How a program flows through

Two matmuls over four devices, as a mesh of two axes. The batch is split over `data`, the columns of the first weights
over `model`; of the second weights and of the result nothing is said:

```mlir
{_PROGRAM}```

Below is what every pass of `gspmd-partition` leaves, and where in the source it does so. To follow along, write the
program to matmul.mlir and run `gspmd-opt matmul.mlir --gspmd-partition --mlir-print-ir-after-all`.

## In: text becomes a module

`read_program` ([reading.py](../python/gspmd/reading.py)) finds out what a file is: MLIR text or bytecode, HLO text or
proto, a StableHLO artifact. Whatever a user gives goes through [parsing](../transforms/parsing), which refuses, or
tries in another process, what would end jaxlib's parser. From here on there is a verified module.
"""

_STAGES = {
    "gspmd-ingest": (
        "one form for all frameworks",
        """\
The module leaves with one public `@main`, calls inlined, one `sdy.mesh`, and annotations as `sdy.sharding` only,
whichever of `mhlo.sharding`, `@Sharding` calls or Shardy's round-trip attributes they came as. This program has that
form already, but for the number of devices.

In the code: `Ingest.run` ([ingest](../transforms/ingest/__init__.py)) lists the steps in their order; `survey` finds
all that they have to look at in one walk.
""",
    ),
    "gspmd-propagate": (
        "a sharding on every value",
        """\
The rule of a matmul (`([i, k], [k, j])->([i, j]) reduction={k}`) says which dimensions are the same factor. `data` on
`i` goes to both results. `model` on the columns of `%w` goes to those of the first result, which the second matmul
contracts: so it goes to the rows of `%v`, which nobody annotated.

In the code: `Solver` ([solver.py](../transforms/propagate/solver.py)) repeats until nothing changes; the rule is a
row of [contraction.py](../transforms/ops/contraction.py).
""",
    ),
    "gspmd-refine": (
        "what is cheapest for neighbours together",
        """\
Propagation looks at one operation at a time. Where operations cannot run as it has it, the values between them may be
better off otherwise: in the form that both sides of them want. Nothing in this program is, so it stays as it was. Two
attributes of @main say of which arguments and results nobody has said anything: these may change, too.

In the code: `Chains` ([chains.py](../transforms/refine/chains.py)) tries for each such value what its neighbours would
have, and takes what costs them least together.
""",
    ),
    "gspmd-reshard": (
        "collectives, on global shapes",
        """\
Now every operation is looked at with its operands and results as they are split. Both operands of the second matmul are
split along the contraction: every device can contract what it has, and is left with a partial sum. The result is
wanted whole along `model`, so an all-reduce over that axis follows, with the reason as its `gspmd.cause`. Shapes are
still those of the whole tensors, so the module can still be read as the program of one device.

In the code: `Rewriter` ([rewrite.py](../transforms/reshard/rewrite.py)) goes from operation to operation; `candidates`
([strategy.py](../transforms/reshard/strategy.py)) are the ways to compute one, each with its price; `Planner`
([planner.py](../transforms/reshard/planner.py)) finds the cheapest way from one sharding to another.
""",
    ),
    "gspmd-localize": (
        "the program of one device",
        """\
Types become those of a shard, and collectives those of StableHLO, with groups of devices in place of axes: 0 and 1
differ along `model`, and so do 2 and 3. What the arguments and results are parts of stays in attributes of ours.

In the code: [localize/rewrite.py](../transforms/localize/rewrite.py). Most operations are themselves on smaller
types; those whose local form is more (a convolution with a halo, a sort along a split dimension) have a localizer in
their family's file in [ops](../transforms/ops).
""",
    ),
    "gspmd-optimize": (
        "fewer and smaller collectives",
        """\
Collectives that can be are combined, fused, moved out of loops or behind sums. One all-reduce alone stays as it is.

In the code: a file for each rewrite in [optimize](../transforms/optimize); [optimization.md](optimization.md) shows
what each does.
""",
    ),
    "gspmd-order": (
        "the order of the devices",
        """\
Where annotations are over meshes that number the devices differently, arguments and results get the orders that they
are annotated with. Here there is one order, and nothing to do.

In the code: [order](../transforms/order).
""",
    ),
}

_END = """## Out: a program that runs

`gspmd.compile` ([executable.py](../python/gspmd/runtime/executable.py)) hands the module to PJRT as one manual
computation over all axes, which is what XLA compiles `jax.shard_map` from
([manual_program.py](../python/gspmd/runtime/manual_program.py)): XLA partitions nothing, and every collective is the
one above. `gspmd.jit` does all of this between JAX's lowering and JAX's compiling
([jax_stages.py](../python/gspmd/frontend/jax_stages.py)).
"""


def flow() -> str:
    """The page."""
    module = parse_module(_PROGRAM, new_context(), "matmul.mlir")
    parts, before = [_INTRODUCTION], ""
    for stage in STAGES:
        title, text = _STAGES[stage.argument]
        PassManager([stage()]).run(module)
        printed = _folded(str(module))
        unchanged = "The module is the one above.\n"
        parts.append(f"## {stage.argument}: {title}\n\n{text}")
        parts.append(unchanged if printed == before else f"```mlir\n{printed}```\n")
        before = printed
    return "\n".join([*parts, _END])


def _folded(text: str) -> str:
    """A module with every argument and attribute of @main, and the types of matmuls, on lines of their own."""
    lines = []
    for line in text.strip().splitlines():
        inner = " " * (len(line) - len(line.lstrip()) + 4)
        line = re.sub(r", (%arg\d+: tensor<\d+x)", rf",\n{inner}\1", line)
        line = re.sub(r"\) -> \((tensor<[^>]*> \{)", rf")\n{inner}-> (\1", line)
        line = re.sub(r"\) attributes (\{gspmd)", rf")\n{inner}attributes \1", line)
        if "dot_general" in line or "all_reduce" in line or line.lstrip().startswith("})"):
            line = re.sub(
                r" (\{gspmd\.cause|\{sdy\.sharding|: \(?tensor|out_sharding|replica_groups)", rf"\n{inner}\1", line
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(flow(), encoding="utf-8")

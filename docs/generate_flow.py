"""Writes docs/flow.md: one matmul on its way through the passes, with the module that each of them leaves.

Run `python docs/generate.py flow` after a change to what the passes print.
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

This page follows two matmuls over four devices, in a mesh of two axes. The batch is split over `data`, and the
columns of the first weights over `model`. The second weights and the result have no annotations:

```mlir
{_PROGRAM}```

Below is the output of every pass of `gspmd-partition`, and the source that produces it. To follow along, write the
program to matmul.mlir and run `gspmd-opt matmul.mlir --gspmd-partition --mlir-print-ir-after-all`.

## In: text becomes a module

`read_program` ([reading.py](../python/gspmd/reading.py)) detects what a file is: MLIR text or bytecode, HLO text or
proto, or a StableHLO artifact. All input goes through [parsing](../transforms/parsing). Input that could crash
jaxlib's parser is refused, or tried in another process first. From here on, there is a verified module.
"""

_STAGES = {
    "gspmd-ingest": (
        "one form for all frameworks",
        """\
After this pass, the module has one public `@main` with all calls inlined, one `sdy.mesh`, and annotations in the form
of `sdy.sharding` only. They may have come as `mhlo.sharding`, as `@Sharding` calls, or as Shardy's round-trip
attributes. This program has that form already, except for the number of devices.

In the code: `Ingest.run` ([ingest](../transforms/ingest/__init__.py)) lists the steps in order; `survey` finds
everything that they need in one walk.
""",
    ),
    "gspmd-propagate": (
        "a sharding on every value",
        """\
The rule of a matmul (`([i, k], [k, j])->([i, j]) reduction={k}`) says which dimensions share a factor. `data` on
`i` spreads to both results. `model` on the columns of `%w` spreads to the columns of the first result, which the
second matmul contracts. From there it spreads to the rows of `%v`, which has no annotation.

In the code: `Solver` ([solver.py](../transforms/propagate/solver.py)) repeats until nothing changes; the rule is a
row of [contraction.py](../transforms/ops/contraction.py).
""",
    ),
    "gspmd-decide": (
        "every sharding and every strategy, together",
        """\
Propagation looks at one operation at a time, so its result is a starting point. This pass chooses the shardings of all
values without an annotation, and the way in which every operation runs, together and by cost. Here it changes the
result of the second matmul, which is a sum over `model`. If its columns are split over `model`, every device needs only
its shard of the sum, and half as many bytes are sent. `gspmd.runs` on an operation has the shardings with which it
runs, if they differ from those of its values. Two attributes of `@main` list the arguments and results without
annotations, whose shardings may change. An annotated result would keep its sharding.

In the code: `ProblemBuilder` ([problem.py](../transforms/decide/problem.py)) builds the candidates and their costs, and
`solve` ([solver.py](../transforms/decide/solver.py)) finds the cheapest assignment, with a lower bound.
""",
    ),
    "gspmd-reshard": (
        "collectives, on global shapes",
        """\
This pass inserts the collectives that the decision requires. Both operands of the second matmul are split along the
contracted dimension, so every device computes a partial sum. Each device needs its shard of the result, so a
reduce-scatter over `model` follows, with the reason in its `gspmd.cause`. Shapes are still those of whole tensors, so
the module still reads like the program of one device.

In the code: `Resharder` ([rewrite.py](../transforms/reshard/rewrite.py)) goes from operation to operation.
`Planner` ([planner.py](../transforms/paths/planner.py)) finds the cheapest path from one sharding to another.
""",
    ),
    "gspmd-localize": (
        "the program of one device",
        """\
Types become those of a shard. Collectives become those of StableHLO, with groups of devices instead of axes: devices
0 and 1 differ along `model`, and so do 2 and 3. Attributes with the prefix `gspmd.` keep the global types and shardings
of arguments and results.

In the code: [localize/rewrite.py](../transforms/localize/rewrite.py). The local form of most operations is the same
operation on smaller types. Other operations (a convolution with a halo, a sort along a split dimension)
have a localizer in the file of their family in [ops](../transforms/ops).
""",
    ),
    "gspmd-optimize": (
        "overlapped and combined collectives",
        """\
This pass fuses and combines collectives, moves them out of loops, and takes sums once. A single reduce-scatter stays as
it is.

In the code: each rewrite has a file in [optimize](../transforms/optimize); [optimization.md](optimization.md) shows
what each one does.
""",
    ),
    "gspmd-order": (
        "the order of the devices",
        """\
If annotations use meshes with different device orders, this pass brings arguments and results to the orders of their
annotations. This program has one order, so there is nothing to do.

In the code: [order](../transforms/order).
""",
    ),
    "gspmd-regather": (
        "what fits into memory",
        """\
With a target, values that were gathered for several uses are gathered again for later ones if the program would need
more memory than a device has. Nothing is gathered here.

In the code: [regather.py](../transforms/optimize/regather.py).
""",
    ),
}

_END = """## Out: a program that runs

`gspmd.compile` ([executable.py](../python/gspmd/runtime/executable.py)) passes the module to PJRT as one manual
computation over all axes, the form that JAX uses for `jax.shard_map`
([manual_program.py](../python/gspmd/runtime/manual_program.py)). XLA therefore partitions nothing, and the collectives
are those above. `gspmd.jit` does all of this between JAX's lowering and JAX's compilation
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
        if "dot_general" in line or "reduce_scatter" in line or line.lstrip().startswith("})"):
            line = re.sub(
                r" (\{gspmd\.cause|\{sdy\.sharding|: \(?tensor|out_sharding|replica_groups)", rf"\n{inner}\1", line
            )
        lines.append(line)
    return "\n".join(lines) + "\n"

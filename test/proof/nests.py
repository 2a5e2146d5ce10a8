"""Programs of nested control flow, made up from a seed: what they do is in `nest_operations.py`.

A statement names what it uses by numbers that count back through the values there are, those of the blocks around
among them, so that a program stays one whatever is left out of it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

Spec = tuple[tuple[str, ...], ...]

DEPTH = 3
LOOPS = ("while", "repeat", "scan", "vmapped_while", "until_alike")
FLOW = (*LOOPS, "cond", "switch", "call", "rows")
# Of a block on one device of a shard_map, what is the same in all of them; of one that is differentiated, what can be.
GLOBAL = (*FLOW, "manual", "gradient")
LOCAL = ("while", "repeat", "scan", "cond", "call", "alone")
SMOOTH = ("repeat", "scan", "cond", "call", "remat")
LEAVES = (
    "add", "add", "subtract", "multiply", "select", "maximum", "constant", "table", "iota", "full", "spread", "column",
    "sum", "largest", "where_largest", "top_k_values", "top_k_places", "top_k_of_iota", "sorted", "sorted_by",
    "order_of_iota", "window", "update", "look_up", "scattered", "running", "product", "reversed",
    "rolled", "random", "random_bits", "barrier", "count", "transposed", "mixed", "mixed_sum",
)  # fmt: skip
TALKS = ("all_summed", "all_gathered", "passed_on", "own_number", "summed_count")
FIXED_LEAVES = tuple(leaf for leaf in LEAVES if not leaf.startswith("random"))
ALONE_LEAVES = (*FIXED_LEAVES, "constant")
LOCAL_LEAVES = (*FIXED_LEAVES, *TALKS, *TALKS)
FLOATS = ("bounded", "scaled", "numbers", "float_top_k", "float_product", "float_sum", "soft", "float_sorted")


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """One step: `uses` are numbers that pick values, `number` whatever else its kind may take from a seed."""

    kind: str
    uses: tuple[int, ...]
    number: int
    blocks: tuple[Block, ...] = ()
    spec: Spec | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Steps one after the other; `carried` picks what goes around, or in, `made` what comes out of it."""

    statements: tuple[Statement, ...]
    carried: tuple[int, ...] = ()
    made: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Nest:
    """A program over a mesh; of its arguments, which are always the same kinds, the lengths and shardings."""

    mesh: tuple[tuple[str, int], ...]
    rows: int
    columns: int
    specs: tuple[Spec, ...]
    body: Block

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.mesh)
        head = f"nest of {self.rows}x{self.columns} over {sizes}; arguments {self.specs}"
        return "\n".join([head, *_lines(self.body, 1)])


def _lines(block: Block, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for statement in block.statements:
        spec = "" if statement.spec is None else f" as {statement.spec}"
        yield f"{indent}{statement.kind} {statement.uses} {statement.number}{spec}"
        for inner in statement.blocks:
            yield from _lines(inner, depth + 1)
    yield f"{indent}yield {block.made} of {block.carried}"


MESHES = ((("x", 8),), (("x", 2), ("y", 4)), (("x", 3), ("y", 2)), (("x", 4),), (("x", 2), ("y", 2), ("z", 2)))
RANKS = (0, 1, 2, 2)
"""Of the arguments: a whole number, some of them, a matrix of them, and a matrix of floats."""


def nest(seed: int) -> Nest:
    """The program of a seed."""
    return _Maker(seed).program()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mesh = self.rng.choice(MESHES)
        self.left = 40  # statements: what nests deep is short

    def program(self) -> Nest:
        rows, columns = self.rng.choice((7, 8, 12, 16, 24)), self.rng.choice((3, 4, 6, 8))
        specs = tuple(self.spec(rank) for rank in RANKS)
        return Nest(self.mesh, rows, columns, specs, self.block(DEPTH, GLOBAL, LEAVES + FLOATS, steps=(3, 6)))

    def block(
        self, depth: int, flow: tuple[str, ...], leaves: tuple[str, ...], steps: tuple[int, int] = (1, 4)
    ) -> Block:
        statements = []
        for _ in range(self.rng.randint(*steps)):
            if self.left <= 0:
                break
            self.left -= 1
            nested = depth > 0 and self.rng.random() < 0.45
            statements.append(self.flow(depth, self.rng.choice(flow), flow, leaves) if nested else self.leaf(leaves))
        return Block(tuple(statements), self.picks(1, 4), self.picks(4, 4))

    def leaf(self, leaves: tuple[str, ...]) -> Statement:
        kind = self.rng.choice(leaves)
        annotated = leaves != LOCAL_LEAVES and leaves != ALONE_LEAVES and self.rng.random() < 0.12
        spec = self.spec(self.rng.choice((1, 2))) if annotated else None
        return Statement(kind, self.picks(3, 3), self.rng.randrange(1000), spec=spec)

    def flow(self, depth: int, kind: str, flow: tuple[str, ...], leaves: tuple[str, ...]) -> Statement:
        count = {"cond": 2, "switch": 3}.get(kind, 1)
        if kind == "manual":
            flow, leaves = LOCAL, LOCAL_LEAVES
        elif kind == "alone":
            flow, leaves = ("while", "cond"), ALONE_LEAVES
        elif kind == "gradient":
            flow, leaves = SMOOTH, FLOATS * 3 + LEAVES
        elif kind == "vmapped_while":
            flow, leaves = ("repeat", "cond"), FIXED_LEAVES
        blocks = tuple(self.block(depth - 1, flow, leaves) for _ in range(count))
        return Statement(kind, self.picks(3, 3), self.rng.randrange(1000), blocks)

    def picks(self, least: int, most: int) -> tuple[int, ...]:
        return tuple(min(int(self.rng.expovariate(0.3)), 20) for _ in range(self.rng.randint(least, most)))

    def spec(self, rank: int) -> Spec:
        free = [name for name, _ in self.mesh]
        self.rng.shuffle(free)
        dims: list[tuple[str, ...]] = []
        for _ in range(rank):
            taken = min(len(free), self.rng.choice((0, 1, 1, 1, 2)))
            dims.append(tuple(free[:taken]))
            free = free[taken:]
        return tuple(dims)

"""The messages of an exchange of one dimension, as plain values.

The elements that one device needs of another are one message. In a round, which is one collective permute, every device
sends and receives at most one message; a round is as long as its longest message.

For example, a dimension of 12 elements in three shards of 4, each of which needs one more element on either side:
`Exchange(4, holds=((0, 4), (4, 8), (8, 12)), wants=((-1, 5), (3, 9), (7, 13)))`. Its schedule has two rounds of one
element each, one to the previous and one to the next device. `cheapest` finds that this is a halo exchange:
`ExchangeMethod(sent=2, margins=(1, 1))`. With `wants=((8, 12), (0, 4), (4, 8))` shards are only permuted, in one round
of 4 elements.

Source: edge coloring of bipartite multigraphs (Koenig 1916): as many rounds as the busiest device has messages.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_EXCHANGED_SHARDS

Ints = npt.NDArray[np.int64]
Range = tuple[int, int]

# With more rounds than this, a gather is the shorter program.
MAX_ROUNDS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange of one dimension, in elements: the ranges that devices hold, and those that they need.

    Source shard i has `local` positions and holds the range `holds[i]` in the first of these; or, with `starts`, it
    holds the ranges whose entry there is (i, first position), and there are `shards` of them. Target shard j needs the
    range `wants[j]` and gets the part of it that has a holder. Held ranges are disjoint and ascending; needed ranges
    have equal lengths and may extend beyond the dimension.

    Devices are numbered within a group: `spread` consecutive ones hold the same source shard, and `targets` gives the
    target shard of each. Without `targets`, source and target shards are the devices.
    """

    local: int
    holds: tuple[Range, ...]
    wants: tuple[Range, ...]
    spread: int = 1
    targets: tuple[int, ...] = ()
    starts: tuple[Range, ...] = ()
    shards: int = 0

    def __post_init__(self) -> None:
        if not self.shards:
            object.__setattr__(self, "shards", len(self.holds))

    @property
    def devices(self) -> int:
        return self.shards * self.spread

    def kept(self) -> list[tuple[int, int, Range]]:
        """The shard and the first position of every non-empty range."""
        starts = self.starts or [(shard, 0) for shard in range(len(self.holds))]
        return [(*at, held) for at, held in zip(starts, self.holds, strict=True) if held[0] < held[1]]

    @property
    def length(self) -> int:
        """The number of elements that every target shard needs."""
        return self.wants[0][1] - self.wants[0][0]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of shards that devices send each other, as columns with an entry per piece.

    A piece is `length` elements, from position `taken` of the shard on device `source` to position `put` of the result
    on device `target`.
    """

    source: Ints
    target: Ints
    taken: Ints
    put: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, chosen: Ints | npt.NDArray[np.bool_]) -> Pieces:
        columns = (self.source, self.target, self.taken, self.put, self.length)
        return Pieces(*(column[chosen] for column in columns))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The schedule of an exchange: `own` pieces that devices already have, and `rounds` of received ones.

    Each entry of `own` and each round has at most one piece per device.
    """

    own: tuple[Pieces, ...]
    rounds: tuple[Pieces, ...]

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return _longest(self.rounds)


def check_shards(count: int) -> None:
    """Raise Unsupported if a dimension has too many shards to list."""
    if count > MAX_EXCHANGED_SHARDS:
        raise Unsupported(
            f"exchanges parts of a dimension that is split {count} times, expected at most {MAX_EXCHANGED_SHARDS}",
            hint="split another dimension, or over fewer devices",
            code=Code.LIMIT,
        )


def tiles(size: int, count: int) -> tuple[Range, ...]:
    """The ranges that `count` shards of a dimension hold; the last may be short or empty."""
    check_shards(count)
    local = -(-size // count)
    return tuple((min(i * local, size), min((i + 1) * local, size)) for i in range(count))


def nests(size: int, coarse: int, fine: int) -> bool:
    """Whether `coarse` shards of a dimension are unions of `fine` ones, except for padding at the end."""
    return coarse == 1 or (fine % coarse == 0 and fine // coarse * -(-size // fine) == -(-size // coarse))


def blocks(local: int, count: int) -> tuple[Range, ...]:
    """`count` adjacent ranges of `local` elements, from 0 on."""
    check_shards(count)
    return tuple((i * local, (i + 1) * local) for i in range(count))


@functools.lru_cache(maxsize=4096)
def schedule(exchange: Exchange) -> Schedule:
    """The schedule that sends least, with the fewest rounds among equals."""
    pieces = _pieces(exchange)
    here = pieces.source == pieces.target
    own, moved = pieces[here], pieces[~here]
    kept = one_each(own)
    return Schedule(kept, in_rounds(moved, exchange.devices))


def in_rounds(moved: Pieces, devices: int) -> tuple[Pieces, ...]:
    """Pieces in rounds, in which each device sends and receives at most one.

    Of the colorings tried, the one that sends least is used, with the fewest rounds among equals.
    """
    if not len(moved):
        return ()
    least = max(int(np.bincount(ends, moved.length).max()) for ends in (moved.source, moved.target))
    found: tuple[Pieces, ...] = ()
    for colors in _colorings(moved, devices):
        rounds = _numbered(moved, colors)
        if not found or (_longest(rounds), len(rounds)) < (_longest(found), len(found)):
            found = rounds
        if _longest(found) == least:
            break  # a lower bound by the traffic of one device
    return found


def _longest(rounds: Iterable[Pieces]) -> int:
    """Elements that a device sends at most in all rounds."""
    return sum(int(pieces.length.max()) for pieces in rounds)


def _pieces(exchange: Exchange) -> Pieces:
    kept = exchange.kept()
    shards, starts = np.array([at[:2] for at in kept], np.int64).reshape(-1, 2).T
    begins, ends = np.array([at[2] for at in kept], np.int64).reshape(-1, 2).T
    targets = np.array(exchange.targets or np.arange(exchange.devices), np.int64)
    low, high = np.array(exchange.wants, np.int64).reshape(-1, 2)[targets].T
    first = np.searchsorted(ends, low, "right")
    counts = np.maximum(np.searchsorted(begins, high, "left") - first, 0)
    target = np.repeat(np.arange(exchange.devices), counts)
    # The first, second and further holders of elements that the target needs.
    nth = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = first[target] + nth
    begin, end = np.maximum(begins[held], low[target]), np.minimum(ends[held], high[target])
    source = shards[held] * exchange.spread + target % exchange.spread
    taken = begin - begins[held] + starts[held]
    return Pieces(source, target, taken, begin - low[target], end - begin)[end > begin]


def one_each(own: Pieces) -> tuple[Pieces, ...]:
    """Pieces in groups with at most one per target."""
    return _numbered(own, np.arange(len(own)) - np.searchsorted(own.target, own.target))


def _numbered(pieces: Pieces, colors: Ints) -> tuple[Pieces, ...]:
    return tuple(pieces[colors == color] for color in np.unique(colors))


def _colorings(pieces: Pieces, devices: int) -> Iterable[Ints]:
    """Colorings: for each, an array with the round of every piece.

    The first is by distance, as in shifts, if no pair of devices has two pieces; the second is greedy, with the longest
    piece first; the third has the fewest possible rounds.
    """
    pairs = pieces.source * devices + pieces.target
    if len(np.unique(pairs)) == len(pairs):
        yield pieces.target - pieces.source
    order = np.argsort(-pieces.length, kind="stable")
    yield _first_free(pieces, order, devices)
    yield _fewest(pieces, order, devices)


def _free_bit(used: int) -> int:
    """The lowest bit that is not used."""
    return ~used & (used + 1)


def _first_free(pieces: Pieces, order: Ints, devices: int) -> Ints:
    colors = np.zeros(len(pieces), np.int64)
    sends, receives = [0] * devices, [0] * devices  # the used rounds, as bits
    source, target = pieces.source.tolist(), pieces.target.tolist()
    for piece in order.tolist():
        taken = sends[source[piece]] | receives[target[piece]]
        bit = _free_bit(taken)
        sends[source[piece]] |= bit
        receives[target[piece]] |= bit
        colors[piece] = bit.bit_length()
    return colors


def _fewest(pieces: Pieces, order: Ints, devices: int) -> Ints:
    """A round for every piece; if no round is free on both sides, swap rounds along an alternating path."""
    colors = [0] * len(pieces)
    ends = pieces.source.tolist(), [devices + t for t in pieces.target.tolist()]
    at: list[dict[int, int]] = [{} for _ in range(2 * devices)]
    taken = [0] * (2 * devices)  # the used rounds, as bits

    def first_free(node: int) -> int:
        return _free_bit(taken[node]).bit_length() - 1

    for piece in order.tolist():
        here, there = ends[0][piece], ends[1][piece]
        mine, other = first_free(here), first_free(there)
        path, node, color = [], there, mine
        while mine != other and color in at[node]:
            step = at[node][color]
            path.append(step)
            node = ends[0][step] + ends[1][step] - node
            color = mine + other - color
        for step in path:
            for node in (ends[0][step], ends[1][step]):
                del at[node][colors[step]]
                taken[node] ^= 1 << colors[step]
            colors[step] = mine + other - colors[step]
        colors[piece] = mine
        for step in (*path, piece):
            for node in (ends[0][step], ends[1][step]):
                at[node][colors[step]] = step
                taken[node] |= 1 << colors[step]
    return np.array(colors, np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class ExchangeMethod:
    """The cheapest method of an exchange, the elements that a device sends, and the number of collectives.

    `margins` are the elements from neighbors before and after a shard, for that method. Otherwise `gathers` says
    whether everything is gathered; if not, pieces are sent in rounds.
    """

    sent: int
    messages: int
    margins: Range | None = None
    gathers: bool = False


@functools.lru_cache(maxsize=4096)
def cheapest(exchange: Exchange) -> ExchangeMethod:
    """The method that sends least; among equals, neighbors come before rounds, and rounds before an all-gather."""
    margins, received = _margins(exchange)
    if margins is not None and sum(margins) <= received:
        return _beside(exchange, margins)
    ways = [ExchangeMethod((exchange.shards - 1) * exchange.local, 1, gathers=True)]
    if _fewest_rounds(exchange) <= MAX_ROUNDS:
        plan = schedule(exchange)
        if len(plan.rounds) <= MAX_ROUNDS:
            ways.insert(0, ExchangeMethod(plan.sent, len(plan.rounds)))
    if margins is not None:
        ways.insert(0, _beside(exchange, margins))
    return min(ways, key=lambda way: way.sent)


def _beside(exchange: Exchange, margins: Range) -> ExchangeMethod:
    """The method of margins, with one message for each shard that a margin overlaps."""
    return ExchangeMethod(sum(margins), sum([-(-margin // exchange.local) for margin in margins if margin]), margins)


def _fewest_rounds(exchange: Exchange) -> int:
    """The number of messages of the busiest device, a lower bound of the number of rounds."""
    pieces = _pieces(exchange)
    away = pieces.source != pieces.target
    return max((int(np.bincount(ends[away]).max()) for ends in (pieces.source, pieces.target) if away.any()), default=0)


def _margins(exchange: Exchange) -> tuple[Range | None, int]:
    """The margins into neighboring shards, and the most elements that a shard lacks.

    The margins are (before, after), or None unless shards are at equal distances. The second is a lower bound of the
    elements sent.
    """
    if exchange.spread > 1 or exchange.targets or exchange.starts or not exchange.local:
        return None, 0
    begins, ends = np.array(exchange.holds, np.int64).T
    tile = exchange.local * np.arange(exchange.shards)
    if ((begins < ends) & (begins != tile)).any():
        return None, 0
    low, high = np.array(exchange.wants, np.int64).T
    low, high = np.maximum(low, begins[0]), np.minimum(high, ends[-1])
    chosen = low < high
    if not chosen.any():
        return (0, 0), 0
    left, right = (tile - low)[chosen].max(), (high - tile - exchange.local)[chosen].max()
    own = np.maximum(np.minimum(high, ends) - np.maximum(low, begins), 0)
    return (max(int(left), 0), max(int(right), 0)), int((high - low - own)[chosen].max())

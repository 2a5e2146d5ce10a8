"""Who sends what to whom when a dimension is held one way and wanted another: plain values, no program.

What one device needs of another is one message. Messages are put into rounds in which every device sends at most one
and receives at most one, which is what one collective permute does; a round is as long as its longest message.

For example, a dimension of 12 elements in three shards of 4, each of which is wanted with one more element on either
side: `Exchange(4, holds=((0, 4), (4, 8), (8, 12)), wants=((-1, 5), (3, 9), (7, 13)))`. Its schedule has two rounds of
one element each, one to the device before and one to the device behind. `cheapest` finds that this is a halo exchange:
`Cheapest(sent=2, margins=(1, 1))`. With `wants=((8, 12), (0, 4), (4, 8))` shards only change places, in one round of 4
elements.

Source: edge colouring of bipartite multigraphs (Koenig 1916): as many rounds as the busiest device has messages.
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

# With more rounds than this, gathering is the shorter program, whatever is sent.
MOST_ROUNDS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """One dimension, in elements: which ranges of it devices hold, and which they want.

    Source shard i has `local` places and holds the range `holds[i]` in its first; or, with `places`, it holds the
    ranges whose entry there is (i, first place), and there are `shards` of them. Target shard j wants the range
    `wants[j]`, of which it gets what is held. Ranges held are disjoint and ascend; ranges wanted are equally long and
    may reach out of the dimension.

    Devices are counted within a group: `spread` of them in a row hold the same source shard, and `targets` gives the
    target shard of each. Without `targets`, source and target shards are the devices.
    """

    local: int
    holds: tuple[Range, ...]
    wants: tuple[Range, ...]
    spread: int = 1
    targets: tuple[int, ...] = ()
    places: tuple[Range, ...] = ()
    shards: int = 0

    def __post_init__(self) -> None:
        if not self.shards:
            object.__setattr__(self, "shards", len(self.holds))

    @property
    def devices(self) -> int:
        return self.shards * self.spread

    def kept(self) -> list[tuple[int, int, Range]]:
        """Shard and first place of every range that is not empty."""
        places = self.places or [(shard, 0) for shard in range(len(self.holds))]
        return [(*at, held) for at, held in zip(places, self.holds, strict=True) if held[0] < held[1]]

    @property
    def length(self) -> int:
        """Elements that every target shard wants."""
        return self.wants[0][1] - self.wants[0][0]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of shards that go from one device to another, as columns with an entry for each piece.

    A piece is `length` elements, from the place `taken` of the shard on device `source` to the place `put` of what
    device `target` wants.
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
    """The pieces of an exchange in order: `own` that devices have already, and `rounds` of those they are sent.

    Each entry of `own` and each round has at most one piece for every device.
    """

    own: tuple[Pieces, ...]
    rounds: tuple[Pieces, ...]

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return _longest(self.rounds)


def check_shards(count: int) -> None:
    """Raise Unsupported if a dimension has too many shards to be looked at one by one."""
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
    """Whether `fine` shards of a dimension make up `coarse` ones exactly, except for padding at the end."""
    return coarse == 1 or (fine % coarse == 0 and fine // coarse * -(-size // fine) == -(-size // coarse))


def blocks(local: int, count: int) -> tuple[Range, ...]:
    """`count` adjacent ranges of `local` elements, from 0 on."""
    check_shards(count)
    return tuple((i * local, (i + 1) * local) for i in range(count))


@functools.lru_cache(maxsize=4096)
def schedule(exchange: Exchange) -> Schedule:
    """The rounds that send least, and of those the fewest."""
    pieces = _pieces(exchange)
    here = pieces.source == pieces.target
    own, moved = pieces[here], pieces[~here]
    kept = one_each(own)
    return Schedule(kept, in_rounds(moved, exchange.devices))


def in_rounds(moved: Pieces, devices: int) -> tuple[Pieces, ...]:
    """Pieces in rounds, in which each device sends at most one and receives at most one.

    Of the colourings tried, the rounds are those that send least, and of these the fewest.
    """
    if not len(moved):
        return ()
    least = max(int(np.bincount(ends, moved.length).max()) for ends in (moved.source, moved.target))
    found: tuple[Pieces, ...] = ()
    for colours in _colourings(moved, devices):
        rounds = _numbered(moved, colours)
        if not found or (_longest(rounds), len(rounds)) < (_longest(found), len(found)):
            found = rounds
        if _longest(found) == least:
            break  # a device has to send or receive as much
    return found


def _longest(rounds: Iterable[Pieces]) -> int:
    """Elements that a device sends at most in all rounds."""
    return sum(int(pieces.length.max()) for pieces in rounds)


def _pieces(exchange: Exchange) -> Pieces:
    kept = exchange.kept()
    shards, places = np.array([at[:2] for at in kept], np.int64).reshape(-1, 2).T
    begins, ends = np.array([at[2] for at in kept], np.int64).reshape(-1, 2).T
    targets = np.array(exchange.targets or np.arange(exchange.devices), np.int64)
    low, high = np.array(exchange.wants, np.int64).reshape(-1, 2)[targets].T
    first = np.searchsorted(ends, low, "right")
    counts = np.maximum(np.searchsorted(begins, high, "left") - first, 0)
    target = np.repeat(np.arange(exchange.devices), counts)
    # The first, second and so on of those that hold something of what the target wants.
    nth = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = first[target] + nth
    begin, end = np.maximum(begins[held], low[target]), np.minimum(ends[held], high[target])
    source = shards[held] * exchange.spread + target % exchange.spread
    taken = begin - begins[held] + places[held]
    return Pieces(source, target, taken, begin - low[target], end - begin)[end > begin]


def one_each(own: Pieces) -> tuple[Pieces, ...]:
    """Pieces in order of their targets, at most one a target at a time."""
    return _numbered(own, np.arange(len(own)) - np.searchsorted(own.target, own.target))


def _numbered(pieces: Pieces, colours: Ints) -> tuple[Pieces, ...]:
    return tuple(pieces[colours == colour] for colour in np.unique(colours))


def _colourings(pieces: Pieces, devices: int) -> Iterable[Ints]:
    """Ways to put pieces into rounds: an array each, with the number of every piece's round.

    The first is by distance, as in shifts, if no pair of devices has two pieces; the second puts the longest piece
    first into the first round that is free; the third has as few rounds as there can be.
    """
    pairs = pieces.source * devices + pieces.target
    if len(np.unique(pairs)) == len(pairs):
        yield pieces.target - pieces.source
    order = np.argsort(-pieces.length, kind="stable")
    yield _first_free(pieces, order, devices)
    yield _fewest(pieces, order, devices)


def _first_free(pieces: Pieces, order: Ints, devices: int) -> Ints:
    colours = np.zeros(len(pieces), np.int64)
    sends, receives = [0] * devices, [0] * devices  # the rounds that are taken, as bits
    source, target = pieces.source.tolist(), pieces.target.tolist()
    for piece in order.tolist():
        taken = sends[source[piece]] | receives[target[piece]]
        bit = ~taken & (taken + 1)
        sends[source[piece]] |= bit
        receives[target[piece]] |= bit
        colours[piece] = bit.bit_length()
    return colours


def _fewest(pieces: Pieces, order: Ints, devices: int) -> Ints:
    """A round for every piece; where none is free on both sides, those along an alternating path change places."""
    colours = [0] * len(pieces)
    ends = pieces.source.tolist(), [devices + t for t in pieces.target.tolist()]
    at: list[dict[int, int]] = [{} for _ in range(2 * devices)]

    def free(node: int) -> int:
        return next(colour for colour in range(len(at[node]) + 1) if colour not in at[node])

    for piece in order.tolist():
        here, there = ends[0][piece], ends[1][piece]
        mine, other = free(here), free(there)
        path, node, colour = [], there, mine
        while mine != other and colour in at[node]:
            step = at[node][colour]
            path.append(step)
            node = ends[0][step] + ends[1][step] - node
            colour = mine + other - colour
        for step in path:
            for node in (ends[0][step], ends[1][step]):
                del at[node][colours[step]]
            colours[step] = mine + other - colours[step]
        for step in path:
            for node in (ends[0][step], ends[1][step]):
                at[node][colours[step]] = step
        colours[piece] = mine
        at[here][mine] = at[there][mine] = piece
    return np.array(colours, np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class Cheapest:
    """How to carry an exchange out, the elements that a device sends then, and in how many collectives.

    `margins` is how far a shard is extended by what its neighbours hold, if that is the way. Otherwise `gathers` says
    whether everything is gathered; if not, pieces are sent in rounds.
    """

    sent: int
    messages: int
    margins: Range | None = None
    gathers: bool = False


@functools.lru_cache(maxsize=4096)
def cheapest(exchange: Exchange) -> Cheapest:
    """The way that sends least; of equal ones neighbours go before rounds, and rounds before an all-gather."""
    margins, received = _margins(exchange)
    if margins is not None and sum(margins) <= received:
        return _beside(exchange, margins)
    ways = [Cheapest((exchange.shards - 1) * exchange.local, 1, gathers=True)]
    if _fewest_rounds(exchange) <= MOST_ROUNDS:
        plan = schedule(exchange)
        if len(plan.rounds) <= MOST_ROUNDS:
            ways.insert(0, Cheapest(plan.sent, len(plan.rounds)))
    if margins is not None:
        ways.insert(0, _beside(exchange, margins))
    return min(ways, key=lambda way: way.sent)


def _beside(exchange: Exchange, margins: Range) -> Cheapest:
    """What neighbours hold, one message for each shard that a margin reaches into."""
    return Cheapest(sum(margins), sum([-(-margin // exchange.local) for margin in margins if margin]), margins)


def _fewest_rounds(exchange: Exchange) -> int:
    """The number of messages of the busiest device: no schedule has fewer rounds."""
    pieces = _pieces(exchange)
    away = pieces.source != pieces.target
    return max((int(np.bincount(ends[away]).max()) for ends in (pieces.source, pieces.target) if away.any()), default=0)


def _margins(exchange: Exchange) -> tuple[Range | None, int]:
    """How far shards have to be extended into their neighbours, and the most elements that one lacks.

    The first is (before, after), or None unless shards lie side by side at equal distances. No way sends fewer elements
    than the second.
    """
    if exchange.spread > 1 or exchange.targets or exchange.places or not exchange.local:
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

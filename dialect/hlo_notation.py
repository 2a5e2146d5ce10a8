"""XLA's text notation of shardings (`mhlo.sharding`), read and written without loss.

Three forms: a list of devices `{devices=[2,2]0,2,1,3}`, an iota `{devices=[2,2]<=[2,2]T(1,0)}`, and named
axes `{mesh['a'=2,'b'=2], [{'b'}, {'a', ?}], replicated={..}}`, alone or as the leaves of a tuple
`{{..}, {..}}`. White space and `/* comments */` mean nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axes, Axis, canonical
from gspmd.dialect.device_order import DeviceOrder, Iota
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError
from gspmd.dialect.hlo_sharding import (
    Body,
    HloSharding,
    Maximal,
    Metadata,
    Named,
    Role,
    ShardGroup,
    Tiled,
    TupleOf,
    Whole,
)
from gspmd.dialect.limits import count_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import Cursor, axis_at, dim_at
from gspmd.dialect.sharding import DimSharding, TensorSharding

_QUOTED = r"'(?:[^'\\]|\\.)*'" + r'|"(?:[^"\\]|\\.)*"'
_OPEN_DIMS = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")
_T = TypeVar("_T")

# If a text has several of them, the first in this order wins.
_KINDS = ("replicated", "maximal", "manual", "unknown", "unreduced")
_SUBGROUPS = ("replicated", "maximal", "manual", "unreduced")
_AXIS_LISTS = ("replicated", "unreduced", "manual")
_ONE_DEVICE = ("maximal_mesh", "single_device")  # XLA up to jaxlib 0.11, and from 0.12 on


class HloCursor(Cursor):
    """The tokens of a text in XLA's notation."""

    pattern = re.compile(rf"(?:\s|/\*.*?\*/)*(?:({_QUOTED}|<=|\w+|.)|\Z)", re.DOTALL | re.ASCII)

    def string(self) -> str:
        if not re.fullmatch(_QUOTED, self.peek(), re.DOTALL):
            raise self.error("expected a quoted name")
        return re.sub(r"\\(.)", r"\1", self.next()[1:-1], flags=re.DOTALL)


def parse_hlo_sharding(text: str) -> HloSharding:
    """Read `{..}`.

    Errors: ParseError for a syntax error, AnnotationError for inconsistent text, such as tile dims of 4 devices with a
    list of 3.
    """
    cursor = HloCursor(text)
    cursor.expect("{")
    is_tuple = cursor.peek() in ("{", "}")
    cursor.index = 0
    if is_tuple:
        sharding = HloSharding(TupleOf(cursor.listed("{", "}", lambda: _single(cursor))))
    else:
        sharding = _single(cursor)
    cursor.end()
    return sharding


def print_hlo_sharding(sharding: HloSharding) -> str:
    """`{devices=[2,1,2]<=[4] last_tile_dim_replicate}`: the form that the value has, in XLA's spelling."""
    match sharding.body:
        case TupleOf(leaves=leaves):
            texts = map(print_hlo_sharding, leaves)
            numbered = (f"/*index={i}*/{t}" if i and i % 5 == 0 else t for i, t in enumerate(texts))
            return "{" + ", ".join(numbered) + "}"
        case Named() as named:
            return _print_with_metadata(_print_named(named), sharding)
        case Maximal(is_named=True, device=device):
            return _print_with_metadata(f"maximal_mesh[device_id={device}]", sharding)
        case body:
            words = [_print_unnamed(body)]
    if sharding.shard_group:
        words.append(f"shard_{'like' if sharding.shard_group.is_like else 'as'} {sharding.shard_group.id}")
    if sharding.metadata:
        metadata = ", ".join(map(_print_metadata, sharding.metadata))
        words.append(f"metadata={metadata}" if len(sharding.metadata) == 1 else f"metadata={{{metadata}}}")
    return "{" + " ".join(words) + "}"


def print_open_dims(dims: Iterable[int]) -> str:
    """The list of open dimensions next to a sharding: `unspecified_dims=[0,2]`; empty for none."""
    listed = ",".join(map(str, dims))
    return f"unspecified_dims=[{listed}]" if listed else ""


def parse_open_dims(text: str) -> tuple[int, ...]:
    """The open dimensions in a text, which may contain more. Raises ParseError."""
    found = _OPEN_DIMS.search(text)
    dims: list[int] = []
    for part in found[1].split(",") if found else ():
        dim = count_of(part.strip())
        if dim is not None:
            dims.append(dim)
        elif part.strip():
            raise ParseError(f"'{part.strip():.40}' is not a dimension", code=Code.SHARDING_TEXT)
    return tuple(dims)


def _print_with_metadata(named: str, sharding: HloSharding) -> str:
    """The named form; metadata is printed as a list even if there is only one entry."""
    metadata = ", ".join(map(_print_metadata, sharding.metadata))
    return "{" + named + (f", metadata={{{metadata}}}" if metadata else "") + "}"


# ---- device lists and iotas -----------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Words:
    """The words read so far between two braces, which come in any order."""

    kinds: set[str] = dataclasses.field(default_factory=set)
    device: int | None = None
    tile: tuple[tuple[int, ...], DeviceOrder] | None = None
    subgroups: tuple[Role, ...] | None = None
    shard_group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] | None = None


def _single(cursor: HloCursor) -> HloSharding:
    cursor.expect("{")
    if cursor.peek() in ("mesh", *_ONE_DEVICE):
        return _named(cursor)
    words, start = _Words(), cursor.index
    while not cursor.accept("}"):
        _word(cursor, words)
    body = _unnamed(words, " ".join(token for token, _ in cursor.tokens[start - 1 : cursor.index][:40]))
    return HloSharding(body, words.shard_group, words.metadata or ())


def _word(cursor: HloCursor, words: _Words) -> None:
    def new(value: object) -> None:
        if value is not None:
            raise cursor.error("expected every word only once,")

    word = cursor.peek()
    match word:
        case "replicated" | "maximal" | "manual" | "unknown" | "unreduced":
            words.kinds.add(cursor.next())
        case "device":
            new(words.device)
            words.device = _value(cursor, cursor.integer)
        case "devices":
            new(words.tile)
            words.tile = _value(cursor, lambda: _tile(cursor))
        case "last_tile_dim_replicate":
            new(words.subgroups)
            cursor.next()
            words.subgroups = (Role.REPLICATED,)
        case "last_tile_dims":
            new(words.subgroups)
            words.subgroups = _value(cursor, lambda: cursor.listed("{", "}", lambda: _role(cursor)))
        case "shard_as" | "shard_like":
            new(words.shard_group)
            cursor.next()
            words.shard_group = ShardGroup(cursor.integer(), word == "shard_like")
        case "metadata":
            new(words.metadata)
            words.metadata = _value(cursor, lambda: _metadata(cursor))
        case _:
            raise cursor.error("expected a word of the sharding notation, as 'replicated' or 'devices',")


def _value(cursor: HloCursor, read: Callable[[], _T]) -> _T:
    """Read what follows `word=`, the word included."""
    cursor.next()
    cursor.expect("=")
    return read()


def _unnamed(words: _Words, text: str) -> Body:
    kind = next((kind for kind in _KINDS if kind in words.kinds), None)
    device, tile, subgroups = words.device, words.tile, words.subgroups
    if kind == "maximal":
        if tile and tile[0] == (1,) and device is None:  # the older spelling: maximal devices=[1]3
            device, tile = device_order.expand(tile[1])[0], None
        if device is None or tile or subgroups is not None:
            raise ParseError(
                f"a maximal sharding needs exactly one 'device=' but '{text}' is given", code=Code.SHARDING_TEXT
            )
        return Maximal(device)
    if device is not None:
        raise ParseError(
            f"only a maximal sharding has a 'device='; write 'devices=' in '{text}'", code=Code.SHARDING_TEXT
        )
    if kind:
        if tile or subgroups is not None:
            raise ParseError(
                f"'{kind}' goes without tile dims; leave out one or the other in '{text}'", code=Code.SHARDING_TEXT
            )
        return Whole(Role(kind))
    if tile is None:
        raise ParseError(
            f"expected 'devices=' in '{text}', which is not {', '.join(_KINDS[:-1])} or {_KINDS[-1]}",
            code=Code.SHARDING_TEXT,
        )
    if not isinstance(tile[1], Iota) and len(tile[1]) < 2:
        raise ParseError(
            f"a list of one device is not a tiling in '{text}'; write 'maximal device=' or '<=[1]'",
            code=Code.SHARDING_TEXT,
        )
    if tile == ((), Iota((1,), (0,))) and subgroups is None:
        return Whole(Role.REPLICATED)  # XLA's form for one device in subgroups only
    return Tiled(*tile, subgroups or ())


def _tile(cursor: HloCursor) -> tuple[tuple[int, ...], DeviceOrder]:
    dims = cursor.listed("[", "]", cursor.integer)
    if cursor.accept("<="):
        return dims, iota_at(cursor)
    ids = [cursor.integer()]
    while cursor.accept(","):
        ids.append(cursor.integer())
    return dims, tuple(ids)


def iota_at(cursor: HloCursor) -> Iota:
    """Read `[4,2]T(1,0)`."""
    dims = cursor.listed("[", "]", cursor.integer)
    if len(dims) < 2:
        if not dims or cursor.peek() == "T":
            raise cursor.error("expected one size and no 'T(..)', or several sizes and their order,")
        return Iota(dims, (0,))
    cursor.expect("T")
    return Iota(dims, cursor.listed("(", ")", cursor.integer))


def _role(cursor: HloCursor) -> Role:
    if cursor.peek() not in _SUBGROUPS:
        raise cursor.error("expected 'replicated', 'manual', 'unreduced' or 'maximal'")
    return Role(cursor.next())


def _print_ints(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def print_iota(iota: Iota) -> str:
    """`[4,2]T(1,0)`."""
    return f"[{_print_ints(iota.dims)}]" + (f"T({_print_ints(iota.perm)})" if len(iota.dims) > 1 else "")


def _print_unnamed(body: Body) -> str:
    match body:
        case Whole(role=role):
            return role.value
        case Maximal(device=device):
            return f"maximal device={device}"
        case Tiled(dims=dims, order=order, subgroups=subgroups):
            text = f"devices=[{_print_ints(dims)}]"
            text += f"<={print_iota(order)}" if isinstance(order, Iota) else _print_ints(order)
            if subgroups == (Role.REPLICATED,):
                return f"{text} last_tile_dim_replicate"
            return text + (f" last_tile_dims={{{', '.join(role.value for role in subgroups)}}}" if subgroups else "")
    raise TypeError(f"{type(body).__name__} is written by its own function")


# ---- metadata -------------------------------------------------------------------------------------


def _metadata(cursor: HloCursor) -> tuple[Metadata, ...]:
    cursor.expect("{")
    is_list = cursor.peek() == "{"
    cursor.index -= 1
    if is_list:
        return cursor.listed("{", "}", lambda: _one_metadata(cursor))
    return (_one_metadata(cursor),)


def _one_metadata(cursor: HloCursor) -> Metadata:
    fields: list[tuple[str, str]] = []
    cursor.expect("{")
    while not cursor.accept("}"):
        name = cursor.peek()
        if not re.fullmatch(r"\w+", name):
            raise cursor.error("expected the name of a metadata field")
        cursor.next()
        cursor.expect("=")
        fields.append((name, _raw_value(cursor)))
        cursor.accept(",")
    return Metadata(tuple(fields))


def _raw_value(cursor: HloCursor) -> str:
    """The text of a string, a word, a number, or anything in braces."""
    text, depth = "", 0
    while True:
        token = cursor.peek()
        if not token or (not depth and token in ("}", ",", "=")):
            raise cursor.error("expected the value of a metadata field")
        depth += (token == "{") - (token == "}")
        text += cursor.next()
        if not depth and token != "-":
            return text


def _print_metadata(metadata: Metadata) -> str:
    return "{" + " ".join(f"{name}={value}" for name, value in metadata.fields) + "}"


# ---- named axes -----------------------------------------------------------------------------------


def _named(cursor: HloCursor) -> HloSharding:
    if cursor.peek() in _ONE_DEVICE:
        cursor.next()
        for token in ("[", "device_id", "="):
            cursor.expect(token)
        body: Body = Maximal(cursor.integer(), is_named=True)
        cursor.expect("]")
    else:
        body = _named_body(cursor)
    metadata: tuple[Metadata, ...] = ()
    if cursor.accept(","):
        cursor.expect("metadata")
        cursor.expect("=")
        metadata = _metadata(cursor)
    cursor.expect("}")
    return HloSharding(body, None, metadata)


def _named_body(cursor: HloCursor) -> Named:
    mesh = Mesh(mesh_axes_at(cursor))
    order: DeviceOrder = device_order.identity(mesh.size)
    cursor.expect(",")
    if cursor.peek() == "device_ids":
        order = _value(cursor, lambda: device_ids_at(cursor))
        cursor.expect(",")
    word = cursor.peek()
    if word in _AXIS_LISTS:  # the short forms
        cursor.next()
        all_axes = mesh.all_axes() or tuple(mesh.axis(name) for name, _ in mesh.axes[:1])
        if word != "replicated" and not all_axes:
            raise ParseError(f"a mesh without axes cannot be {word}; name its axes", code=Code.SHARDING_TEXT)
        return Named(TensorSharding(mesh, (), **({word: all_axes} if word != "replicated" else {})), order)
    dims = cursor.listed("[", "]", lambda: dim_at(cursor, mesh))
    lists: dict[str, Axes] = {}
    while cursor.tokens[cursor.index + 1 :] and cursor.tokens[cursor.index + 1][0] != "metadata":
        if not cursor.accept(","):
            break
        word = cursor.peek()
        if word not in _AXIS_LISTS or word in lists:
            raise cursor.error("expected 'replicated', 'unreduced' or 'manual', each once,")
        lists[word] = _value(cursor, lambda: cursor.listed("{", "}", lambda: axis_at(cursor, mesh)))
    return Named(TensorSharding(mesh, dims, **lists), order)


def mesh_axes_at(cursor: HloCursor) -> tuple[tuple[str, int], ...]:
    """Read `mesh['a'=2,'b'=2]`."""
    cursor.expect("mesh")
    return cursor.listed("[", "]", lambda: _mesh_axis(cursor))


def print_mesh_axes(mesh: Mesh) -> str:
    """`mesh['a'=2,'b'=2]`."""
    return "mesh[" + ",".join(f"{_quote(name)}={size}" for name, size in mesh.axes) + "]"


def _mesh_axis(cursor: HloCursor) -> tuple[str, int]:
    name = cursor.string()
    cursor.expect("=")
    return name, cursor.integer()


def device_ids_at(cursor: HloCursor) -> DeviceOrder:
    """Read `([4,2]T(1,0))` or `(0,2,1,3)`."""
    cursor.expect("(")
    if cursor.peek() == "[":
        order: DeviceOrder = iota_at(cursor)
        cursor.expect(")")
        return order
    cursor.index -= 1
    return cursor.listed("(", ")", cursor.integer)


def _quote(name: str) -> str:
    return "'" + re.sub(r"(['\\])", r"\\\1", name) + "'"


def print_hlo_axis(axis: Axis, mesh: Mesh) -> str:
    """`'a'`, `'a':(1)2`."""
    return _quote(axis.name) + ("" if mesh.is_full(axis) else f":({axis.pre}){axis.size}")


def _print_dim(dim: DimSharding, mesh: Mesh) -> str:
    return "{" + ", ".join([print_hlo_axis(axis, mesh) for axis in dim.axes] + (["?"] if dim.is_open else [])) + "}"


def _print_named(named: Named) -> str:
    """The inside of the braces, without metadata."""
    sharding, order = named.sharding, named.order
    mesh = sharding.mesh
    parts = [print_mesh_axes(mesh)]
    if not isinstance(order, Iota):
        parts.append(f"device_ids=({_print_ints(order)})")
    elif not order.is_identity:
        parts.append(f"device_ids=({print_iota(order)})")
    lists = {word: axes for word, axes in zip(_AXIS_LISTS, _axis_lists(sharding), strict=True) if axes}
    if not sharding.dims and not lists:
        return ", ".join([*parts, "replicated"])
    if not sharding.dims and len(lists) == 1 and "replicated" not in lists:
        ((word, axes),) = lists.items()
        if canonical(axes) == mesh.all_axes():
            return ", ".join([*parts, word])
    parts.append("[" + ", ".join(_print_dim(dim, mesh) for dim in sharding.dims) + "]")
    for word, axes in lists.items():
        parts.append(f"{word}={{{', '.join(print_hlo_axis(axis, mesh) for axis in axes)}}}")
    return ", ".join(parts)


def _axis_lists(sharding: TensorSharding) -> tuple[Axes, ...]:
    return sharding.replicated, sharding.unreduced, sharding.manual

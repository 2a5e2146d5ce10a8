"""Shardy's text notation of meshes, shardings and sharding rules, read and written without loss.

The grammar is that of the `sdy` dialect: `<["x"=2, "y"=4]>`, `<@mesh, [{"x", ?}p1, {}],
replicated={"y"}, unreduced={"z":(1)2}>`. One extension: `manual={..}`, for values inside a manual computation, which
`sdy` keeps outside the sharding.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeVar

from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, ParseError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"\s*({_QUOTED}|@(?:{_QUOTED}|[\w.$-]+)|\w+|.)", re.DOTALL | re.ASCII)
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTER_ESCAPES = {b"n": b"\n", b"t": b"\t"}
_EMPTY = '""'
_NUMBER = re.compile(r"[0-9]{1,19}")
_OTHER_SUMMANDS = ("max", "min")  # unreduced values other than sums, since jaxlib 0.12
_PLAIN_SYMBOL = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)

_T = TypeVar("_T")

AxisMove = tuple[Axes, int, int]
"""Axes with the dimension from which they move and that to which they move."""


class Cursor:
    """The tokens of a notation, read one after the other. `pattern` captures a token in its group 1."""

    pattern: ClassVar[re.Pattern[str]] = _TOKEN

    def __init__(self, text: str) -> None:
        self.text = text
        matches = self.pattern.finditer(text.rstrip())
        self.tokens = [(match.group(1), match.start(1)) for match in matches if match.group(1)]
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index][0] if self.index < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.index += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.index += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected '{token}'")

    def error(self, message: str) -> ParseError:
        found = self.peek() or "end of text"
        column = self.tokens[self.index][1] if self.index < len(self.tokens) else len(self.text)
        text = self.text if len(self.text) <= 200 else f"..{self.text[max(column - 100, 0) : column + 100]}.."
        return ParseError(f"{message} but found '{found}' at offset {column} of '{text}'", code=Code.SHARDING_TEXT)

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.peek()
        if not (token.isascii() and token.isdigit() and len(token) < 20):
            raise self.error("expected a whole number")
        self.index += 1
        return -int(token) if negative else int(token)

    def string(self) -> str:
        if not re.fullmatch(_QUOTED, self.peek(), re.DOTALL):
            raise self.error("expected a quoted name")
        return unquote(self.next())

    def listed(self, first: str, last: str, item: Callable[[], _T]) -> tuple[_T, ...]:
        """Items between the brackets `first` and `last`, separated by commas."""
        self.expect(first)
        if self.accept(last):
            return ()
        items = [item()]
        while not self.accept(last):
            self.expect(",")
            items.append(item())
        return tuple(items)

    def end(self) -> None:
        if self.peek():
            raise self.error("expected the end")


def quote(name: str) -> str:
    """The name as an MLIR string, with the hex of UTF-8 bytes for characters that are not printable ASCII."""

    def byte(code: int) -> str:
        char = chr(code)
        return "\\\\" if char == "\\" else char if 32 <= code < 127 and char != '"' else f"\\{code:02X}"

    return '"' + "".join(map(byte, name.encode(errors="surrogateescape"))) + '"'


def unquote(token: str) -> str:
    """The content of an MLIR string with its quotes."""

    def char(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        return _LETTER_ESCAPES.get(match[2], match[2])

    content = token[1:-1].encode(errors="surrogateescape")
    return _ESCAPE.sub(char, content).decode(errors="surrogateescape")


def symbol(name: str) -> str:
    """A symbol reference in MLIR syntax."""
    return f"@{name}" if _PLAIN_SYMBOL.fullmatch(name) else f"@{quote(name)}"


# ---- meshes ---------------------------------------------------------------------------------------


def print_mesh(mesh: Mesh) -> str:
    """`<["x"=2, "y"=4], device_ids=[..]>`."""
    axes = ", ".join(f"{quote(name)}={size}" for name, size in mesh.axes)
    ids = f", device_ids=[{', '.join(map(str, mesh.device_ids))}]" if mesh.device_ids else ""
    return f"<[{axes}]{ids}>"


def print_mesh_definition(mesh: Mesh) -> str:
    """The declaration of a mesh in a module: `sdy.mesh @mesh = <["x"=2]>`."""
    return f"sdy.mesh {symbol(mesh.name)} = {print_mesh(mesh)}"


def _mesh(cursor: Cursor, name: str) -> Mesh:
    def axis() -> tuple[str, int]:
        axis_name = cursor.string()
        cursor.expect("=")
        return axis_name, cursor.integer()

    cursor.expect("<")
    axes = cursor.listed("[", "]", axis)
    ids: tuple[int, ...] = ()
    if cursor.accept(","):
        cursor.expect("device_ids")
        cursor.expect("=")
        ids = cursor.listed("[", "]", cursor.integer)
    cursor.expect(">")
    return Mesh(axes, ids, name)


def parse_mesh(text: str, name: str = "mesh") -> Mesh:
    """Read `<[..]>`, with or without the attribute's `#sdy.mesh` before it."""
    cursor = Cursor(text.removeprefix("#sdy.mesh"))
    mesh = _mesh(cursor, name)
    cursor.end()
    return mesh


# ---- axes -----------------------------------------------------------------------------------------


def print_axis(axis: Axis, mesh: Mesh) -> str:
    full = quote(axis.name)
    return full if mesh.is_full(axis) else f"{full}:({axis.pre}){axis.size}"


def print_axes(axes: Axes, mesh: Mesh) -> str:
    """`"x", "y":(1)2`, without braces."""
    return ", ".join(print_axis(axis, mesh) for axis in axes)


def axis_at(cursor: Cursor, mesh: Mesh) -> Axis:
    """Read an axis or a sub-axis of the mesh. Errors: as `Mesh.axis`, and for an improper part."""
    axis, is_part = any_axis_at(cursor, mesh)
    name = axis.name
    if is_part and (axis.size == 1 or mesh.is_full(axis)):
        raise AnnotationError(
            f'sub-axis "{name}":({axis.pre}){axis.size} is not a proper part of axis "{name}" of size '
            f"{mesh.axis_size(name)}; leave it out or write the axis",
            code=Code.AXIS_PART,
        )
    return axis


def any_axis_at(cursor: Cursor, mesh: Mesh) -> tuple[Axis, bool]:
    """Read an axis, and whether it has the form of a part `"y":(1)2`, proper or not. Errors: as `Mesh.axis`.

    The first number of a part is the product of the parts that are more major.
    """
    name = cursor.string()
    if not cursor.accept(":"):
        return mesh.axis(name), False
    cursor.expect("(")
    pre = cursor.integer()
    cursor.expect(")")
    return mesh.axis(name, pre, cursor.integer()), True


def print_axis_name(axis: Axis, mesh: Mesh) -> str:
    """An axis, or a part of one, in the notation of JAX specs: `x`, `x:(1)2`.

    JAX treats an empty name as no axis, so it is quoted.
    """
    name = axis.name or _EMPTY
    return name if mesh.is_full(axis) else f"{name}:({axis.pre}){axis.size}"


def parse_axis_name(name: str, mesh: Mesh) -> Axis:
    """Read `x` or `x:(1)2`; names of axes take precedence. Errors: as `Mesh.axis`."""
    known = [axis for axis, _ in mesh.axes]
    full, colon, part = name.rpartition(":(")
    if name in known or not colon:
        return mesh.axis("" if name == _EMPTY and name not in known else name)
    full = "" if full == _EMPTY and full not in known else full
    pre, _, size = part.partition(")")
    if not (_NUMBER.fullmatch(pre) and _NUMBER.fullmatch(size)):
        raise AnnotationError(f"'{name}' is not a part of an axis; write it as {full}:(1)2", code=Code.AXIS_PART)
    return mesh.axis(full, int(pre), int(size))


def _axis_list(cursor: Cursor, mesh: Mesh) -> Axes:
    return cursor.listed("{", "}", lambda: axis_at(cursor, mesh))


def parse_axes(text: str, mesh: Mesh) -> Axes:
    """Read `{"x", "y":(1)2}`."""
    cursor = Cursor(text)
    axes = _axis_list(cursor, mesh)
    cursor.end()
    return axes


def parse_bare_axes(text: str, mesh: Mesh) -> Axes:
    """Read `"x", "y":(1)2`, as `print_axes` writes it."""
    cursor = Cursor(text)
    axes = [axis_at(cursor, mesh)] if cursor.peek() else []
    while cursor.accept(","):
        axes.append(axis_at(cursor, mesh))
    cursor.end()
    return tuple(axes)


def print_axis_lists(lists: Iterable[Axes], mesh: Mesh) -> str:
    """Lists of axes, one per dimension: `[{"x"}, {}]`."""
    return "[" + ", ".join(f"{{{print_axes(axes, mesh)}}}" for axes in lists) + "]"


@functools.lru_cache(maxsize=4096)
def parse_axis_lists(text: str, mesh: Mesh) -> tuple[Axes, ...]:
    """Read `[{"x"}, {}]`."""
    cursor = Cursor(text)
    lists = cursor.listed("[", "]", lambda: _axis_list(cursor, mesh))
    cursor.end()
    return lists


def print_axis_moves(moves: Iterable[AxisMove], mesh: Mesh) -> str:
    """Axes that move from one dimension to another: `[{"x"}: 0->1]`."""
    return "[" + ", ".join(f"{{{print_axes(axes, mesh)}}}: {source}->{to}" for axes, source, to in moves) + "]"


def parse_axis_moves(text: str, mesh: Mesh) -> tuple[AxisMove, ...]:
    """Read `[{"x"}: 0->1]`."""
    cursor = Cursor(text)

    def move() -> AxisMove:
        axes = _axis_list(cursor, mesh)
        cursor.expect(":")
        source = cursor.integer()
        for token in "->":
            cursor.expect(token)
        return axes, source, cursor.integer()

    moves = cursor.listed("[", "]", move)
    cursor.end()
    return moves


def print_names(names: Iterable[str]) -> str:
    """The names of whole axes: `{"x", "y"}`."""
    return f"{{{', '.join(map(quote, names))}}}"


def parse_names(text: str) -> tuple[str, ...]:
    """Read `{"x", "y"}`, for any mesh."""
    cursor = Cursor(text)
    names = cursor.listed("{", "}", cursor.string)
    cursor.end()
    return names


# ---- shardings ------------------------------------------------------------------------------------


def print_dim(dim: DimSharding, mesh: Mesh) -> str:
    parts = [print_axis(axis, mesh) for axis in dim.axes] + (["?"] if dim.is_open else [])
    priority = "" if dim.priority is None else f"p{dim.priority}"
    return "{" + ", ".join(parts) + "}" + priority


def print_dims(sharding: TensorSharding) -> str:
    """Only the dimensions: `[{"x"}, {}]`."""
    return "[" + ", ".join(print_dim(dim, sharding.mesh) for dim in sharding.dims) + "]"


def print_sharding(sharding: TensorSharding) -> str:
    """`<@mesh, [{"x"}, {}], replicated={"y"}>`."""
    mesh = sharding.mesh
    parts = [symbol(mesh.name) if mesh.name else f"mesh{print_mesh(mesh)}", print_dims(sharding)]
    for word in ("replicated", "unreduced", "manual"):
        axes: Axes = getattr(sharding, word)
        if axes:
            parts.append(f"{word}={{{print_axes(axes, mesh)}}}")
    return f"<{', '.join(parts)}>"


def print_argument_sharding(sharding: TensorSharding) -> str:
    """The annotation of an argument: `sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>`."""
    return f"sdy.sharding = #sdy.sharding{print_sharding(sharding)}"


def print_constraint(value: str, sharding: TensorSharding) -> str:
    """The constraint on the value with that name: `sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]>`."""
    return f"sdy.sharding_constraint {value} {print_sharding(sharding)}"


def dim_at(cursor: Cursor, mesh: Mesh) -> DimSharding:
    """Read `{"x", ?}p1`."""
    items = cursor.listed("{", "}", lambda: None if cursor.accept("?") else axis_at(cursor, mesh))
    if None in items[:-1]:
        cursor.index -= 1
        raise cursor.error("'?' must be the last entry of a dimension,")
    priority = None
    if re.fullmatch(r"p(0|[1-9][0-9]{0,17})", cursor.peek()):
        priority = int(cursor.next()[1:])
    return DimSharding(tuple(axis for axis in items if axis), None in items, priority)


def _mesh_or_reference(cursor: Cursor, meshes: Mapping[str, Mesh]) -> Mesh:
    if cursor.accept("mesh"):
        return _mesh(cursor, "")
    token = cursor.peek()
    if len(token) < 2 or not token.startswith("@"):
        raise cursor.error("expected a mesh, as '@name' or 'mesh<..>',")
    cursor.next()
    name = unquote(token[1:]) if token.startswith('@"') else token[1:]
    if name not in meshes:
        known = ", ".join(f"'@{known}'" for known in meshes) or "none"
        raise ParseError(f"unknown mesh '@{name}'; the module's meshes are {known}", code=Code.MESH_UNKNOWN)
    return meshes[name]


def parse_sharding(text: str, meshes: Mapping[str, Mesh]) -> TensorSharding:
    """Read `<@mesh, [..]>`, with or without `#sdy.sharding` before it; `meshes` by symbol name."""
    cursor = Cursor(text.removeprefix("#sdy.sharding"))
    cursor.expect("<")
    mesh = _mesh_or_reference(cursor, meshes)
    cursor.expect(",")
    dims = cursor.listed("[", "]", lambda: dim_at(cursor, mesh))
    lists: dict[str, Axes] = {}
    while cursor.accept(","):
        word = cursor.next()
        if word not in ("replicated", "unreduced", "manual") or word in lists:
            cursor.index -= 1
            raise cursor.error("expected 'replicated', 'unreduced' or 'manual', each once,")
        cursor.expect("=")
        if word == "unreduced" and cursor.peek() in _OTHER_SUMMANDS:
            raise cursor.error("expected the axes of a sum, as nothing else is left unreduced,")
        lists[word] = _axis_list(cursor, mesh)
    cursor.expect(">")
    cursor.end()
    return TensorSharding(
        mesh,
        dims,
        lists.get("replicated", ()),
        lists.get("unreduced", ()),
        lists.get("manual", ()),
    )

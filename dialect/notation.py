"""Shardy's text notation of meshes, shardings and sharding rules, read and written without loss.

The grammar is that of the `sdy` dialect: `<["x"=2, "y"=4]>`, `<@mesh, [{"x", ?}p1, {}],
replicated={"y"}, unreduced={"z":(1)2}>`. One word is ours: `manual={..}`, for values inside a manual
computation, which `sdy` keeps outside the sharding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.errors import ParseError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(@(?:"(?:[^"\\]|\\.)*"|[\w.$-]+))|([\w]+)|(.))', re.DOTALL)
_PLAIN_SYMBOL = re.compile(r"[A-Za-z_][\w$.]*")


class Cursor:
    """The tokens of a notation, read one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            assert match is not None
            self.tokens.append((match.group().strip(), match.end() - len(match.group().strip())))
            position = match.end()
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
        return ParseError(f"{message} but found '{found}' at offset {column} of '{self.text}'")

    def integer(self) -> int:
        token = self.peek()
        negative = self.accept("-")
        token = self.peek()
        if not token.isdigit():
            raise self.error("expected a whole number")
        self.index += 1
        return -int(token) if negative else int(token)

    def string(self) -> str:
        token = self.peek()
        if not token.startswith('"'):
            raise self.error("expected a quoted name")
        self.index += 1
        return re.sub(r"\\(.)", r"\1", token[1:-1])

    def end(self) -> None:
        if self.peek():
            raise self.error("expected the end")


def quote(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def symbol(name: str) -> str:
    """A symbol reference as MLIR writes it."""
    return f"@{name}" if _PLAIN_SYMBOL.fullmatch(name) else f"@{quote(name)}"


# ---- meshes ---------------------------------------------------------------------------------------


def print_mesh(mesh: Mesh) -> str:
    """`<["x"=2, "y"=4], device_ids=[..]>`."""
    axes = ", ".join(f"{quote(name)}={size}" for name, size in mesh.axes)
    ids = f", device_ids=[{', '.join(map(str, mesh.device_ids))}]" if mesh.device_ids else ""
    return f"<[{axes}]{ids}>"


def _mesh(cursor: Cursor, name: str) -> Mesh:
    cursor.expect("<")
    cursor.expect("[")
    axes: list[tuple[str, int]] = []
    while not cursor.accept("]"):
        axis = cursor.string()
        cursor.expect("=")
        axes.append((axis, cursor.integer()))
        if cursor.peek() != "]":
            cursor.expect(",")
    ids: list[int] = []
    if cursor.accept(","):
        cursor.expect("device_ids")
        cursor.expect("=")
        cursor.expect("[")
        while not cursor.accept("]"):
            ids.append(cursor.integer())
            if cursor.peek() != "]":
                cursor.expect(",")
    cursor.expect(">")
    return Mesh(tuple(axes), tuple(ids), name)


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


def _axis(cursor: Cursor, mesh: Mesh) -> Axis:
    name = cursor.string()
    if not cursor.accept(":"):
        return mesh.axis(name)
    cursor.expect("(")
    pre = cursor.integer()
    cursor.expect(")")
    return mesh.axis(name, pre, cursor.integer())


def _axis_list(cursor: Cursor, mesh: Mesh) -> Axes:
    cursor.expect("{")
    axes: list[Axis] = []
    while not cursor.accept("}"):
        axes.append(_axis(cursor, mesh))
        if cursor.peek() != "}":
            cursor.expect(",")
    return tuple(axes)


def parse_axes(text: str, mesh: Mesh) -> Axes:
    """Read `{"x", "y":(1)2}`."""
    cursor = Cursor(text)
    axes = _axis_list(cursor, mesh)
    cursor.end()
    return axes


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


def _dim(cursor: Cursor, mesh: Mesh) -> DimSharding:
    cursor.expect("{")
    axes: list[Axis] = []
    is_open = False
    while not cursor.accept("}"):
        if cursor.accept("?"):
            is_open = True
            cursor.expect("}")
            break
        axes.append(_axis(cursor, mesh))
        if cursor.peek() != "}":
            cursor.expect(",")
    priority = None
    if re.fullmatch(r"p(0|[1-9]\d*)", cursor.peek()):
        priority = int(cursor.next()[1:])
    return DimSharding(tuple(axes), is_open, priority)


def _mesh_or_reference(cursor: Cursor, meshes: Mapping[str, Mesh]) -> Mesh:
    if cursor.accept("mesh"):
        return _mesh(cursor, "")
    token = cursor.next()
    if not token.startswith("@"):
        raise cursor.error("expected a mesh, as '@name' or 'mesh<..>',")
    name = token[1:].strip('"')
    if name not in meshes:
        known = ", ".join(f"'@{known}'" for known in meshes) or "none"
        raise ParseError(f"unknown mesh '@{name}'; the module's meshes are {known}")
    return meshes[name]


def parse_sharding(text: str, meshes: Mapping[str, Mesh]) -> TensorSharding:
    """Read `<@mesh, [..]>`, with or without `#sdy.sharding` before it; `meshes` by symbol name."""
    cursor = Cursor(text.removeprefix("#sdy.sharding"))
    cursor.expect("<")
    mesh = _mesh_or_reference(cursor, meshes)
    cursor.expect(",")
    cursor.expect("[")
    dims: list[DimSharding] = []
    while not cursor.accept("]"):
        dims.append(_dim(cursor, mesh))
        if cursor.peek() != "]":
            cursor.expect(",")
    lists: dict[str, Axes] = {}
    while cursor.accept(","):
        word = cursor.next()
        if word not in ("replicated", "unreduced", "manual") or word in lists:
            cursor.index -= 1
            raise cursor.error("expected 'replicated', 'unreduced' or 'manual', each once,")
        cursor.expect("=")
        lists[word] = _axis_list(cursor, mesh)
    cursor.expect(">")
    cursor.end()
    return TensorSharding(
        mesh,
        tuple(dims),
        lists.get("replicated", ()),
        lists.get("unreduced", ()),
        lists.get("manual", ()),
    )

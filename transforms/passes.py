"""What a pass is: a frozen dataclass whose fields are its options.

Command-line flags, help, documentation and pipeline text are all derived from the declaration.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, UsageError, shown
from gspmd.dialect.limits import MAX_COUNT
from gspmd.dialect.renaming import Renamed, by_old_name, warn_in_text
from gspmd.transforms.ir.operations import Operation

_SCALARS: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "string"}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_PLAIN_VALUE = re.compile(r"[^\s{}()'\"]+")


def option(default: Any, help: str, least: int = 0, most: int = MAX_COUNT, renamed: tuple[Renamed, ...] = ()) -> Any:
    """A field of a pass: an option of type bool, int, float, str or tuple[str, ...], with its help text.

    Numbers are from `least` to `most`; entries of a tuple are not empty. `renamed` has its old names, as written in
    pipelines.
    """
    metadata = {"help": help, "least": least, "most": most, "renamed": renamed}
    return dataclasses.field(default=default, metadata=metadata)


def same_option(declaration: type[Pass], field: str) -> Any:
    """A field like one of another pass, for a pass that hands it on."""
    found = next(each for each in dataclasses.fields(declaration) if each.name == field)
    return dataclasses.field(default=found.default, metadata=found.metadata)


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition:
    """A property of modules that a pass needs, and that the pass named `left_by` establishes.

    `check` raises an Error for a module without it, with a location if there is one; the hint is to run that pass.
    """

    left_by: str
    check: Callable[[Operation], None]

    def __call__(self, module: Operation) -> None:
        try:
            self.check(module)
        except Error as error:
            error.hint = f"run {self.left_by} first"
            raise


@dataclasses.dataclass(frozen=True)
class Pass:
    """One transformation of a module, in place.

    Subclasses are frozen dataclasses that set `argument` (the name in pipelines, e.g. `gspmd-propagate`)
    and `summary` (one line of help), declare options with `option`, and implement `run`. `details` are further lines
    of help. `needs` is what has to hold of a module before: the pass manager checks it in the order given. `renamed`
    has the old names of the pass.
    """

    argument: ClassVar[str]
    summary: ClassVar[str]
    details: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[Precondition, ...]] = ()
    renamed: ClassVar[tuple[Renamed, ...]] = ()

    @property
    def counts_layers(self) -> bool:
        """Whether what becomes of one layer of a program depends on how many there are, as where bytes are limited."""
        return False

    def run(self, module: Operation) -> None:
        """Transform `module` in place. Raises `gspmd.dialect.errors.Error` on what it refuses."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The pass as pipeline text, e.g. `gspmd-propagate{max-rounds=8}`; options at their default are left out."""
        texts = []
        for opt in options_of(type(self)):
            value = getattr(self, opt.field)
            if value != opt.default:
                texts.append(f"{opt.name}={opt.print(value)}")
        return f"{self.argument}{{{' '.join(texts)}}}" if texts else self.argument


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """An option of a pass, read off its dataclass field. `optional`: the value may be None, written as ''."""

    name: str  # as written in pipelines: max-rounds
    field: str  # as written in Python: max_rounds
    type: type  # bool, int, float, str, or tuple for a comma-separated list of strings
    optional: bool
    default: Any
    help: str
    least: int = 0
    most: int = MAX_COUNT
    renamed: tuple[Renamed, ...] = ()

    @property
    def type_name(self) -> str:
        return _SCALARS.get(self.type, "string,string,...")

    def parse(self, text: str, owner: str) -> Any:
        """The value that `text` stands for. Raises UsageError naming the pass `owner`."""
        if self.optional and text == "":
            return None
        try:
            if self.type is bool:
                return _BOOLEANS[text.lower()]
            if self.type is tuple:
                return self._within(tuple(split_list(text)) if text else (), owner)
            value = self.type(text)
        except (KeyError, ValueError):
            raise UsageError(
                f"option '{self.name}' of pass '{owner}' has value '{text}'",
                hint=f"give a value of type {self.type_name}",
                code=Code.BAD_VALUE,
            ) from None
        return self._within(value, owner)

    def _within(self, value: Any, owner: str) -> Any:
        """The value, if it is one that the declaration allows."""
        subject = f"option '{self.name}' of pass '{owner}'"
        if self.type in (int, float) and not self.least <= value <= self.most:
            allowed = f"at least {self.least}" if self.most == MAX_COUNT else f"{self.least} to {self.most}"
            raise UsageError(f"{subject} is {value}, expected {allowed}", hint="give such a number")
        if self.type is tuple and not all(value):
            raise UsageError(f"{subject} has an empty entry", hint="write entries as x,y")
        return value

    def checked(self, value: Any, owner: str) -> Any:
        """A value given in Python, of the option's type, or a list for a tuple. Raises UsageError naming `owner`."""
        if self.optional and value is None:
            return None
        if self.type is tuple and isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
            return self._within(tuple(value), owner)
        allowed = (int, float) if self.type is float else self.type
        if isinstance(value, allowed) and self.type is not tuple and (self.type is bool) == isinstance(value, bool):
            return self._within(value, owner)
        raise UsageError(
            f"option '{self.name}' of pass '{owner}' has value {shown(value)}",
            hint=f"give a value of type {self.type_name}",
            code=Code.BAD_VALUE,
        )

    def print(self, value: Any) -> str:
        """Text that `parse` reads back, quoted where pipeline text needs it."""
        if value is None:
            text = ""
        elif self.type is bool:
            text = str(value).lower()
        else:
            text = ",".join(value) if self.type is tuple else str(value)
        if _PLAIN_VALUE.fullmatch(text):
            return text
        return f'"{text}"' if '"' not in text else f"'{text}'"


def split_list(text: str) -> list[str]:
    """The parts of a text between its commas, but for those inside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


_known_options: dict[type[Pass], tuple[Option, ...]] = {}


def options_of(declaration: type[Pass]) -> tuple[Option, ...]:
    """The options that a pass class declares, in order. Raises TypeError for a field of another type."""
    if declaration not in _known_options:
        _known_options[declaration] = _read_options(declaration)
    return _known_options[declaration]


def _read_options(declaration: type[Pass]) -> tuple[Option, ...]:
    hints = typing.get_type_hints(declaration)
    options = []
    for field in dataclasses.fields(declaration):
        hint, optional = hints[field.name], False
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
            hint, optional = inner[0], len(inner) == 1
        base = typing.get_origin(hint) or hint
        if base is not tuple and base not in _SCALARS:
            raise TypeError(f"option '{field.name}' of {declaration.__name__} has type {hint}, which has no text form")
        name = field.name.replace("_", "-")
        options.append(Option(name, field.name, base, optional, field.default, **field.metadata))
    return tuple(options)


def make_pass(declaration: type[Pass], texts: Iterable[tuple[str, str]]) -> Pass:
    """A pass with options given as (name, text) pairs, the name in kebab-case. Raises UsageError."""
    return declaration(**parse_options(declaration.argument, options_of(declaration), texts))


def parse_options(owner: str, options: Iterable[Option], texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Values by field name from (name, text) pairs given to the pass or pipeline `owner`. Raises UsageError."""
    known = {option.name: option for option in options}
    values: dict[str, Any] = {}
    for given, text in texts:
        name = current_name(owner, known.values(), given)
        if name not in known:
            raise unknown_option(owner, name, known)
        if known[name].field in values:
            raise UsageError(f"option '{name}' of pass '{owner}' is given twice", hint="give it once")
        values[known[name].field] = known[name].parse(text, owner)
    return values


def current_name(owner: str, options: Iterable[Option], name: str) -> str:
    """What an option of `owner` that is given as `name` is called now; an old name is warned of."""
    found = by_old_name({option.name: option.renamed for option in options}).get(name)
    if found is None:
        return name
    new, renamed = found
    warn_in_text(renamed, f"option of pass '{owner}'", new)
    return new


def select_options(declaration: type[Pass], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `options` (by field name) that this pass declares."""
    return {opt.field: options[opt.field] for opt in options_of(declaration) if opt.field in options}


def unknown_option(owner: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an option that a pass does not have."""
    names = sorted(known)
    if not names:
        return UsageError(f"pass '{owner}' has no option '{name}'", hint="it has no options", code=Code.UNKNOWN_PASS)
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {_either(near)}?" if near else f"it has {', '.join(repr(n) for n in names)}"
    return UsageError(f"pass '{owner}' has no option '{name}'", hint=hint, code=Code.UNKNOWN_PASS)


def unknown_pass(name: str, known: Iterable[str], advice: str = "see gspmd-opt --list-passes") -> UsageError:
    """The error for a pass that neither we nor MLIR know, naming near misses."""
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return UsageError(
        f"unknown pass '{name}'", hint=f"did you mean {_either(near)}?" if near else advice, code=Code.UNKNOWN_PASS
    )


def _either(names: Iterable[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)

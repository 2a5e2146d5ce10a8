"""The text of pass pipelines: `builtin.module(gspmd-propagate{max-rounds=8},func.func(canonicalize))`.

Grammar, as in MLIR: a pipeline is elements separated by commas; an element is a pass `name{options}`, or an
operation's name with the pipeline to run on it in parentheses. Options are `key=value` or `key`, separated by spaces;
a value may be quoted, or braces may enclose it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import MAX_REGION_DEPTH

_NAME = re.compile(r"[\w.-]+")
_OPTION_KEY = re.compile(r"[\w-]+")
_ADVICE = "write a pipeline as builtin.module(pass,pass{option=value},func.func(pass))"


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """A pass with the text of its options, or, if `children` is not None, an operation with the pipeline in it."""

    name: str
    options: str = ""
    children: tuple[Element, ...] | None = None

    def __str__(self) -> str:
        if self.children is not None:
            return f"{self.name}({print_elements(self.children)})"
        return f"{self.name}{{{self.options}}}" if self.options else self.name

    def passes(self) -> Iterator[Element]:
        """The passes in it, in order."""
        if self.children is None:
            yield self
        for child in self.children or ():
            yield from child.passes()


def print_elements(elements: tuple[Element, ...]) -> str:
    return ",".join(map(str, elements))


def parse_pipeline(text: str) -> tuple[Element, ...]:
    """The elements to run on the module; an enclosing `builtin.module(...)` is taken off. Raises UsageError."""
    scanner = _Scanner(text)
    elements = scanner.elements()
    scanner.expect_end()
    if len(elements) == 1 and elements[0].name == "builtin.module" and elements[0].children is not None:
        return elements[0].children
    return elements


def parse_option_texts(text: str) -> tuple[tuple[str, str], ...]:
    """The (key, value) pairs of an option text; a key alone has the value `true`. Raises UsageError."""
    scanner = _Scanner(text)
    pairs = []
    scanner.skip_spaces()
    while not scanner.at_end():
        key = scanner.take(_OPTION_KEY, "an option's name")
        pairs.append((key, scanner.value() if scanner.accept("=") else "true"))
        scanner.skip_spaces()
    return tuple(pairs)


class _Scanner:
    """A position in a text, and what can be read from there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def elements(self, depth: int = 0) -> tuple[Element, ...]:
        if depth > MAX_REGION_DEPTH:
            raise self._error(f"pipelines nest deeper than {MAX_REGION_DEPTH}")
        found = []
        self.skip_spaces()
        if self.at_end() or self._text[self._at] == ")":
            return ()
        while True:
            found.append(self._element(depth))
            self.skip_spaces()
            if not self.accept(","):
                return tuple(found)
            self.skip_spaces()

    def _element(self, depth: int) -> Element:
        name = self.take(_NAME, "a pass")
        if self.accept("("):
            children = self.elements(depth + 1)
            if not self.accept(")"):
                raise self._error("expected ',' or ')'")
            return Element(name, children=children)
        if not self.accept("{"):
            return Element(name)
        self._at -= 1
        return Element(name, self._braced().strip())

    def value(self) -> str:
        """An option's value: up to a space, quoted, or in braces; quotes and braces around it are taken off."""
        if self.at_end():
            return ""
        first = self._text[self._at]
        if first == "{":
            return self._braced()
        if first in "\"'":
            return self._quoted()[1:-1]
        match = re.compile(r"[^\s{}]*").match(self._text, self._at)
        assert match is not None  # the pattern matches nothing, too
        self._at = match.end()
        return match[0]

    def _braced(self) -> str:
        start, depth = self._at, 0
        while not self.at_end():
            char = self._text[self._at]
            if char in "\"'":
                self._quoted()
                continue
            depth += (char == "{") - (char == "}")
            self._at += 1
            if not depth:
                return self._text[start + 1 : self._at - 1]
        self._at = start
        raise self._error("'{' is never closed")

    def _quoted(self) -> str:
        end = self._text.find(self._text[self._at], self._at + 1)
        if end < 0:
            raise self._error("a quote is never closed")
        start, self._at = self._at, end + 1
        return self._text[start : self._at]

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._error(f"expected {what}")
        self._at = match.end()
        return match[0]

    def accept(self, char: str) -> bool:
        found = self._text.startswith(char, self._at)
        self._at += found
        return found

    def skip_spaces(self) -> None:
        while not self.at_end() and self._text[self._at].isspace():
            self._at += 1

    def at_end(self) -> bool:
        return self._at == len(self._text)

    def expect_end(self) -> None:
        self.skip_spaces()
        if not self.at_end():
            raise self._error("expected ',' or the end")

    def _error(self, problem: str) -> UsageError:
        found = f"'{self._text[self._at]}'" if not self.at_end() else "the end"
        return UsageError(
            f"in '{self._text}', column {self._at + 1}: {problem}, found {found}", hint=_ADVICE, code=Code.PIPELINE_TEXT
        )

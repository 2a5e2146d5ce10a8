"""A failing case made smaller, as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hostile.case import Case
from hostile.mutations import words_of

Fails = Callable[[Case], bool]
T = TypeVar("T")


class Reduction:
    """Tries smaller cases, for so long at most."""

    def __init__(self, fails: Fails, seconds: float, tries: int) -> None:
        self._fails = fails
        self._end = time.perf_counter() + seconds
        self._tries = tries

    def reduced(self, case: Case) -> Case:
        """The smallest case that was found."""
        while (smaller := next((c for c in _less_around(case) if self._takes(c)), None)) is not None:
            case = smaller
        if case.expects or case.place:  # what the program says has no part in it
            return case
        for name, data in case.files:
            case = self._of_data(case, data, name)
        if case.stdin:
            case = self._of_data(case, case.stdin, "")
        for index, word in enumerate(case.words):
            if len(word) > 8 and not word.startswith("{") and "." not in case.command:
                case = self._of_word(case, index)
        return case

    def _takes(self, case: Case) -> bool:
        if self._tries <= 0 or time.perf_counter() > self._end:
            return False
        self._tries -= 1
        return self._fails(case)

    def _of_data(self, case: Case, data: bytes, name: str) -> Case:
        def put(parts: Sequence[bytes]) -> Case:
            new = b"".join(parts)
            return case.with_file(name, new) if name else dataclasses.replace(case, stdin=new)

        try:
            text = data.decode()
        except UnicodeDecodeError:
            return put(
                self._shortest([data[i : i + 1] for i in range(len(data))], lambda parts: self._takes(put(parts)))
            )
        if "\0" in text:
            return put(
                self._shortest([data[i : i + 1] for i in range(len(data))], lambda parts: self._takes(put(parts)))
            )
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        lines = self._shortest(lines, lambda parts: self._takes(put(parts)))
        words = [word.encode() for word in words_of(b"".join(lines).decode())]
        words = self._shortest(words, lambda parts: self._takes(put(parts)))
        for index, word in enumerate(words):
            if len(word) > 300:
                letters = [word[i : i + 1] for i in range(len(word))]
                before, after = words[:index], words[index + 1 :]
                kept = self._shortest(letters, lambda p, b=before, a=after: self._takes(put([*b, *p, *a])))  # type: ignore[misc]
                words[index] = b"".join(kept)
        return put(words)

    def _of_word(self, case: Case, index: int) -> Case:
        def put(parts: Sequence[str]) -> Case:
            return dataclasses.replace(case, words=(*case.words[:index], "".join(parts), *case.words[index + 1 :]))

        return put(self._shortest(words_of(case.words[index]), lambda parts: self._takes(put(parts))))

    def _shortest(self, parts: list[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
        """Delta debugging: leave out ever smaller pieces."""
        size = max(1, len(parts) // 2)
        while parts and self._tries > 0 and time.perf_counter() < self._end:
            start, shorter = 0, False
            while start < len(parts):
                without = parts[:start] + parts[start + size :]
                if len(without) < len(parts) and fails(without):
                    parts, shorter = without, True
                else:
                    start += size
                if self._tries <= 0:
                    break
            if size == 1 and not shorter:
                break
            size = size if shorter and size == 1 else max(1, size // 2)
        return parts


def _less_around(case: Case) -> Iterator[Case]:
    """Without an option, a variable, or the process of its own."""
    if case.environment:
        yield dataclasses.replace(case, environment=())
    if case.terminal == "a process":
        yield dataclasses.replace(case, terminal="")
    if case.place not in ("", "nothing") and not case.expects:
        yield dataclasses.replace(
            case,
            place="nothing",
            output="out.file",
            words=tuple("out.file" if w == case.output else w for w in case.words),
        )
    if "." in case.command or case.expects:
        return
    for index, word in enumerate(case.words):
        if word.startswith("-") and word not in ("-", "--", "-o"):
            rest = case.words[:index] + case.words[index + 1 :]
            yield dataclasses.replace(case, words=rest)
            if (
                index + 1 < len(case.words)
                and not case.words[index + 1].startswith("-")
                and case.words[index + 1] not in dict(case.files)
            ):
                yield dataclasses.replace(case, words=case.words[:index] + case.words[index + 2 :])

"""Changes of bytes and of words in a text that make a good input a hostile one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "65536", "1000000007", "2147483647", "2147483648", "4294967296",
    "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "18446744073709551616", "1000000000000000000000", "1e308", "-0.0",
    "0x7FC00000", "0xFFFFFFFFFFFFFFFFF", "1.5", "nan", "inf",
)  # fmt: skip
NAMES = (
    "", " ", "x{a", "}", "{", '\\"', "'", "\\0A", "\\00", "\\FF", "\\C3\\28", "a b", "x:y", "x=1", "@", "%", "#", "?",
    "é",
    "\u202e", "\U0001d54f", "\\1B[31m", "-", "--", "/", "..", "a" * 5000, "main", "mesh", "x",
    "[", "]", "<", ">", ",", "(1)2",
)  # fmt: skip
_DEPTHS = (2, 20, 200, 1000, 5000, 20_000, 100_000)
_WORD = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[A-Za-z_][\w.$-]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|->|\n|[ \t]+|.', re.DOTALL
)
_NUMBER = re.compile(r"-?\d")
_SPLIT_NUMBERS = re.compile(r"\d+")


# ---- bytes ----


def mutated_bytes(rng: Random, data: bytes, other: bytes) -> bytes:
    """The data with one change; `other` is what splices are taken from."""
    return rng.choice(_OF_BYTES)(rng, data, other)


def _flip(rng: Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: Random, data: bytes, other: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    value = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f"))
    return data[:place] + value + data[place + len(value) :]


def _insert(rng: Random, data: bytes, other: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.randbytes(rng.choice((1, 1, 2, 4, 16))) + data[place:]


def _delete(rng: Random, data: bytes, other: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[place + rng.choice((1, 1, 2, 4, 16, 64)) :]


def _truncate(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _double(rng: Random, data: bytes, other: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 4, 16, 64, 256))]
    return data[:start] + piece * rng.choice((2, 2, 3, 50)) + data[start + len(piece) :]


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


_OF_BYTES = (_flip, _flip, _flip, _overwrite, _overwrite, _insert, _delete, _truncate, _double, _splice)


# ---- words ----


def words_of(text: str) -> list[str]:
    """The words of a text: strings, names with their marks, numbers, white space and single characters."""
    return _WORD.findall(text)


def mutated_words(rng: Random, text: str, other: str) -> str:
    """The text with one change to its words or lines; `other` is what splices are taken from."""
    if rng.random() < 0.2:
        return _mutated_lines(rng, text, other)
    words = words_of(text)
    telling = [i for i, word in enumerate(words) if not word.isspace()]
    if not telling:
        return rng.choice(NAMES)
    place = rng.choice(telling)
    return "".join(rng.choice(_OF_WORDS)(rng, words, place, telling, other))


def _delete_word(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    return words[:place] + words[place + 1 :]


def _repeat_word(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    return words[:place] + [words[place]] * rng.choice((2, 2, 3, *_DEPTHS)) + words[place + 1 :]


def _repeat_piece(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    piece = words[place : place + rng.randint(2, 12)]
    return words[:place] + piece * rng.choice((2, 2, 3, 200)) + words[place + len(piece) :]


def _swap_words(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    second = rng.choice(telling)
    words[place], words[second] = words[second], words[place]
    return words


def _copy_word(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    """A word of the same kind from elsewhere in the text."""
    alike = [i for i in telling if _kind(words[i]) == _kind(words[place])]
    words[place] = words[rng.choice(alike)]
    return words


def _foreign_word(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    """A word of the same kind from another text."""
    alike = [word for word in words_of(other) if _kind(word) == _kind(words[place])]
    words[place] = rng.choice(alike or [""])
    return words


def _extreme_number(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    numbers = [i for i in telling if any(c.isdigit() for c in words[i])]
    if not numbers:
        return _foreign_word(rng, words, place, telling, other)
    place = rng.choice(numbers)
    if _NUMBER.match(words[place]):
        words[place] = rng.choice(NUMBERS)
        return words
    found = list(_SPLIT_NUMBERS.finditer(words[place]))  # x32xf32 and "{devices=[4,2]<=[8]}" hold numbers, too
    match = rng.choice(found)
    words[place] = words[place][: match.start()] + rng.choice(NUMBERS) + words[place][match.end() :]
    return words


def _odd_name(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    names = [i for i in telling if words[i][0] in '"@%#' or words[i][0].isalpha()]
    place = rng.choice(names or [place])
    mark = words[place][0] if words[place][0] in "@%#" else ""
    quoted = words[place][0] == '"' or (mark == "@" and rng.random() < 0.5)
    name = rng.choice(NAMES)
    words[place] = f'{mark}"{name}"' if quoted else mark + name
    return words


def _wrap(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    """Brackets around a word, deep."""
    left, right = rng.choice(
        ("[]", "()", "{}", "<>", ("tuple<", ">"), ("dense<[", "]>"), ("loc(", ")"), ("{a = ", "}"))
    )
    depth = rng.choice(_DEPTHS)
    closed = right * depth if rng.random() < 0.7 else ""
    return [*words[:place], left * depth, words[place], closed, *words[place + 1 :]]


def _swap_characters(rng: Random, words: list[str], place: int, telling: Sequence[int], other: str) -> list[str]:
    word = words[place]
    at = rng.randrange(len(word))
    change = rng.choice((word[at] * 2, "", chr(rng.randrange(1, 0x250)), rng.choice('"{}[]()<>,=%@#\\\0\n')))
    words[place] = word[:at] + change + word[at + 1 :]
    return words


_Change = Callable[[Random, list[str], int, Sequence[int], str], list[str]]
_OF_WORDS: tuple[_Change, ...] = (
    _delete_word, _delete_word, _repeat_word, _repeat_piece, _swap_words, _swap_words, _copy_word, _copy_word,
    _copy_word,
    _foreign_word, _foreign_word, _extreme_number, _extreme_number, _extreme_number, _odd_name, _odd_name, _wrap,
    _swap_characters,
)  # fmt: skip


def _kind(word: str) -> str:
    """What a word is, by its first character."""
    first = word[0]
    if _NUMBER.match(word):
        return "number"
    return first if first in '"%@#!^' else "name" if first.isalpha() or first == "_" else "mark"


def _mutated_lines(rng: Random, text: str, other: str) -> str:
    lines = text.split("\n")
    place, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0 | 1:
            del lines[place]
        case 2:
            lines.insert(second, lines[place])
        case 3:
            lines[place], lines[second] = lines[second], lines[place]
        case 4:
            foreign = other.split("\n")
            lines.insert(place, rng.choice(foreign))
        case _:
            del lines[place:]
    return "\n".join(lines)

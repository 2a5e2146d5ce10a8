"""Valid MLIR text that may crash or block the process that parses it or reads the result.

Numbers with very many digits take very long. The billionth result of an operation, or the billionth dimension of a
convolution, allocates memory for a billion. The printer crashes on complex elements of types that are not complex, and
the bindings crash on names that are not UTF-8 and on locations as attribute values. Strings as values may be any bytes.
"""

from __future__ import annotations

import re
import string

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError, SourceLocation
from gspmd.dialect.limits import MAX_DIGITS, MAX_RESULT_NUMBER
from gspmd.transforms.parsing.nesting import brackets_of, check_nesting, location_in

_ODD = re.compile(rb'dense\s*<[\[\s]*(?![\[\s\-+\w">\])])'), re.compile(rb"sparse\s*<")  # single patterns are faster
_COMPLEX = re.compile(rb"dense\s*<[^<>/]*>\s*:\s*(?:tensor|vector)\s*<[\d\sx?]*complex\s*<")
_HIGH = re.compile(rb"\\(?:00|[89A-Fa-f][0-9A-Fa-f])")
_STRING = re.compile(rb'//[^\n]*|"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")


def check_text(text: bytes, filename: str) -> None:
    """Raises ParseError, located, for MLIR text that could crash or block the process that parses it.

    The constructs of `first_oddity` are accepted, to be tried in another process.
    """
    check_nesting(text, filename)
    check_numbers(text, filename)
    _check_result_numbers(text, filename)
    _check_convolutions(text, filename)
    _check_names(text, filename)


def first_oddity(text: bytes) -> int | None:
    """The position of the first construct for which the text must be tried in another process."""
    places = (found.start() for odd in _ODD for found in odd.finditer(text))
    odd = next((place for place in places if not _COMPLEX.match(text, place)), None)
    return _location_as_value(text) if odd is None else odd


_ALIAS_OF_LOCATION = re.compile(rb"^#loc\d*\s*=\s*loc\s*\(", re.MULTILINE)  # MLIR's names
_OTHER_ALIAS = re.compile(rb"^[ \t]*#(?!loc\d*\b)[\w$.-]+\s*=\s*loc\b", re.MULTILINE)
_LOCATION_VALUE = re.compile(rb"[=\[,{]\s*loc\s*\(")
_ALIAS_VALUE = re.compile(rb"(?:[={]|(?<!fused)\[)\s*#loc\d*\b")


def _location_as_value(text: bytes) -> int | None:
    """The position at which a location may be an attribute value, which only parsing can confirm."""
    if b"loc" not in text:
        return None
    found = _OTHER_ALIAS.search(text) or _ALIAS_VALUE.search(text)
    if found is None and len(_LOCATION_VALUE.findall(text)) != len(_ALIAS_OF_LOCATION.findall(text)):
        found = _LOCATION_VALUE.search(text)
    return None if found is None else found.start()


_RESULT_NUMBER = re.compile(rb"%%[\w$.-]+[#:](\d{%d,})" % (len(str(MAX_RESULT_NUMBER)) + 1))


def _check_result_numbers(text: bytes, filename: str) -> None:
    """Raises ParseError, located, for result numbers for which MLIR would allocate too much memory."""
    found = _RESULT_NUMBER.search(text)
    if found is not None:
        what = (
            f"a value is called result {found[1].decode()} of its operation; at most {MAX_RESULT_NUMBER} are supported"
        )
        raise _too_much(what, "use a result that the operation has", location_in(text, found.start(), filename))


_CONVOLUTION = re.compile(rb"(?:\bconv<|\bdim_numbers\s*=)(?:[\s\w?,\[\]>-]|//[^\n]*)*")
_LARGE = re.compile(rb"\b(?:0x0*[0-9A-Fa-f]{4,}|0*[1-9]\d{3,})\b")


def _check_convolutions(text: bytes, filename: str) -> None:
    """Raises ParseError, located, for a convolution dimension beyond all ranks."""
    if b"conv<" not in text and b"dim_numbers" not in text:
        return
    for convolution in _CONVOLUTION.finditer(text):
        found = _LARGE.search(text, convolution.start(), convolution.end())
        if found is not None:
            what = f"a convolution has dimension {found[0].decode()[:40]}"
            raise _too_much(what, "spatial dimensions are numbered from 0", location_in(text, found.start(), filename))


_DIGITS = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|([0-9A-Fa-f]{%d,})' % (MAX_DIGITS + 1))
_DIGITS_ALIKE = bytes(ord("0") if chr(code) in string.hexdigits else code for code in range(256))
_TOO_MANY = b"0" * (MAX_DIGITS + 1)


def check_numbers(text: bytes, filename: str) -> None:
    """Raises ParseError, located, for a number with too many digits outside of strings."""
    if _TOO_MANY not in text.translate(_DIGITS_ALIKE):
        return
    for match in _DIGITS.finditer(text):
        if match[1] is not None:
            what = f"a number of {len(match[1])} digits; at most {MAX_DIGITS} are supported"
            raise _too_much(what, "write it shorter", location_in(text, match.start(), filename))


def _too_much(what: str, hint: str, location: SourceLocation) -> ParseError:
    return ParseError(what, hint=hint, location=location, code=Code.LIMIT)


def _check_names(text: bytes, filename: str) -> None:
    """Raises ParseError, located, for a name that is not UTF-8, and for an attribute name with a NUL."""
    if not _HIGH.search(text):
        return
    found = None
    for match in _STRING.finditer(text):
        read = _ESCAPE.sub(_unescaped, match[1] or b"")
        is_utf8 = _is_utf8(read)
        if is_utf8 and b"\0" not in read:
            continue
        found = found or brackets_of(text)
        before = text[: match.start()].rstrip()[-1:]
        after = text[match.end() : match.end() + 100].lstrip()[:1]
        within = text[place : place + 1] if (place := found.enclosing(match.start())) is not None else b"{"
        if is_utf8:  # only attribute names must not have a NUL
            refused = after == b"=" and within == b"{"
        else:
            refused = before == b"@" or after in (b"=", b"(") or (before != b"=" and within == b"{")
        if refused:
            raise ParseError(
                f"name {match[0].decode(errors='backslashreplace')} {'has a NUL in it' if is_utf8 else 'is not UTF-8'}",
                hint="names are read as UTF-8, of attributes up to a NUL; strings that are values may be anything",
                location=location_in(text, match.start(), filename),
            )


def _unescaped(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)]) if len(escape[1]) == 2 else b"."


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True

"""The text of sharding rules: `([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}`, as in Shardy.

`parse_rule` is the inverse of `print_rule` in `dialect/rule.py`. Sizes are optional if shapes are known, and kinds may
be separated by commas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.rule import (
    NEED_REPLICATION,
    PASS_THROUGH,
    PERMUTATION,
    REDUCTION,
    FactorKind,
    Mapping,
    OpShardingRule,
)

Shapes = Sequence[tuple[int, ...]]
_HINT = "write it as ([i, j], [j, k])->([i, k]) reduction={j}"
_FIT = "make the factors of each dimension multiply to its size"
_SYMBOL = r"[a-z](?:_[0-9]{1,18})?"
_TENSOR = r"\[[\w\s,]*\]"
_TENSORS = rf"\(\s*((?:{_TENSOR}(?:\s*,\s*{_TENSOR})*)?)\s*\)"
_RULE = re.compile(rf"\s*{_TENSORS}\s*->\s*{_TENSORS}\s*(?:\{{([^}}]*)\}})?(.*)", re.DOTALL)
_SIZE = re.compile(rf"\s*({_SYMBOL})\s*=\s*([0-9]{{1,19}})\s*")
_KIND = re.compile(r"\s*,?\s*(reduction|need_replication|permutation|blocked_propagation)\s*=\s*\{([^}]*)\}")
_KINDS = {"reduction": REDUCTION, "need_replication": NEED_REPLICATION, "permutation": PERMUTATION}
_ATTRIBUTE = re.compile(r"\s*#sdy\.op_sharding_rule<(.*)>\s*", re.DOTALL)

# The factor symbols of a tensor, by dimension.
_Symbols = list[list[str]]


def parse_rule(text: str, operands: Shapes | None = None, results: Shapes | None = None) -> OpShardingRule:
    """The rule, with factors in the order of their sizes, or of their symbols without sizes.

    With shapes, the rule is checked against them, and sizes may be missing. Raises AnnotationError with the reason.
    """
    text, tensors, sizes, (kinds, blocked) = _read(text)
    flat = [tensor for side in tensors for tensor in side]
    symbols = {symbol for tensor in flat for dim in tensor for symbol in dim}
    if operands is not None and results is not None:
        _check_tensors(text, tensors, (operands, results))
        sizes = _inferred(text, flat, [*operands, *results], sizes)
    if sizes is None:
        raise _error(text, "it has no sizes of factors", "add them as {i=8, j=16}")
    for symbol in sorted(symbols - sizes.keys()) + sorted({*kinds, *blocked, *sizes} - symbols):
        raise _error(text, f"factor {symbol} has no size" if symbol in symbols else f"factor {symbol} is used nowhere")
    number = {symbol: index for index, symbol in enumerate(sizes)}

    def mappings(side: list[_Symbols]) -> tuple[Mapping, ...]:
        return tuple(tuple(tuple(number[s] for s in dim) for dim in tensor) for tensor in side)

    try:
        return OpShardingRule(
            tuple(sizes.values()),
            mappings(tensors[0]),
            mappings(tensors[1]),
            tuple(kinds.get(symbol, PASS_THROUGH) for symbol in sizes),
            blocked=frozenset(number[symbol] for symbol in blocked),
        )
    except AnnotationError as error:
        raise _error(text, error.message.removesuffix(" of the rule").removesuffix(" in the rule")) from None


def check_rule(text: str) -> None:
    """Raise AnnotationError for a text that is not a rule for any shapes."""
    text, tensors, _, (kinds, blocked) = _read(text)
    used = {symbol for side in tensors for tensor in side for dim in tensor for symbol in dim}
    for symbol in sorted({*kinds, *blocked} - used):
        raise _error(text, f"factor {symbol} is used nowhere")


def _read(
    text: str,
) -> tuple[str, list[list[_Symbols]], dict[str, int] | None, tuple[dict[str, FactorKind], list[str]]]:
    """The tensors, sizes if there are any, and kinds of factors in the text."""
    attribute = _ATTRIBUTE.fullmatch(text)
    text = attribute[1] if attribute else text
    match = _RULE.fullmatch(text)
    if match is None:
        raise _error(text, "it is not of the form (operands)->(results)")
    tensors = [[_tensor(text, t) for t in re.findall(_TENSOR, match[side])] for side in (1, 2)]
    return text, tensors, None if match[3] is None else _sizes(text, match[3]), _kinds(text, match[4])


def _error(text: str, reason: str, hint: str = _HINT) -> AnnotationError:
    return AnnotationError(f"sharding rule '{' '.join(text.split())}' is wrong: {reason}", hint=hint, code=Code.RULE)


def _tensor(text: str, part: str) -> _Symbols:
    inner = part[1:-1].strip()
    dims = [dim.strip() for dim in inner.split(",")] if inner else []
    for dim in dims:
        if not re.fullmatch(rf"({_SYMBOL})+", dim):
            raise _error(text, f"'{dim}' is not a list of factors such as i or ij")
    return [re.findall(_SYMBOL, dim) for dim in dims]


def _sizes(text: str, part: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for item in part.split(",") if part.strip() else []:
        match = _SIZE.fullmatch(item)
        if match is None or match[1] in sizes:
            raise _error(text, f"'{item.strip()}' is not a size, or is a second size of a factor")
        sizes[match[1]] = int(match[2])
    return sizes


def _kinds(text: str, part: str) -> tuple[dict[str, FactorKind], list[str]]:
    """The kinds of factors other than pass-through, and the blocked factors."""
    kinds: dict[str, FactorKind] = {}
    blocked: list[str] = []
    rest = re.sub(r"\s*,?\s*custom\s*$", "", part)
    while rest.strip():
        match = _KIND.match(rest)
        if match is None:
            raise _error(text, f"'{rest.strip(' ,')}' is not a kind of factors")
        for symbol in (symbol.strip() for symbol in match[2].split(",")):
            if match[1] == "blocked_propagation":
                blocked.append(symbol)
            elif kinds.setdefault(symbol, _KINDS[match[1]]) is not _KINDS[match[1]]:
                raise _error(text, f"factor {symbol} has two kinds")
        rest = rest[match.end() :]
    return kinds, blocked


def _check_tensors(text: str, tensors: list[list[_Symbols]], shapes: tuple[Shapes, Shapes]) -> None:
    for name, side, expected in zip(("operand", "result"), tensors, shapes, strict=True):
        if len(side) != len(expected):
            raise _error(text, f"it has {len(side)} {name}s, expected {len(expected)}")
        for index, (tensor, shape) in enumerate(zip(side, expected, strict=True)):
            if len(tensor) != len(shape):
                raise _error(text, f"{name} {index} has rank {len(tensor)}, expected {len(shape)}")


def _inferred(text: str, tensors: list[_Symbols], shapes: Shapes, given: dict[str, int] | None) -> dict[str, int]:
    """The sizes of all factors; given ones are checked against the shapes."""
    sizes = dict(given or {})
    dims = [pair for tensor, shape in zip(tensors, shapes, strict=True) for pair in zip(tensor, shape, strict=True)]
    pending = True
    while pending:
        pending = False
        for symbols, size in dims:
            unknown = [s for s in symbols if s not in sizes]
            known = math.prod(sizes[s] for s in symbols if s in sizes)
            if len(unknown) == 1 and known and size % known == 0:
                sizes[unknown[0]] = size // known
                pending = True
    for symbols, size in dims:
        for symbol in symbols:
            if symbol not in sizes:
                raise _error(text, f"the size of factor {symbol} does not follow from the shapes", "add it as {i=8}")
        covered = math.prod(sizes[s] for s in symbols)
        if covered != size:
            made = covered if covered < 1 << 63 else "more"  # this may have more digits than Python prints
            raise _error(text, f"factors {''.join(symbols):.80} make {made} elements of a dimension of {size}", _FIT)
    order = given or sorted(sizes, key=_symbol_order)
    return {symbol: sizes[symbol] for symbol in [*order, *(s for s in sizes if s not in order)]}


def _symbol_order(symbol: str) -> tuple[str, int]:
    letter, _, number = symbol.partition("_")
    return letter, int(number or 0)

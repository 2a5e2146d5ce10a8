"""Error codes for the messages of MLIR's parsers and verifiers."""

from __future__ import annotations

import re

from gspmd.dialect.error_codes import Code

_MESSAGES = [
    (re.compile(pattern), code)
    for pattern, code in (
        (r"unknown axis name", Code.AXIS_UNKNOWN),
        (r"duplicate axis ref", Code.AXIS_TWICE),
        (r"already bound by a parent|manual[ _](axes|computation)", Code.MANUAL),
        (r"sub-axis|sub-axes", Code.AXIS_PART),
        (r"sharding doesn't match tensor rank|shardings don't match number", Code.RANK),
        (r"unknown mesh", Code.MESH_UNKNOWN),
        (r"device ids|device_ids|axis size|duplicate axis name", Code.MESH),
        (r"sharding rule", Code.RULE),
        (r"sharding_group", Code.GROUP),
    )
]


def code_of(message: str) -> Code | None:
    """The code of a message about annotations; None for others."""
    return next((code for pattern, code in _MESSAGES if pattern.search(message)), None)


def code_of_invalid(message: str) -> Code:
    """The code of a message about text: an invalid operation, or a syntax error."""
    known = code_of(message)
    if known is not None:
        return known
    return Code.INVALID_OPERATION if re.match(r"'[\w.]+' op ", message) else Code.SYNTAX

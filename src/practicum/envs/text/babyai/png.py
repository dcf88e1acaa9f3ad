"""Pictures as PNG files, with nothing but the standard library.

Equal pixels give equal bytes with the same zlib. That is why no imaging library writes
them: its next release may filter or compress in another way.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVEL = 6
_EIGHT_BIT_RGB = (8, 2, 0, 0, 0)


def encode_png(pixels_H_W_3: Any) -> bytes:
    """Encode an array of bytes, rows by columns by red, green, blue."""
    height, width, _ = pixels_H_W_3.shape
    header = struct.pack(">IIBBBBB", width, height, *_EIGHT_BIT_RGB)
    rows = b"".join(b"\x00" + row.tobytes() for row in pixels_H_W_3)
    body = zlib.compress(rows, _LEVEL)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)

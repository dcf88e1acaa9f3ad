"""Pictures of the screen, read from the file that the X server draws into.

The file is read, never mapped: a mapping would end this process if the file were cut short.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from practicum.core.errors import MachineError
from practicum.core.message import Image
from practicum.desktops.computer import PictureFormat, Screen

if TYPE_CHECKING:
    from PIL import Image as PillowImage

JPEG_QUALITY = 85
_HEADER = struct.Struct(">25I")
_PNG_EFFORT = 1  # a third of the time of the default for a tenth more bytes

Frame = NDArray[np.uint8]
"""Height, width, and blue, green, red, unused."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The pointer's picture: where its upper left corner is, and its premultiplied colours."""

    x: int
    y: int
    pixels: Frame
    """Blue, green, red, alpha."""


class Framebuffer:
    """The screen of an X server that was started with `-fbdir`."""

    def __init__(self, path: Path, screen: Screen) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        header = os.pread(self._fd, _HEADER.size, 0)
        fields = _HEADER.unpack(header) if len(header) == _HEADER.size else None
        if fields is None or fields[4:6] != (screen.width, screen.height) or fields[11] != 32:
            os.close(self._fd)
            raise MachineError(f"{path} is no picture of {screen}", kind="display")
        header_bytes, num_colours, self._row_bytes = fields[0], fields[19], fields[12]
        self._start = header_bytes + 12 * num_colours
        self._screen = screen

    def read(self) -> Frame:
        """Copy what the screen shows now."""
        height, width = self._screen.height, self._screen.width
        rows = np.empty((height, self._row_bytes), np.uint8)
        if os.preadv(self._fd, [rows.data.cast("B")], self._start) != rows.nbytes:
            raise MachineError("the X server's picture file was cut short", kind="display")
        return rows[:, : 4 * width].reshape(height, width, 4)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def draw(frame: Frame, cursor: Cursor) -> None:
    """Draw the pointer into a frame."""
    height, width = frame.shape[:2]
    top, left = max(cursor.y, 0), max(cursor.x, 0)
    bottom = min(cursor.y + cursor.pixels.shape[0], height)
    right = min(cursor.x + cursor.pixels.shape[1], width)
    if top >= bottom or left >= right:
        return
    drawn = cursor.pixels[top - cursor.y : bottom - cursor.y, left - cursor.x : right - cursor.x]
    under = frame[top:bottom, left:right, :3].astype(np.uint16)
    clear = 255 - drawn[:, :, 3:].astype(np.uint16)
    frame[top:bottom, left:right, :3] = drawn[:, :, :3] + (under * clear + 127) // 255


def picture(frame: Frame) -> PillowImage.Image:
    """A frame as a Pillow image."""
    from PIL import Image as Pillow

    height, width = frame.shape[:2]
    data = np.ascontiguousarray(frame)
    return Pillow.frombuffer("RGB", (width, height), data, "raw", "BGRX", 0, 1)


def encode(frame: Frame, kind: PictureFormat) -> Image:
    """A frame as PNG or JPEG; the same pixels always give the same bytes."""
    out = io.BytesIO()
    if kind == "png":
        picture(frame).save(out, "PNG", compress_level=_PNG_EFFORT)
    else:
        picture(frame).save(out, "JPEG", quality=JPEG_QUALITY)
    return Image(out.getvalue(), f"image/{kind}")

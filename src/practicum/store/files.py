"""Files that survive a kill: written whole or not at all, or grown line by line.

A JSON-lines file opens with a line that names its format and version. A writer that is
killed leaves at most one unfinished line at the end; readers pass over it, and the next
writer cuts it off before it appends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import StoreError

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old content or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def to_text(value: Any) -> str:
    """Write JSON for a person to read; equal values give equal texts."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON file, or say plainly why not."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist") from None
    except ValueError as error:
        raise StoreError(f"{path} is not JSON ({error}): restore it from a copy") from error


class LineFormat:
    """A kind of JSON-lines file: its name, its newest version, and how to read old ones."""

    def __init__(self, name: str, version: int, upgrades: Mapping[int, Upgrade]) -> None:
        """`upgrades[v]` turns a row of version v into one of version v + 1."""
        assert set(upgrades) == set(range(1, version)), "every old version needs its upgrade"
        self._name = name
        self._version = version
        self._upgrades = upgrades

    @property
    def header(self) -> bytes:
        """The first line of a new file."""
        return _line({"format": self._name, "version": self._version})

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file in order; an unfinished last line is passed over."""
        if not path.exists():
            return
        with path.open("rb") as file:
            version = 0
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                row = _parse(path, number, line)
                if number == 1:
                    version = self._check_header(path, row)
                else:
                    for old in range(version, self._version):
                        row = self._upgrades[old](row)
                    yield row

    def _check_header(self, path: Path, header: Mapping[str, Any]) -> int:
        if header.get("format") != self._name or not isinstance(header.get("version"), int):
            raise StoreError(f"{path} is not a {self._name} file: its first line does not say so")
        version: int = header["version"]
        if version > self._version:
            raise StoreError(
                f"{path} has format version {version} and this practicum reads up to "
                f"{self._version}: pip install --upgrade practicum"
            )
        return version

    def append_to(self, path: Path) -> LineWriter:
        """Open a file for appending: make it, or cut off what a kill left unfinished."""
        return LineWriter(path, self)


class LineWriter:
    """Appends rows; each is handed to the system whole, in one write."""

    def __init__(self, path: Path, line_format: LineFormat) -> None:
        for _ in line_format.read(path):
            pass  # a damaged or newer file is refused before anything is written to it
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        keep = _length_of_whole_lines(path)
        os.ftruncate(self._file, keep)
        if keep == 0:
            os.write(self._file, line_format.header)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row."""
        data = _line(row)
        written = os.write(self._file, data)
        if written != len(data):
            raise StoreError(
                f"only {written} of {len(data)} bytes of a row were written: the disk is full; "
                "free some space and resume the run"
            )

    def close(self) -> None:
        """Make sure that everything is on the disk, and close."""
        os.fsync(self._file)
        os.close(self._file)


def _line(row: Mapping[str, Any]) -> bytes:
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates can come out of a model; they have no UTF-8 form of their own.
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise StoreError(
            f"{path} line {number} is damaged ({error}): restore the file from a copy, or "
            "delete that line and resume the run, which plays the lost episode again"
        ) from error
    if not isinstance(row, dict):
        raise StoreError(f"{path} line {number} is not an object")
    return row


def _length_of_whole_lines(path: Path) -> int:
    content_end = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                content_end += len(line)
    return content_end

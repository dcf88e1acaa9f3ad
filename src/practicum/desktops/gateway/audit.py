"""Who did what, when, with which outcome: one JSON object per line.

Never bodies, query strings, headers or tokens. The file is opened for appending and belongs
to its owner alone; rotate it by copying and truncating, or by restarting the gateway.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from practicum.core.errors import ConfigError


class Audit:
    """Writes the log; without a path it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = None
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write the audit log {path}: {error.strerror}") from error
        self._file = os.fdopen(descriptor, "a", encoding="utf-8", buffering=1)

    def write(self, event: str, **fields: Any) -> None:
        """Write a line."""
        if self._file is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.write(json.dumps({"time": at, "event": event, **fields}) + "\n")

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

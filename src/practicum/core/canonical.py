"""One way to write a value as bytes, so that equal content has equal hashes everywhere."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Write JSON with sorted keys, no spaces and no NaN: one text per value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(value: Any) -> str:
    """Hash a JSON value by content; 64 hex digits of SHA-256."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def stable_seed(*parts: str | int) -> int:
    """Derive a 63-bit seed from its parts: equal in every process, unlike `hash()`."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1

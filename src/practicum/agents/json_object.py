"""Reading one JSON value out of an answer, strictly."""

from __future__ import annotations

import json
from typing import Any


def read_object(answer: str, start: int) -> tuple[Any, int]:
    """Read the JSON value at a place and say where it ends; a key given twice is an error.

    Raises `ValueError` or `RecursionError` for what is no JSON.
    """
    return _DECODER.raw_decode(answer, start)


def _reject_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands in it twice")
    return dict(pairs)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_repeats, parse_constant=_reject_constant)

"""Inputs, windows and trees as JSON, for the routes that our server has beside OSWorld's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from practicum.desktops.computer import Input, Key, Move, Node, Press, Scroll, Text, Wait, Window

_KINDS: dict[str, TypeAdapter[Input]] = {
    kind.__name__.lower(): TypeAdapter(kind) for kind in (Move, Press, Key, Text, Scroll, Wait)
}
_WINDOWS = TypeAdapter(list[Window])
_TREE = TypeAdapter(Node)


def write_inputs(inputs: Sequence[Input]) -> list[dict[str, Any]]:
    """Write inputs: each an object whose `type` is the input's name in lower case."""
    return [{"type": type(one).__name__.lower(), **asdict(one)} for one in inputs]


def read_inputs(values: Any) -> list[Input]:
    """Read inputs; what is not one is a `ValueError`."""
    if not isinstance(values, list):
        raise ValueError("inputs is a list")
    return [_read_input(value) for value in values]


def _read_input(value: Any) -> Input:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind not in _KINDS:
        raise ValueError(f"{value!r} is no input: `type` is one of {', '.join(_KINDS)}")
    fields = {name: content for name, content in value.items() if name != "type"}
    try:
        one = _KINDS[kind].validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{value!r}: {first['msg']}") from error
    if unknown := set(fields) - set(asdict(one)):
        raise ValueError(f"{value!r}: there is no {', '.join(sorted(unknown))} in a {kind}")
    return one


def write_windows(windows: Sequence[Window]) -> list[dict[str, Any]]:
    """Write windows."""
    return [asdict(window) for window in windows]


def read_windows(values: Any) -> list[Window]:
    """Read windows; what is not one is a `ValueError`."""
    try:
        return _WINDOWS.validate_python(values)
    except ValidationError as error:
        raise ValueError(str(error.errors()[0]["msg"])) from error


def write_tree(tree: Node) -> bytes:
    """Write an accessibility tree."""
    return _TREE.dump_json(tree)


def read_tree(text: bytes) -> Node:
    """Read an accessibility tree; what is not one is a `ValueError`."""
    try:
        return _TREE.validate_json(text)
    except ValidationError as error:
        raise ValueError(str(error.errors()[0]["msg"])) from error

"""Shops of this process: each is built once, on first use, and shared by all episodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from practicum.core.errors import ConfigError
from practicum.envs.text.webshop.catalogue import Shop
from practicum.envs.text.webshop.generate import CATALOGUE_ID, generate_products
from practicum.envs.text.webshop.original import OriginalData, load_original

MODULES = ("bm25s", "Stemmer", "rapidfuzz")
INSTALL = "pip install 'practicum[webshop]'"

K = TypeVar("K")
T = TypeVar("T")

# Held while a shop is built: two threads must not build the same one twice.
_LOCK = threading.Lock()
_GENERATED: dict[str, Shop] = {}
_ORIGINAL: dict[Path, OriginalData] = {}


def generated_shop() -> Shop:
    """The built-in shop."""
    return _once(_GENERATED, CATALOGUE_ID, _generate)


def original_data(data_dir: Path) -> OriginalData:
    """The shop and tasks of a folder with WebShop's files."""
    folder = data_dir.resolve()
    return _once(_ORIGINAL, folder, lambda: load_original(folder))


def _generate() -> Shop:
    return Shop(CATALOGUE_ID, generate_products(), shows_attributes=True)


def _once(built: dict[K, T], key: K, build: Callable[[], T]) -> T:
    found = built.get(key)
    if found is None:
        with _LOCK:
            found = built.get(key)
            if found is None:
                _require_modules()
                found = built[key] = build()
    return found


def _require_modules() -> None:
    """Say at once what is missing, not when the first purchase is graded."""
    missing = [name for name in MODULES if find_spec(name) is None]
    if missing:
        raise ConfigError(f"WebShop needs {', '.join(missing)}, not installed: {INSTALL}")

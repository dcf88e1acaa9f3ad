"""What several test folders share."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from practicum.envs import registry

TIMELESS = tuple(env_id for env_id in registry.entries() if env_id != "desktop")
"""Environments whose worlds stand still between actions: equal episodes show equal bytes."""


def require(module: str, install: str) -> None:
    """Skip a user's run when an optional module is missing; in CI that is a failure."""
    if find_spec(module) is None:
        _missing(f"{module} is not installed: {install}")


def require_program(program: str, install: str) -> None:
    """Skip a user's run when a program is missing; in CI that is a failure."""
    if shutil.which(program) is None:
        _missing(f"{program} is not installed: {install}")


def require_file(path: Path, install: str) -> None:
    """Skip a user's run when a file is missing; in CI that is a failure."""
    if not path.exists():
        _missing(f"{path.name} is not there: {install}")


def require_env(env_id: str) -> None:
    """Require what an environment needs."""
    entry = registry.entries()[env_id]
    for module in entry.modules:
        require(module, entry.install)
    for program in entry.programs:
        require_program(program, entry.install)


def _missing(message: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)

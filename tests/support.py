"""What several test folders share."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest


def require(module: str, install: str) -> None:
    """Skip a user's run when an optional module is missing; in CI that is a failure."""
    if find_spec(module) is None:
        _missing(f"{module} is not installed: {install}")


def require_program(program: str, install: str) -> None:
    """Skip a user's run when a program is missing; in CI that is a failure."""
    if shutil.which(program) is None:
        _missing(f"{program} is not installed: {install}")


def _missing(message: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)

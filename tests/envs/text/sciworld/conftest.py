"""One warm environment for all tests of this folder: a cold JVM costs seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from support import require, require_program

from practicum.envs.text.sciworld.env import SciWorld, create


@pytest.fixture(autouse=True)
def _installed() -> None:
    require("scienceworld", "pip install 'scienceworld>=1.2.3,<1.3'")
    require_program("java", "apt-get install default-jre-headless")


@pytest.fixture(scope="session")
def sciworld() -> Iterator[SciWorld]:
    environment = create(max_jvms=1)
    yield environment
    asyncio.run(environment.aclose())

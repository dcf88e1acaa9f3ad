"""SQLGym environments that end their guard processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from practicum.envs.text.sqlgym.env import SqlGym, create


@pytest_asyncio.fixture
async def sqlgym() -> AsyncIterator[SqlGym]:
    environment = create()
    yield environment
    await environment.aclose()


@pytest_asyncio.fixture
async def single_turn() -> AsyncIterator[SqlGym]:
    environment = create(single_turn=True)
    yield environment
    await environment.aclose()

"""A few Java processes that all episodes share, started when first needed.

A process takes a second to start and half a minute of play to get fast, so none belongs to
an episode: an episode joins the process with the fewest worlds. A process that died is
left out from then on, and the next episode starts another in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from practicum.core.errors import MachineError
from practicum.envs.text.sciworld.engine import HEAP_MB, MAX_WORLDS, Engine, Spec, World


class EnginePool:
    """At most `max_jvms` engines. Use from one event loop."""

    def __init__(self, max_jvms: int, *, heap_mb: int = HEAP_MB) -> None:
        self._max_jvms = max_jvms
        self._heap_mb = heap_mb
        self._engines: list[Engine] = []

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines there are now."""
        return tuple(self._engines)

    @asynccontextmanager
    async def world(self, spec: Spec) -> AsyncIterator[tuple[Engine, World]]:
        """Load a world in the least busy engine; leaving lets go of it."""
        # Nothing is awaited between choosing and reserving: two openings see each other.
        engine = self._choose()
        world = engine.reserve(spec)
        try:
            await self._bury()
            await engine.load(world)
            yield engine, world
        finally:
            engine.release(world)

    async def aclose(self) -> None:
        """End all processes; a later episode starts new ones."""
        engines, self._engines = self._engines, []
        await asyncio.gather(*(engine.stop() for engine in engines))

    def _choose(self) -> Engine:
        usable = [engine for engine in self._engines if engine.jvm.is_usable]
        least = min(usable, key=lambda engine: engine.num_worlds, default=None)
        if least is None or (least.num_worlds and len(usable) < self._max_jvms):
            least = Engine(heap_mb=self._heap_mb)
            self._engines.append(least)
        if least.num_worlds >= MAX_WORLDS:
            raise MachineError(
                f"all {len(usable)} Java processes hold {MAX_WORLDS} episodes: "
                "open fewer at a time, or make the environment with a larger max_jvms",
                kind="no-room",
            )
        return least

    async def _bury(self) -> None:
        dead = [engine for engine in self._engines if not engine.jvm.is_usable]
        self._engines = [engine for engine in self._engines if engine.jvm.is_usable]
        await asyncio.gather(*(engine.stop() for engine in dead))

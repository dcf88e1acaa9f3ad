"""An environment of pictures, for tests of what a transport does to bytes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from practicum.core.commands import Command
from practicum.core.env import Decision, Script, StepResult
from practicum.core.message import Action, Image, Observation
from practicum.core.task import Panel, Task


class Gallery:
    """Shows every byte there is, in pictures and in text that is awkward to send."""

    id = "gallery"
    rules = "Look."
    commands: Sequence[Command] = (Command("look", "look", "look"),)
    max_turns = 3
    scripts: Mapping[str, Script] = {"expert": lambda _: Decision(Action("look"))}
    task = Task.create("gallery", "Look.", {"n": 1}, split="dev")

    def panel_names(self) -> Sequence[str]:
        return ("train", "dev", "test")

    def panel(self, name: str) -> Panel:
        return Panel(name, (self.task,) if name == "dev" else ())

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Gallery]:
        yield self

    async def start(self) -> Observation:
        return self._show(0)

    async def step(self, action: Action) -> StepResult:
        echo = Observation(action.text, self._show(1).images)
        return StepResult(echo, reward=1 / 3, is_refused=True, info={"why": ["a", 1, None, 0.1]})

    async def aclose(self) -> None:
        pass

    def _show(self, step: int) -> Observation:
        noise = bytes(range(256)) * (4 + step)
        images = (Image(zlib.compress(noise)), Image(noise, "image/jpeg"))
        return Observation("a\x00b\u2028\ud800\U0001f600\r\n\tAVAILABLE ACTIONS: x,y", images)

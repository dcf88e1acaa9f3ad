"""A programmed player behind the interface of a model."""

from __future__ import annotations

from collections.abc import Callable

from practicum.core.agent import Prompt, Sampling
from practicum.core.env import Decision, Script
from practicum.core.episode import Completion


class ScriptedPolicy:
    """Answers with what a script decides, written in the agent's own action format.

    `render` comes from that format: a script's answers take the same way through the
    parser as a model's.
    """

    def __init__(self, script: Script, render: Callable[[Decision], str]) -> None:
        self._script = script
        self._render = render

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Decide and write it down."""
        return Completion(self._render(self._script(prompt.situation)))

    async def aclose(self) -> None:
        """Release nothing."""

"""Who decides: a policy (a model) and an agent (prompting and parsing around it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from practicum.core.episode import Completion, FormatError, Turn
from practicum.core.message import Action, Message, Observation
from practicum.core.task import Task


@dataclass(frozen=True, slots=True)
class Situation:
    """Where an episode stands when the next answer is due."""

    task: Task
    sample: int
    history: Sequence[Turn]
    observation: Observation
    seed: int
    """Of this turn; derived from the run's seed, the task, the sample and the turn."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a policy draws an answer."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    """Limit for one answer."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a policy is asked. A model reads `messages`; a script reads `situation`."""

    messages: tuple[Message, ...]
    situation: Situation


class Policy(Protocol):
    """A model. Knows tokens; knows no environments."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Answer, or raise `PolicyError`."""
        ...

    async def aclose(self) -> None:
        """Release connections or memory; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Act:
    """An answer and what was read from it: an action or a format error."""

    completion: Completion
    action: Action | None
    format_error: FormatError | None = None


class Agent(Protocol):
    """Prompting and parsing around a policy. Stateless; knows no rewards."""

    @property
    def system(self) -> str:
        """The instructions it puts in front of the first observation."""
        ...

    async def act(self, situation: Situation) -> Act:
        """Decide the next action."""
        ...

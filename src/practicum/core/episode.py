"""The record in the middle: environments and models produce it, everything else reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from practicum.core.errors import ErrorInfo
from practicum.core.message import Action, Observation
from practicum.core.reward import Reward
from practicum.core.task import Task

Finish = Literal["stop", "length", "context"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a policy said, exactly: never re-tokenise the text to train on it."""

    text: str
    finish: Finish = "stop"
    """`length`: cut at the turn's token limit; `context`: there was no room to answer."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """One per sampled token, under the policy that sampled it."""
    policy_version: int | None = None


class FormatErrorKind(StrEnum):
    """How an answer can miss the answer format."""

    EMPTY = "empty"
    NO_ACTION = "no-action"
    SEVERAL_ACTIONS = "several-actions"
    UNFINISHED_THOUGHT = "unfinished-thought"
    BAD_SYNTAX = "bad-syntax"
    UNKNOWN_CALL = "unknown-call"


@dataclass(frozen=True, slots=True)
class FormatError:
    """An answer no action could be read from. The agent's doing: feedback, not a fault."""

    kind: FormatErrorKind
    feedback: str
    """Shown to the model as the next observation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange: what the policy saw, what it said, what that earned."""

    observation: Observation
    completion: Completion
    action: Action | None
    """None exactly when `format_error` is set."""
    format_error: FormatError | None = None
    reward: float = 0.0
    is_refused: bool = False
    state: str | None = None
    """A hash of what the world was like before the action; equal where it was alike."""
    progress: float | None = None
    """The share of the way done after it, where the world says so; never part of the reward."""

    @property
    def is_invalid(self) -> bool:
        """Nothing was done: no action could be read, or the world refused it."""
        return self.format_error is not None or self.is_refused


class StopReason(StrEnum):
    """Why an unbroken episode ended. Only `DONE` is finished; the rest was cut short."""

    DONE = "done"
    TURN_LIMIT = "turn-limit"
    CONTEXT_LIMIT = "context-limit"
    REPEATED_REFUSAL = "repeated-refusal"


@dataclass(frozen=True, slots=True)
class Episode:
    """Everything that happened, exactly as the policy saw and said it.

    Either it stopped (`stop`, judged by `reward`) or it broke (`error`, no reward).
    """

    id: str
    task_id: str
    env_id: str
    sample: int
    """Which of the repeated attempts at the task this is, from 0."""
    seed: int
    system: str
    """The instructions in front of the first observation."""
    turns: tuple[Turn, ...]
    final: Observation | None
    """What the world showed last; no answer to it was asked for."""
    stop: StopReason | None
    is_success: bool = False
    """The environment reported that the goal was reached."""
    reward: Reward | None = None
    error: ErrorInfo | None = None

    @property
    def is_broken(self) -> bool:
        """It ended by a fault of ours and says nothing about the policy."""
        return self.error is not None


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task, compared with each other. Holds one task by construction."""

    task: Task
    episodes: tuple[Episode, ...]

    def __post_init__(self) -> None:
        strangers = {e.task_id for e in self.episodes} - {self.task.id}
        if strangers:
            raise ValueError(f"group of {self.task.id} was given episodes of {sorted(strangers)}")

    @property
    def judged(self) -> tuple[Episode, ...]:
        """The episodes that count: those with a reward."""
        return tuple(e for e in self.episodes if e.reward is not None)

"""Environments: a kind of world (`Environment`) and one episode in it (`Env`).

An `Environment` is long-lived and owns what is costly: a server connection, a JVM pool,
desktops. An `Env` is one episode of one task; it is opened, played once and closed, never
reset and never reused, so cleaning up has one home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from practicum.core.agent import Situation
from practicum.core.canonical import content_hash
from practicum.core.commands import Command
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task

_NOTHING: Mapping[str, Any] = {}
_STATE_DIGITS = 16
"""Of the hash of a state: two states of one task meet by chance once in 10^19."""

PROGRESS = "progress"
"""The key in `StepResult.info` for the share of the way that is done, between 0 and 1."""


class StepResult(NamedTuple):
    """The world's answer to one action. It reports; it does not judge.

    A named tuple because one is made at every step: a frozen dataclass takes 1.5 µs more.
    """

    observation: Observation
    reward: float = 0.0
    """What this turn earned, on a scale where a perfect episode sums to 1."""
    is_done: bool = False
    is_success: bool = False
    """The goal is reached; only ever true together with `is_done`."""
    is_refused: bool = False
    """The world understood no such action or would not do it; nothing changed."""
    info: Mapping[str, Any] = _NOTHING


class Env(Protocol):
    """One episode of one task. Opened by an `Environment`; never reset, never reused."""

    async def start(self) -> Observation:
        """Begin and show the first observation; called once."""
        ...

    async def step(self, action: Action) -> StepResult:
        """Carry out one action. Never called again after `is_done`."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What a script wants: an action, and a thought that gives the reason."""

    action: Action
    thought: str = ""


class Script(Protocol):
    """A programmed player: the expert, a random one, a weak one. Stateless."""

    def __call__(self, situation: Situation) -> Decision:
        """Decide the next action."""
        ...


class Environment(Protocol):
    """A kind of world: its tasks, its rules in words, and how to open an episode."""

    @property
    def id(self) -> str:
        """The name in the registry, as in `textcraft`."""
        ...

    @property
    def rules(self) -> str:
        """What the agent is told about the world, apart from the answer format."""
        ...

    @property
    def commands(self) -> Sequence[Command]:
        """The actions there are; formats render and parse them from this one list."""
        ...

    @property
    def max_turns(self) -> int:
        """The documented horizon."""
        ...

    @property
    def scripts(self) -> Mapping[str, Script]:
        """Programmed players by name; `expert` and `random` are always there."""
        ...

    def panel_names(self) -> Sequence[str]:
        """Names of the task panels, in the order to list them."""
        ...

    def panel(self, name: str) -> Panel:
        """Load a panel; an unknown name is a `ConfigError`."""
        ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Env]:
        """Open one episode; leaving the context releases all it held."""
        ...

    async def aclose(self) -> None:
        """Release what the environment itself holds; idempotent."""
        ...


@runtime_checkable
class Varied(Protocol):
    """An environment that can ask for the same thing in other words."""

    def variant(self, task: Task, number: int) -> Task:
        """Another task with the same goal, equal for equal numbers; 0 is the task itself."""
        ...


@runtime_checkable
class Guided(Protocol):
    """An environment whose expert can say how far it is from the goal."""

    def remaining(self, situation: Situation) -> int:
        """Turns the expert would still need."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """An `Env` that can say what its world is like now; of others it is what they showed last."""

    def state_key(self) -> str:
        """Everything that decides what comes next; turns at equal keys of one task compare."""
        ...


@runtime_checkable
class Remote(Protocol):
    """An `Env` whose world is elsewhere, and told the hash of its state or told none."""

    @property
    def told_state(self) -> str | None:
        """What `state_hash` is there."""
        ...


def state_hash(env: Env, observation: Observation) -> str:
    """What the world is like, as a hash: by its own account or by what it showed last."""
    if isinstance(env, Remote) and env.told_state is not None:
        return env.told_state
    if isinstance(env, Keyed):
        return content_hash(env.state_key())[:_STATE_DIGITS]
    text = observation.text.encode(errors="backslashreplace").decode()  # half characters occur
    shown = [text, *(image.hash for image in observation.images)]
    return content_hash(shown)[:_STATE_DIGITS]


@runtime_checkable
class Concluding(Protocol):
    """An `Env` that judges only at the end; cut short, it judges what is there."""

    async def conclude(self) -> StepResult:
        """The result of ending here: its reward is the last turn's. No step comes after it."""
        ...


@runtime_checkable
class Milestoned(Protocol):
    """An environment whose tasks can have milestones: it reports `PROGRESS` with each step."""

    @property
    def has_milestones(self) -> bool:
        """Always true."""
        ...


@runtime_checkable
class Live(Protocol):
    """An environment whose world has a clock of its own, as a desktop has.

    Equal actions lead to equal results there, but what is shown on the way may differ.
    """

    @property
    def is_live(self) -> bool:
        """Always true."""
        ...

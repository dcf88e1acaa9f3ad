"""ScienceWorld's episodes, as AgentGym shows them: the task in words, then the room.

The engine is the real one, in Java processes that all episodes of the environment share.
A turn pays what it adds to the engine's score, so that an episode sums to its final score
on a scale to 1. An action that rules the goal out, such as focusing on the wrong thing,
makes the engine's score -100: the episode ends, and what it had earned is taken back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from practicum.core.agent import Situation
from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError, EnvError
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.sciworld import expert, tasks

if TYPE_CHECKING:  # needs py4j, which only an opened episode does
    from practicum.envs.text.sciworld.engine import Engine, World
    from practicum.envs.text.sciworld.pool import EnginePool

RULES = """\
You are in ScienceWorld, a house with its surroundings in which elementary science \
experiments can be done. The first message gives a task and describes the room you are in. \
Do the task.

- Name things as the texts name them, such as "metal pot" or "door to kitchen"; if there are \
several, say where: "thermometer in inventory", "drawer in cupboard".
- Doors and containers must be opened before you can go through them or reach inside.
- Each action takes a little time, in which things heat up, cool down, grow or move; looking \
around takes none.
- "focus on" declares the thing that the task is about. Do it exactly when the task says so: \
focusing on a wrong thing fails the task at once.
- If an action could mean several things, they are listed by number. Answer with the number \
alone; anything else cancels the action."""

COMMANDS = (
    Command("look_around", "look around", "describe the room"),
    Command("look_at", "look at {object}", "describe a thing in detail"),
    Command("look_in", "look in {container}", "describe what a container holds"),
    Command("go", "go to {place}", "move to a room next to this one"),
    Command("open", "open {object}", "open a door or a container"),
    Command("close", "close {object}", "close a door or a container"),
    Command("activate", "activate {device}", "switch a device on"),
    Command("deactivate", "deactivate {device}", "switch a device off"),
    Command("pick_up", "pick up {object}", "put a thing into your inventory"),
    Command("put_down", "put down {object}", "put a thing from your inventory down"),
    Command("move", "move {object} to {container}", "move a thing into or onto another"),
    Command("pour", "pour {liquid} into {container}", "pour a liquid into a container"),
    Command("dunk", "dunk {container} into {liquid}", "dip a container into a liquid"),
    Command("mix", "mix {container}", "mix what a container holds"),
    Command("use_on", "use {tool} on {object}", "use a tool on a thing"),
    Command("use", "use {tool}", "use a tool"),
    Command("connect", "connect {one} to {other}", "connect electrical parts"),
    Command("disconnect", "disconnect {object}", "disconnect an electrical part"),
    Command("read", "read {object}", "read a note or a book"),
    Command("eat", "eat {food}", "eat something"),
    Command("flush", "flush {object}", "flush a toilet"),
    Command("focus", "focus on {object}", "declare what the task is about"),
    Command("wait1", "wait1", "let a moment pass"),
    Command("wait", "wait", "let ten moments pass"),
    Command("inventory", "inventory", "list what you carry"),
    Command("task", "task", "repeat the task"),
    Command("choose", "{number:int}", "answer a question with numbered choices"),
)

DEFAULT_MAX_JVMS = 2
MAX_ACTION_CHARS = 500
"""More than any action of the game needs; the engine's parser is not shown more."""

_UNKNOWN = "No known action matches that input."
_CANCELLED = (
    "Unknown action.  Type 'help' for a list of actions, "
    "and 'objects' for a list of possible object referents. "
)
_REFUSALS = (_UNKNOWN, _CANCELLED, "Ambiguous request:")


class SciWorldEnv:
    """One episode of one ScienceWorld task."""

    def __init__(self, engine: Engine, world: World) -> None:
        self._engine = engine
        self._world = world
        self._score = 0

    async def start(self) -> Observation:
        """Show the task and the room."""
        reply = await self._engine.step(self._world, "look around")
        return Observation(f"{self._world.description}\n{reply.text}")

    async def step(self, action: Action) -> StepResult:
        """Carry out one action."""
        text = action.text
        if not _is_readable(text):
            return self._aside(_UNKNOWN, is_refused=True)
        word = text.strip().lower()
        if word == "task":
            return self._aside(f"Task description:\n{self._world.description}")
        if word == "help":
            forms = await self._engine.action_forms(self._world)
            return self._aside("\n\t".join(["Possible actions: ", *forms]))
        if word == "objects":
            names = await self._engine.object_names(self._world)
            return self._aside("\n\t".join(["Possible object references: ", *names]))
        reply = await self._engine.step(self._world, text)
        said = reply.text or _CANCELLED
        if said.startswith(_REFUSALS):
            return self._aside(said, is_refused=True)
        # Some worlds give points for where one starts; they are paid with the first thing
        # done, so that nothing is earned by a refused action and the sum is still the score.
        earned = max(reply.score, 0) - self._score
        self._score += earned
        return StepResult(
            Observation(said),
            reward=earned / 100,
            is_done=reply.is_completed or not 0 <= reply.score < 100,
            is_success=reply.score >= 100,
            info={"score": reply.score},
        )

    async def valid_actions(self) -> list[str]:
        """List every action that can be done now. Slow: it costs about fifty turns."""
        return await self._engine.valid_actions(self._world)

    def _aside(self, text: str, *, is_refused: bool = False) -> StepResult:
        """Answer when nothing was done."""
        return StepResult(Observation(text), is_refused=is_refused, info={"score": self._score})


class SciWorld:
    """ScienceWorld with its engine in up to `max_jvms` Java processes."""

    id = tasks.ENV_ID
    rules = RULES
    commands: Sequence[Command] = COMMANDS
    max_turns = tasks.MAX_TURNS
    scripts: Mapping[str, Script] = {
        "expert": expert.play_expertly,
        "random": expert.play_randomly,
    }

    def __init__(self, *, max_jvms: int = DEFAULT_MAX_JVMS) -> None:
        if max_jvms < 1:
            raise ConfigError(f"max_jvms is {max_jvms}: at least one Java process is needed")
        self._max_jvms = max_jvms
        self._pool: EnginePool | None = None

    def panel_names(self) -> Sequence[str]:
        """Names of the shipped panels."""
        return tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a shipped panel."""
        return tasks.PANELS.load(name)

    def remaining(self, situation: Situation) -> int:
        """Actions of the engine's own solution that are still to come."""
        return expert.count_remaining(situation)

    @property
    def jvm_pids(self) -> tuple[int, ...]:
        """Process ids of the Java processes there are now."""
        engines = self._pool.engines if self._pool else ()
        return tuple(engine.jvm.pid for engine in engines if engine.jvm.pid is not None)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[SciWorldEnv]:
        """Open one episode in one of the Java processes."""
        pool = self._started_pool()
        from practicum.envs.text.sciworld.engine import Spec

        data = task.data
        if data["engine"] != tasks.ENGINE:
            raise EnvError(f"{task.id} is a task of {data['engine']}", kind="wrong-engine")
        spec = Spec(data["task"], data["variation"], data["simplifications"])
        async with pool.world(spec) as (engine, world):
            if world.description != task.prompt:
                raise EnvError(
                    f"{task.id} asks for {task.prompt!r}, and {spec} is {world.description!r}",
                    kind="wrong-task",
                )
            yield SciWorldEnv(engine, world)

    async def aclose(self) -> None:
        """End the Java processes."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    def _started_pool(self) -> EnginePool:
        if self._pool is None:
            if find_spec("py4j") is None or find_spec("scienceworld") is None:
                raise ConfigError(f"ScienceWorld is not installed: {tasks.INSTALL}")
            from practicum.envs.text.sciworld.pool import EnginePool

            self._pool = EnginePool(self._max_jvms)
        return self._pool


def create(max_jvms: int = DEFAULT_MAX_JVMS) -> SciWorld:
    """Make the environment; called by the registry."""
    return SciWorld(max_jvms=max_jvms)


def _is_readable(text: str) -> bool:
    """Whether the engine can be shown a text at all: short, and no half characters."""
    return len(text) <= MAX_ACTION_CHARS and not any("\ud800" <= c <= "\udfff" for c in text)

"""ALFWorld's household tasks as an environment.

By default they are played in the built-in world, on tasks that ship with this package.
`create(engine="textworld", games=FOLDER)` plays ALFWorld's own game files in TextWorld's
engine instead. The language is that of ALFWorld 0.4; reaching the goal pays 1 and ends the
episode, nothing else pays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from practicum.core.commands import Command
from practicum.core.env import Environment, Script, StepResult
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.alfworld import expert, language, tasks
from practicum.envs.text.alfworld.world import House, Scene


class ALFWorldEnv:
    """One episode of one task in the built-in world."""

    def __init__(self, task: Task) -> None:
        if "receptacles" not in task.data:
            raise EnvError(
                f"{task.id} is a game file of ALFWorld, not a house: use engine='textworld'",
                kind="wrong-engine",
            )
        self._prompt = task.prompt
        self._goal = tasks.goal_of(task)
        self._house = House(Scene.of(task.data))
        self._actions = self._house.actions()

    async def start(self) -> Observation:
        """Show the room, the task and what can be done."""
        text = language.first_text(self._house.overview(), self._prompt)
        return Observation(language.with_actions(text, self._actions))

    async def step(self, action: Action) -> StepResult:
        """Carry out one command."""
        step = self._actions.get(language.to_command(action.text))
        if step is None:
            text = language.with_actions(language.NOTHING_HAPPENS, self._actions)
            return StepResult(Observation(text), is_refused=True)
        told = self._house.do(step)
        if self._house.fulfils(self._goal):
            self._actions = {}  # the goal pays once
            return StepResult(Observation(told), reward=1.0, is_done=True, is_success=True)
        self._actions = self._house.actions()
        return StepResult(Observation(language.with_actions(told, self._actions)))

    def state_key(self) -> str:
        """Where everything is, what is open, and what was done to things."""
        return self._house.state_key()


class ALFWorld:
    """The built-in world: in this process, without state between episodes."""

    id = tasks.ENV_ID
    rules = language.RULES
    commands: Sequence[Command] = language.COMMANDS
    max_turns = language.MAX_TURNS
    scripts: Mapping[str, Script] = expert.SCRIPTS

    def panel_names(self) -> Sequence[str]:
        """Names of the shipped panels."""
        return tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a shipped panel."""
        return tasks.PANELS.load(name)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[ALFWorldEnv]:
        """Open one episode; it holds nothing that needs releasing."""
        yield ALFWorldEnv(task)

    async def aclose(self) -> None:
        """Release nothing."""


def create(engine: str = "builtin", games: str | Path | None = None) -> Environment:
    """Make the environment: the built-in world, or TextWorld on a folder of game files."""
    if engine == "textworld":
        from practicum.envs.text.alfworld.games import ALFWorldGames, find_games_dir

        return ALFWorldGames(find_games_dir(games))
    if engine != "builtin":
        raise unknown_name("ALFWorld engine", engine, ("builtin", "textworld"))
    if games is not None:
        raise ConfigError("game files are played by TextWorld: use engine='textworld' with games=")
    return ALFWorld()

"""ALFWorld's own game files as an environment, played by TextWorld's engine.

A games folder is what `alfworld-download` makes: `train`, `valid_seen` and `valid_unseen`
with a `game.tw-pddl` for every trial. They are the panels `train`, `dev` and `test`. A task
names its file and holds its hash, so another file under the same name is an error and
never another task. ALFWorld separates trials, not what they ask for, so every trial is a
family of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.alfworld import expert, language
from practicum.envs.text.alfworld.engine import OpenGame, Workers
from practicum.envs.text.alfworld.goals import WORDINGS
from practicum.envs.text.alfworld.tasks import ENV_ID

INSTALL = "pip install 'textworld[pddl]>=1.6.1,<2'"
DATA_VARIABLE = "ALFWORLD_DATA"
GAME_FILE = "game.tw-pddl"
FOLDERS: Mapping[str, str] = {"train": "train", "dev": "valid_seen", "test": "valid_unseen"}
"""Panel -> ALFWorld's folder."""

_GOAL = re.compile(re.escape(language.TASK_MARK) + r'([^"\\]+)"')


class GameEnv:
    """One episode of one game file."""

    def __init__(self, game: OpenGame) -> None:
        self._game = game
        self._first, self._actions, _ = game.first

    async def start(self) -> Observation:
        """Show the room, the task and what can be done."""
        return Observation(language.with_actions(self._first, self._actions))

    async def step(self, action: Action) -> StepResult:
        """Carry out one command."""
        command = language.to_command(action.text)
        if command not in self._actions:
            text = language.with_actions(language.NOTHING_HAPPENS, self._actions)
            return StepResult(Observation(text), is_refused=True)
        told, self._actions, is_won = await self._game.step(command)
        if is_won:
            self._actions = []  # the goal pays once
            return StepResult(Observation(told), reward=1.0, is_done=True, is_success=True)
        return StepResult(Observation(language.with_actions(told, self._actions)))


class ALFWorldGames:
    """ALFWorld's game files in TextWorld. Owns the processes in which the engine runs."""

    id = ENV_ID
    rules = language.RULES
    commands: Sequence[Command] = language.COMMANDS
    max_turns = language.MAX_TURNS
    scripts: Mapping[str, Script] = expert.SCRIPTS

    def __init__(self, games_dir: Path) -> None:
        missing = [name for name in ("textworld", "fast_downward") if find_spec(name) is None]
        if missing:
            raise ConfigError(f"playing ALFWorld's games needs {' and '.join(missing)}: {INSTALL}")
        self._games_dir = games_dir
        self._panels: dict[str, Panel] = {}
        self._workers = Workers()

    def panel_names(self) -> Sequence[str]:
        """Panels whose folder is there."""
        return tuple(n for n, folder in FOLDERS.items() if (self._games_dir / folder).is_dir())

    def panel(self, name: str) -> Panel:
        """Read and hash the game files of a panel, once."""
        if name not in self.panel_names():
            raise unknown_name("panel", name, self.panel_names())
        if name not in self._panels:
            self._panels[name] = Panel(name, tuple(read_tasks(self._games_dir, name)))
        return self._panels[name]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[GameEnv]:
        """Load one game; leaving the context unloads it."""
        content = await asyncio.to_thread(_read_content, self._games_dir, task)
        async with self._workers.open(content) as game:
            yield GameEnv(game)

    async def aclose(self) -> None:
        """End the engine's processes."""
        await self._workers.aclose()


def find_games_dir(games: str | Path | None = None) -> Path:
    """Where the game files lie: as given, else below `ALFWORLD_DATA`."""
    given = games or os.environ.get(DATA_VARIABLE)
    if not given:
        raise ConfigError(
            f"no ALFWorld games: give games=FOLDER or set {DATA_VARIABLE}; "
            "`alfworld-download` fetches them"
        )
    for folder in (Path(given), Path(given) / "json_2.1.1"):
        if any((folder / name).is_dir() for name in FOLDERS.values()):
            return folder
    raise ConfigError(
        f"{given} holds none of {', '.join(FOLDERS.values())}: is it ALFWorld's data?"
    )


def read_tasks(games_dir: Path, panel: str) -> Iterator[Task]:
    """Make a task of every solvable game file of a panel, in order of their paths."""
    paths = (games_dir / FOLDERS[panel]).glob(f"**/{GAME_FILE}")
    for name in sorted(path.relative_to(games_dir).as_posix() for path in paths):
        text = (games_dir / name).read_text(encoding="utf-8")
        content = json.loads(text)
        trial = Path(name).parent
        task_type = trial.parent.name.partition("-")[0]
        # ALFWorld itself leaves out games it could not solve and kinds beyond its six.
        if not content.get("solvable") or task_type not in WORDINGS:
            continue
        goal = _GOAL.search(content["grammar"])
        if goal is None:
            raise ConfigError(f"{games_dir / name} names no task: is it a game of ALFWorld?")
        yield Task.create(
            ENV_ID,
            prompt=goal[1],
            data={"game": name, "sha256": hashlib.sha256(text.encode()).hexdigest()},
            split=panel,
            difficulty=task_type,
            family=trial.as_posix(),
        )


def _read_content(games_dir: Path, task: Task) -> Mapping[str, Any]:
    try:
        path = games_dir / task.data["game"]
        text = path.read_text(encoding="utf-8")
    except KeyError as error:
        raise EnvError(
            f"{task.id} is a task of the built-in world, not a game file: use engine='builtin'",
            kind="wrong-engine",
        ) from error
    except OSError as error:
        raise EnvError(
            f"cannot read the game of {task.id}: {error}", kind="game-missing"
        ) from error
    if hashlib.sha256(text.encode()).hexdigest() != task.data["sha256"]:
        raise EnvError(
            f"{path} is not the file {task.id} was made from; read the panel again",
            kind="game-changed",
        )
    content: Mapping[str, Any] = json.loads(text)
    return content

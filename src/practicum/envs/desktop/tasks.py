"""Desktop tasks of every format behind one interface: set up, look, grade.

A task says in its data which format it has. Ours is `practicum`; OSWorld's and Windows Agent
Arena's files are read as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Panel, Task
from practicum.desktops.computer import Computer
from practicum.envs.desktop import checks, spec
from practicum.envs.desktop.actions import Ended
from practicum.envs.desktop.bodies import Desk
from practicum.envs.desktop.judge import ScreenJudge
from practicum.envs.desktop.milestones import Milestones
from practicum.envs.desktop.osworld.files import OSWORLD, read_osworld_file
from practicum.envs.desktop.osworld.job import OsworldJob
from practicum.envs.desktop.setup import set_up
from practicum.envs.desktop.verdict import Grade
from practicum.envs.panels import PanelFolder

PACK = PanelFolder("practicum.envs.desktop")


class Job(Protocol):
    """What one episode of a task does besides the agent's actions."""

    @property
    def max_turns(self) -> int:
        """After how many actions the episode is judged."""
        ...

    @property
    def progress(self) -> float | None:
        """The share of milestones reached, if there are any."""
        ...

    async def set_up(self) -> None:
        """Bring the computer into the first state, or raise."""
        ...

    async def look(self) -> None:
        """Look for milestones after a turn."""
        ...

    async def grade(self, ended: Ended | None) -> Grade:
        """Judge the state, or raise if that is not possible."""
        ...

    def close(self) -> None:
        """Remove what it kept on this side."""
        ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What some tasks need to be judged."""

    judge: ScreenJudge | None = None
    osworld_python: Path | None = None
    """The interpreter that has `desktop-env`."""

    def require_for(self, task: Task) -> None:
        """Raise `ConfigError` if a task cannot be judged with these."""
        if task.data["format"] == OSWORLD:
            self.python_for(task)
        elif task.data["format"] == spec.OURS and self.judge is None:
            own = spec.TaskSpec.of(task)
            asked = [*own.checks, *(milestone.check for milestone in own.milestones)]
            if any(isinstance(check, spec.ScreenshotCheck) for check in asked):
                raise ConfigError(
                    f"{task.id} has a screenshot check: give the option judge=MODEL@BASE_URL"
                )

    def python_for(self, task: Task) -> Path:
        """The interpreter that judges an OSWorld task."""
        if self.osworld_python is None:
            raise ConfigError(
                f"{task.id} is judged by OSWorld's own evaluators: give the option "
                "osworld_python=PATH, an interpreter with desktop-env installed"
            )
        if not self.osworld_python.exists():
            raise ConfigError(f"osworld_python={self.osworld_python} does not exist")
        return self.osworld_python

    async def aclose(self) -> None:
        """Close the judge's connections."""
        if self.judge is not None:
            await self.judge.aclose()


class OwnJob:
    """An episode of a task in our format."""

    def __init__(self, task: Task, tools: Tools, computer: Computer) -> None:
        self._spec = spec.TaskSpec.of(task)
        self._computer = computer
        self._judge = tools.judge
        self._milestones = Milestones(self._spec.milestones, ordered=self._spec.ordered)

    @property
    def max_turns(self) -> int:
        """The task's own horizon."""
        return self._spec.max_turns

    @property
    def progress(self) -> float | None:
        """The share of milestones reached."""
        return self._milestones.progress

    async def set_up(self) -> None:
        """Carry out the set-up steps."""
        await set_up(self._spec, self._computer)

    async def look(self) -> None:
        """Look for milestones."""
        evidence = checks.Evidence(self._computer, None, self._judge)
        await self._milestones.look(evidence, is_end=False)

    async def grade(self, ended: Ended | None) -> Grade:
        """Evaluate the checks, and the milestones for a last time."""
        evidence = checks.Evidence(self._computer, ended, self._judge)
        await self._milestones.look(evidence, is_end=True)
        return await checks.grade(self._spec, evidence)

    def close(self) -> None:
        """Nothing is kept."""


def make_job(task: Task, tools: Tools, desk: Desk) -> Job:
    """Make the job of a task by its format."""
    kind = task.data.get("format")
    if kind == spec.OURS:
        return OwnJob(task, tools, desk.computer)
    if kind == OSWORLD:
        return OsworldJob(task, tools.python_for(task), desk)
    raise unknown_name(f"format of {task.id}", str(kind), [spec.OURS, OSWORLD])


class Panels:
    """The pack's panels, or a user's own tasks as one panel under every name."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def names(self) -> Sequence[str]:
        """Panel names in the order to list them."""
        return PACK.names() if self._path is None else ("test",)

    def load(self, name: str) -> Panel:
        """Load a panel."""
        if self._path is None:
            return PACK.load(name)
        if name not in self.names():
            raise unknown_name("panel", name, self.names())
        return Panel(name, self._own)

    @cached_property
    def _own(self) -> tuple[Task, ...]:
        assert self._path is not None
        return tuple(read_tasks(self._path))


def read_tasks(path: Path) -> list[Task]:
    """Read a task file, or all of a folder; none at all is a `ConfigError`."""
    if not path.exists():
        raise ConfigError(f"there are no tasks at {path}")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES)
    found = [task for file in files for task in _read_file(file)]
    if not found:
        raise ConfigError(f"{path} holds no task file ({', '.join(SUFFIXES)})")
    return found


SUFFIXES = (".yaml", ".yml", ".json")


def _read_file(path: Path) -> list[Task]:
    if path.suffix == ".json":
        return [read_osworld_file(path)]
    return spec.read_task_file(path)

"""Desktop tasks as an environment: one leased computer per episode, set up, used and judged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from practicum.core.commands import Command
from practicum.core.env import PROGRESS, Script, StepResult
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.desktops.computer import Computer, Screen
from practicum.envs.desktop import tasks
from practicum.envs.desktop.actions import (
    SPACES,
    Ended,
    Performed,
    RefusedError,
    Space,
    describe_space,
)
from practicum.envs.desktop.bodies import Desktops, open_desktops
from practicum.envs.desktop.judge import ScreenJudge
from practicum.envs.desktop.languages import LANGUAGES, Language, LanguageName, make_language
from practicum.envs.desktop.observe import VIEWS, View, observe
from practicum.envs.desktop.players import make_player, make_random_player
from practicum.envs.desktop.spec import ENV_ID
from practicum.envs.desktop.verdict import Grade

RULES = """\
You use a desktop computer with pointer and keyboard to do a task. After each action you are \
shown the desktop again. Say when the task is complete or cannot be done, or answer the question \
that was asked: the result is judged then, and not before."""

SETTLE_TIMEOUT_S = 15.0
"""An office on a busy host needs more than a few seconds to take an action in."""
MAX_TURNS = 40
"""No task of the pack asks for more."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an agent sees and acts."""

    view: View = "tree"
    space: Space = "pixels"
    language: LanguageName = "commands"


class DesktopEpisode:
    """One episode of one task on one computer."""

    def __init__(
        self,
        task: Task,
        computer: Computer,
        options: Options,
        language: Language,
        job: tasks.Job,
    ) -> None:
        self._task = task
        self._computer = computer
        self._options = options
        self._language = language
        self._job = job
        self._num_turns = 0

    async def start(self) -> Observation:
        """Set the task up and show the desktop."""
        await self._job.set_up()
        return await self._observe(f"Task: {self._task.prompt}")

    async def step(self, action: Action) -> StepResult:
        """Carry out one action; judge the result when the agent ends or the horizon is reached."""
        self._num_turns += 1
        try:
            meaning = await self._language.read(action.text, self._computer)
            if isinstance(meaning, Performed):
                await self._perform(meaning)
        except RefusedError as refusal:
            if self._num_turns >= self._job.max_turns:
                return await self._end(None)
            return StepResult(Observation(str(refusal)), is_refused=True, info=self._info())
        if isinstance(meaning, Ended):
            return await self._end(meaning)
        if self._num_turns >= self._job.max_turns:
            return await self._end(None)
        await self._job.look()
        return StepResult(await self._observe("Done."), info=self._info())

    async def conclude(self) -> StepResult:
        """Judge what is there: a task can be done without the agent saying so."""
        return await self._end(None)

    @property
    def progress(self) -> float | None:
        """The share of milestones reached, if the task has any."""
        return self._job.progress

    async def grade(self) -> Grade:
        """Judge the state as it is now, as if the agent had not said anything."""
        return await self._job.grade(None)

    async def _perform(self, meaning: Performed) -> None:
        try:
            await self._computer.perform(meaning.inputs)
        except ValueError as error:
            raise RefusedError(f"That cannot be done: {error}.") from error
        await self._computer.settle(timeout_s=SETTLE_TIMEOUT_S)

    async def _end(self, ended: Ended | None) -> StepResult:
        grade = await self._job.grade(ended)
        words = "The episode has ended." if ended else "The last turn is over."
        info = {**self._info(), "verdict": "graded", "checks": dict(grade.parts)}
        return StepResult(
            Observation(words), grade.score, is_done=True, is_success=grade.is_success, info=info
        )

    def _info(self) -> Mapping[str, object]:
        progress = self._job.progress
        return {} if progress is None else {PROGRESS: progress}

    async def _observe(self, head: str) -> Observation:
        return await observe(self._computer, self._options.view, self._options.space, head)


class Desktop:
    """Desktop tasks on computers of one kind."""

    id = ENV_ID
    max_turns = MAX_TURNS
    is_live = True
    has_milestones = True

    def __init__(
        self,
        desktops: Desktops,
        options: Options,
        panels: tasks.Panels,
        *,
        judge: ScreenJudge | None = None,
        osworld_python: Path | None = None,
    ) -> None:
        self._desktops = desktops
        self._options = options
        self._panels = panels
        self._tools = tasks.Tools(judge, osworld_python)
        self.rules = f"{RULES}\n\n{describe_space(options.space, desktops.screen)}"
        self._language = make_language(options.language, options.space)
        self.commands: Sequence[Command] = self._language.commands
        write = self._language.write
        self.scripts: Mapping[str, Script] = {
            "expert": make_player("oracle", write),
            "negative": make_player("negative", write),
            "random": make_random_player(options.space, desktops.screen, write),
        }

    def panel_names(self) -> Sequence[str]:
        """The pack's panels, or `all` of the user's own tasks under each name."""
        return self._panels.names()

    def panel(self, name: str) -> Panel:
        """Load a panel."""
        panel = self._panels.load(name)
        for task in panel:
            self._tools.require_for(task)
        return panel

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[DesktopEpisode]:
        """Lease a computer for one episode."""
        self._tools.require_for(task)
        async with self._desktops.lease() as desk:
            with closing(tasks.make_job(task, self._tools, desk)) as job:
                yield DesktopEpisode(task, desk.computer, self._options, self._language, job)

    async def aclose(self) -> None:
        """Take the computers down."""
        await self._desktops.aclose()
        await self._tools.aclose()


def create(
    tasks_path: str | None = None,
    body: str = "xvfb",
    view: str = "tree",
    coordinates: str = "pixels",
    actions: str = "commands",
    screen: str = "1280x720",
    judge: str | None = None,
    judge_cache: str = "~/.cache/practicum/judge",
    osworld_python: str | None = None,
    ca_file: str | None = None,
) -> Desktop:
    """Make the environment; called by the registry.

    `tasks_path`: a task file or a folder of them instead of the pack. `body`: `xvfb`,
    `namespace`, the URL of a gateway, whose token is in PRACTICUM_GATEWAY_TOKEN and whose
    certificate is checked against `ca_file`, or Windows Agent Arena's servers as
    `waa+http://HOST:5000,http://…`. `actions`: `commands` or `pyautogui`. `judge`:
    `MODEL@BASE_URL`, for screenshot checks. `osworld_python`: an interpreter that has
    `desktop-env`, for OSWorld's tasks.
    """
    chosen_view = next((name for name in VIEWS if name == view), None)
    if chosen_view is None:
        raise unknown_name("view", view, VIEWS)
    space = next((name for name in SPACES if name == coordinates), None)
    if space is None:
        raise unknown_name("coordinate space", coordinates, SPACES)
    language = next((name for name in LANGUAGES if name == actions), None)
    if language is None:
        raise unknown_name("action language", actions, LANGUAGES)
    if language == "pyautogui" and space != "pixels":
        raise ConfigError(f"pyautogui knows pixels alone: leave coordinates={coordinates} out")
    return Desktop(
        open_desktops(body, _read_screen(screen), Path(ca_file).expanduser() if ca_file else None),
        Options(chosen_view, space, language),
        tasks.Panels(Path(tasks_path).expanduser() if tasks_path else None),
        judge=ScreenJudge(judge, Path(judge_cache).expanduser()) if judge else None,
        osworld_python=Path(osworld_python).expanduser() if osworld_python else None,
    )


def _read_screen(text: str) -> Screen:
    width, times, height = text.partition("x")
    if not (times and width.isdecimal() and height.isdecimal()):
        raise ConfigError(f"screen {text!r} must read WIDTHxHEIGHT, as in 1280x720")
    return Screen(int(width), int(height))

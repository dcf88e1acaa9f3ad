"""The format of our desktop tasks: YAML with an instruction, set-up, checks and milestones.

Unknown keys are refused. The id of a task is the hash of its content. A file holds one task,
or several under `tasks`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, model_validator

from practicum.config.base import StrictConfig, read_config
from practicum.core.errors import ConfigError
from practicum.core.task import Task

ENV_ID = "desktop"
OURS = "practicum"
"""The value of a task's `format` key."""

App = Literal["terminal", "editor", "files", "browser", "calc"]


class TextMatch(StrictConfig):
    """What a text must be like; exactly one way of saying so."""

    equals: str | None = None
    """The same text; blanks and line ends around both do not count."""
    contains: str | None = None
    matches: str | None = None
    """A regular expression that must be found in it."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [self.equals, self.contains, self.matches]
        if sum(value is not None for value in given) != 1:
            raise ValueError("give exactly one of equals, contains, matches")
        return self


class WriteStep(StrictConfig):
    """Put a file on the desktop's disk."""

    do: Literal["write"]
    path: str
    text: str


class RunStep(StrictConfig):
    """Run a command to its end; it must succeed."""

    do: Literal["run"]
    command: str | list[str]
    timeout_s: float = Field(30, gt=0)


class LaunchStep(StrictConfig):
    """Start an application and wait for its window."""

    do: Literal["launch"]
    app: App | None = None
    arguments: list[str] = Field(default_factory=list)
    """For `app`: files or addresses to open."""
    command: list[str] | None = None
    """A program of your own instead of `app`."""
    window: str
    """A part of the title its window has when it is ready."""
    timeout_s: float = Field(60, gt=0)

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        if (self.app is None) == (self.command is None):
            raise ValueError("give exactly one of app, command")
        if self.command is not None and self.arguments:
            raise ValueError("arguments belong to app; put them into command")
        return self


class AwaitStep(StrictConfig):
    """Wait until an element is shown."""

    do: Literal["await"]
    shows: str
    """As in `push button "Save"`."""
    timeout_s: float = Field(30, gt=0)


class ClipboardStep(StrictConfig):
    """Put a text into the clipboard."""

    do: Literal["clipboard"]
    text: str


class ActStep(StrictConfig):
    """Do something with pointer and keyboard, in the words of the agent's actions."""

    do: Literal["act"]
    action: str


SetupStep = Annotated[
    WriteStep | RunStep | LaunchStep | AwaitStep | ClipboardStep | ActStep,
    Field(discriminator="do"),
]


class FileCheck(StrictConfig):
    """A file is there, or is not, or has a content."""

    kind: Literal["file"]
    path: str
    exists: bool = True
    text: TextMatch | None = None

    @model_validator(mode="after")
    def _no_text_of_nothing(self) -> Self:
        if not self.exists and self.text is not None:
            raise ValueError("a file that must not exist has no text")
        return self


class CommandCheck(StrictConfig):
    """A command on the desktop ends and prints as it should."""

    kind: Literal["command"]
    command: str | list[str]
    exit_code: int | None = 0
    """None: any."""
    output: TextMatch | None = None
    timeout_s: float = Field(30, gt=0)


class PythonCheck(StrictConfig):
    """A Python function judges files of the desktop, in a process of its own."""

    kind: Literal["python"]
    code: str
    """Defines `check(files, answer)`: paths by name of those files that exist, and the agent's
    answer or None. Returns a bool."""
    files: list[str] = Field(default_factory=list)
    """Fetched from the desktop before."""
    timeout_s: float = Field(30, gt=0, le=120)


class AccessibilityCheck(StrictConfig):
    """An element of the accessibility tree is there."""

    kind: Literal["accessibility"]
    role: str | None = None
    name: TextMatch | None = None
    text: TextMatch | None = None
    states: list[str] = Field(default_factory=list)
    exists: bool = True


class WindowCheck(StrictConfig):
    """A window with a title is there."""

    kind: Literal["window"]
    title: TextMatch
    exists: bool = True


class ScreenshotCheck(StrictConfig):
    """A vision-language model says yes or no to a question about the screen."""

    kind: Literal["screenshot"]
    question: str


class AnswerCheck(StrictConfig):
    """The agent gave an answer, and the right one."""

    kind: Literal["answer"]
    text: TextMatch


class InfeasibleCheck(StrictConfig):
    """The task cannot be done, and the agent said so."""

    kind: Literal["infeasible"]


Check = Annotated[
    FileCheck
    | CommandCheck
    | PythonCheck
    | AccessibilityCheck
    | WindowCheck
    | ScreenshotCheck
    | AnswerCheck
    | InfeasibleCheck,
    Field(discriminator="kind"),
]


class Milestone(StrictConfig):
    """Something reached on the way. Reported apart from the verdict; never part of it."""

    name: str
    check: Check
    weight: float = Field(1.0, gt=0)
    at: Literal["turn", "end"] = "turn"
    """When it is looked for: after every turn, or once the episode ends."""


class OracleStep(StrictConfig):
    """One turn of a programmed player."""

    act: str
    """An action; `[role "name"]` stands for the coordinates of an element that is shown."""
    when: str | None = None
    """An element to wait for first, as in `push button "Save"` or `window "Save As"`."""


class TaskSpec(StrictConfig):
    """One desktop task."""

    instruction: str = Field(min_length=1)
    apps: list[App] = Field(default_factory=list)
    setup: list[SetupStep] = Field(default_factory=list)
    checks: list[Check] = Field(min_length=1)
    combine: Literal["all", "any"] = "all"
    milestones: list[Milestone] = Field(default_factory=list)
    ordered: bool = False
    """A milestone counts only once all those before it do."""
    max_turns: int = Field(30, ge=1)
    """The episode is judged and ends after this many actions, whatever the agent says."""
    oracle: list[OracleStep] = Field(default_factory=list)
    """A way to do it: must score 1 in `practicum check`."""
    negative: list[OracleStep] = Field(default_factory=list)
    """A likely mistake: must score 0 in `practicum check`."""
    family: str = ""
    """Tasks of one family are never in two panels."""
    difficulty: str = ""

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        names = [milestone.name for milestone in self.milestones]
        if len(set(names)) < len(names):
            raise ValueError("two milestones have the same name")
        if self.ordered and any(milestone.at == "end" for milestone in self.milestones[:-1]):
            raise ValueError("in order, only the last milestone can be looked for at the end")
        return self

    def to_task(self, split: str = "") -> Task:
        """Make the task; its id comes from the content."""
        data = self.model_dump(
            mode="json", exclude_defaults=True, exclude={"instruction", "family", "difficulty"}
        )
        return Task.create(
            ENV_ID,
            self.instruction,
            {"format": OURS, **data},
            split=split,
            difficulty=self.difficulty or "+".join(self.apps),
            family=self.family,
        )

    @classmethod
    def of(cls, task: Task) -> TaskSpec:
        """Read the spec back from a task of ours."""
        data = {key: value for key, value in task.data.items() if key != "format"}
        return read_config(cls, values={"instruction": task.prompt, **data})


class TaskFile(StrictConfig):
    """Several tasks in one file."""

    tasks: list[TaskSpec] = Field(min_length=1)


def read_task_file(path: Path) -> list[Task]:
    """Read a YAML file of one task or several; a mistake in it is a `ConfigError`."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and "tasks" in content:
            return [spec.to_task() for spec in read_config(TaskFile, values=content).tasks]
        return [read_config(TaskSpec, path=path).to_task()]
    except (ConfigError, OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {str(error).replace(chr(10), ' ')}") from error

"""The self-test of desktop tasks: untouched must score 0, the oracle 1, the likely mistake 0.

Every part is played on a computer of its own, through the environment, as an agent would. A
task that breaks is not a task that fails: the verdict says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from practicum.core.agent import Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import PROGRESS, Script, StepResult
from practicum.core.episode import Completion, Turn
from practicum.core.errors import EpisodeError
from practicum.core.task import Task
from practicum.envs.desktop.env import Desktop
from practicum.envs.desktop.verdict import Verdict, verdict_of

PARTS = ("untouched", "oracle", "negative")
ENDS = ("done", "fail", "answer", "DONE", "FAIL", "ANSWER")
WANTED = {"untouched": 0.0, "oracle": 1.0, "negative": 0.0}


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One part of the self-test of one task."""

    task: Task
    part: str
    verdict: Verdict
    score: float | None
    """None where nothing was graded."""
    num_turns: int
    detail: str = ""

    @property
    def is_passed(self) -> bool:
        """It was graded, with the score the part must have."""
        return self.verdict is Verdict.GRADED and self.score == WANTED[self.part]


async def run_self_test(
    desktop: Desktop,
    tasks: Sequence[Task],
    *,
    concurrency: int = 1,
    on_result: Callable[[SelfTest], None] = lambda _: None,
) -> list[SelfTest]:
    """Test tasks, some at once; results come in the order of the tasks."""
    slots = asyncio.Semaphore(concurrency)

    async def test(task: Task, part: str) -> SelfTest:
        async with slots:
            result = await _test(desktop, task, part)
        on_result(result)
        return result

    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(test(task, part)) for task in tasks for part in PARTS]
    return [job.result() for job in jobs]


async def _test(desktop: Desktop, task: Task, part: str) -> SelfTest:
    missing = part != "untouched" and not task.data.get(part)
    if missing:
        return SelfTest(task, part, Verdict.SETUP_ERROR, None, 0, f"the task has no {part}")
    try:
        if part == "untouched":
            return await _test_untouched(desktop, task)
        name = "expert" if part == "oracle" else part
        turns, last = await _play(desktop, task, desktop.scripts[name])
    except EpisodeError as error:
        return SelfTest(task, part, verdict_of(error), None, 0, str(error))
    assert last is not None
    score = sum(turn.reward for turn in turns)
    detail = ", ".join(f"{name}: {value:g}" for name, value in last.info.get("checks", {}).items())
    stopped = _stopped_early(turns)
    if stopped:
        # A mistake that was never made says nothing about the checks.
        return SelfTest(task, part, Verdict.GRADED, None, len(turns), stopped)
    return SelfTest(task, part, Verdict.GRADED, score, len(turns), detail)


def _stopped_early(turns: Sequence[Turn]) -> str:
    """Say why a player did not do all it wanted to; empty if it did."""
    refused = [turn for turn in turns if turn.is_refused]
    if refused:
        return f"refused: {refused[0].completion.text!r}"
    if turns[-1].completion.text.split(" ", 1)[0] in ENDS:
        return ""
    return f"it never ended; last shown: {_shorten(turns[-1])}"


async def _test_untouched(desktop: Desktop, task: Task) -> SelfTest:
    async with desktop.open(task) as episode:
        await episode.start()
        grade = await episode.grade()
        progress = episode.progress
    if progress:
        return SelfTest(
            task, "untouched", Verdict.GRADED, 1.0, 0, f"milestones are at {progress:g} already"
        )
    return SelfTest(task, "untouched", Verdict.GRADED, grade.score, 0)


async def _play(
    desktop: Desktop, task: Task, script: Script
) -> tuple[list[Turn], StepResult | None]:
    turns: list[Turn] = []
    result: StepResult | None = None
    async with desktop.open(task) as episode:
        observation = await episode.start()
        while len(turns) < desktop.max_turns and not (result and result.is_done):
            seed = stable_seed(0, task.id, len(turns))
            action = script(Situation(task, 0, turns, observation, seed)).action
            result = await episode.step(action)
            turns.append(
                Turn(
                    observation,
                    Completion(action.text),
                    action,
                    reward=result.reward,
                    is_refused=result.is_refused,
                    progress=result.info.get(PROGRESS),
                )
            )
            observation = result.observation
    return turns, result


def _shorten(turn: Turn) -> str:
    return turn.observation.text[-400:].replace("\n", " / ")

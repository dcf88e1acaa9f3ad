"""Checks of a desktop's state. One that cannot be evaluated raises; it is never just False.

What the agent did not do (a file it did not write, a window it did not open) is False. What
keeps us from looking (a broken machine, a judge that does not answer, a check whose own code
fails) is an `EpisodeError`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from practicum.core.errors import RewardError
from practicum.core.message import Image
from practicum.desktops.computer import Computer, Node
from practicum.envs.desktop import spec
from practicum.envs.desktop.actions import Ended
from practicum.envs.desktop.observe import walk
from practicum.envs.desktop.python_check import run_python_check
from practicum.envs.desktop.verdict import Grade

Judge = Callable[[Image, str], Awaitable[bool]]
"""Says yes or no to a question about a picture."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What checks can look at."""

    computer: Computer
    ended: Ended | None = None
    """What the agent said at its end; None while it goes on."""
    judge: Judge | None = None


async def grade(task: spec.TaskSpec, evidence: Evidence) -> Grade:
    """Evaluate all checks of a task."""
    parts: dict[str, float] = {}
    for number, check in enumerate(task.checks, start=1):
        parts[f"{number} {check.kind}"] = float(await holds(check, evidence))
    # A task that can be done is not done by an agent that says it cannot.
    if evidence.ended is not None and evidence.ended.how == "fail" and not _is_infeasible(task):
        return Grade(0.0, parts)
    combine = min if task.combine == "all" else max
    return Grade(combine(parts.values()), parts)


def _is_infeasible(task: spec.TaskSpec) -> bool:
    return any(isinstance(check, spec.InfeasibleCheck) for check in task.checks)


async def holds(check: Any, evidence: Evidence) -> bool:
    """Evaluate one check."""
    return await _EVALUATE[type(check)](check, evidence)


async def _file(check: spec.FileCheck, evidence: Evidence) -> bool:
    try:
        data = await evidence.computer.read_file(check.path)
    except FileNotFoundError:
        return not check.exists
    if not check.exists:
        return False
    return check.text is None or fits(check.text, data.decode("utf-8", errors="replace"))


async def _command(check: spec.CommandCheck, evidence: Evidence) -> bool:
    result = await evidence.computer.run(check.command, timeout_s=check.timeout_s)
    if result.exit_code in (126, 127):
        raise RewardError(
            f"the check's command {check.command!r} cannot be run (exit code "
            f"{result.exit_code}): {result.error.strip()[:200]}",
            kind="check",
        )
    if check.exit_code is not None and result.exit_code != check.exit_code:
        return False
    return check.output is None or fits(check.output, result.output)


async def _python(check: spec.PythonCheck, evidence: Evidence) -> bool:
    contents: dict[str, bytes] = {}
    for path in check.files:
        try:
            contents[path] = await evidence.computer.read_file(path)
        except FileNotFoundError:
            continue
    ended = evidence.ended
    answer = ended.answer if ended is not None and ended.how == "answer" else None
    return await run_python_check(check.code, contents, answer, check.timeout_s)


async def _accessibility(check: spec.AccessibilityCheck, evidence: Evidence) -> bool:
    tree = await evidence.computer.accessibility()
    return any(_is_like(node, check) for node in walk(tree)) == check.exists


def _is_like(node: Node, check: spec.AccessibilityCheck) -> bool:
    return (
        (check.role is None or node.role == check.role)
        and (check.name is None or fits(check.name, node.name))
        and (check.text is None or fits(check.text, node.text))
        and set(check.states) <= node.states
    )


async def _window(check: spec.WindowCheck, evidence: Evidence) -> bool:
    windows = await evidence.computer.windows()
    return any(fits(check.title, window.title) for window in windows) == check.exists


async def _screenshot(check: spec.ScreenshotCheck, evidence: Evidence) -> bool:
    if evidence.judge is None:
        raise RewardError(
            "a screenshot check needs a model to ask: give the option judge=MODEL@BASE_URL",
            kind="check",
        )
    return await evidence.judge(await evidence.computer.screenshot("png"), check.question)


async def _answer(check: spec.AnswerCheck, evidence: Evidence) -> bool:
    ended = evidence.ended
    return ended is not None and ended.how == "answer" and fits(check.text, ended.answer)


async def _infeasible(check: spec.InfeasibleCheck, evidence: Evidence) -> bool:  # noqa: ARG001
    return evidence.ended is not None and evidence.ended.how == "fail"


def fits(match: spec.TextMatch, text: str) -> bool:
    """Say whether a text is as it must be."""
    if match.equals is not None:
        return text.strip() == match.equals.strip()
    if match.contains is not None:
        return match.contains in text
    assert match.matches is not None
    return re.search(match.matches, text) is not None


_EVALUATE: dict[type, Callable[[Any, Evidence], Awaitable[bool]]] = {
    spec.FileCheck: _file,
    spec.CommandCheck: _command,
    spec.PythonCheck: _python,
    spec.AccessibilityCheck: _accessibility,
    spec.WindowCheck: _window,
    spec.ScreenshotCheck: _screenshot,
    spec.AnswerCheck: _answer,
    spec.InfeasibleCheck: _infeasible,
}

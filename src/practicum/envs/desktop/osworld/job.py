"""One episode of an OSWorld task: its set-up, and its grade from OSWorld's own evaluators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from practicum.core.errors import RewardError
from practicum.core.task import Task
from practicum.envs.desktop.actions import Ended
from practicum.envs.desktop.bodies import Address, Desk
from practicum.envs.desktop.osworld.verbs import Stage, run_steps
from practicum.envs.desktop.python_check import run_isolated
from practicum.envs.desktop.verdict import Grade

MAX_TURNS = 15
"""OSWorld's customary horizon."""
GRADE_TIMEOUT_S = 300.0
DOWNLOADS = Path("~/.cache/practicum/osworld").expanduser()


class OsworldJob:
    """An episode of a task in OSWorld's format."""

    max_turns = MAX_TURNS
    progress: float | None = None

    def __init__(self, task: Task, python: Path, desk: Desk) -> None:
        self._task: Mapping[str, Any] = task.data["task"]
        self._python = python
        self._desk = desk
        # Evaluators find there what set-up steps kept.
        self._folder = TemporaryDirectory(prefix="practicum-osworld-")

    async def set_up(self) -> None:
        """Carry out `config`."""
        await run_steps(self._task.get("config", []), self._stage())
        await self._desk.computer.settle()

    async def look(self) -> None:
        """OSWorld's tasks have no milestones."""

    async def grade(self, ended: Ended | None) -> Grade:
        """Carry out `postconfig` and evaluate, in a process with a deadline."""
        evaluator = self._task["evaluator"]
        await run_steps(evaluator.get("postconfig", []), self._stage())
        func = evaluator["func"]
        name = "+".join(func) if isinstance(func, list) else str(func)
        has_failed = ended is not None and ended.how == "fail"
        if evaluator["func"] == "infeasible":
            return _graded(float(has_failed), "infeasible")
        if has_failed:
            return _graded(0.0, name)
        async with self._desk.reach() as address:
            score = await self._evaluate(evaluator, address)
        return _graded(score, name)

    def close(self) -> None:
        """Remove what set-up steps kept."""
        self._folder.cleanup()

    async def _evaluate(self, evaluator: Mapping[str, Any], address: Address) -> float:
        request = {**asdict(address), "evaluator": evaluator, "cache_dir": self._folder.name}
        worker = Path(__file__).with_name("worker.py")
        output, error, exit_code = await run_isolated(
            [str(self._python), str(worker)],
            json.dumps(request).encode(),
            GRADE_TIMEOUT_S,
            "OSWorld's evaluator",
        )
        answer = json.loads(output) if exit_code == 0 and output else {}
        if "score" not in answer:
            reason = answer.get("error") or error.strip()[-300:]
            raise RewardError(f"OSWorld's evaluator failed: {reason}", kind="check")
        return float(answer["score"])

    def _stage(self) -> Stage:
        return Stage(self._desk.computer, Path(self._folder.name), DOWNLOADS)


def _graded(score: float, name: str) -> Grade:
    return Grade(min(1.0, max(0.0, score)), {name: score})

"""SearchQA tasks: a question, the collection it is asked about, and the golden answers."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.core.task import Task
from practicum.envs.panels import PanelFolder

ENV_ID = "searchqa"

PANELS = PanelFolder("practicum.envs.text.searchqa")


def make_task(
    question: str,
    golden: Sequence[str],
    corpus_id: str,
    *,
    split: str,
    difficulty: str = "",
    family: str = "",
) -> Task:
    """Make the task of answering a question from a collection."""
    return Task.create(
        ENV_ID,
        prompt=question,
        data={"corpus": corpus_id, "golden_answers": list(golden)},
        split=split,
        difficulty=difficulty,
        family=family,
    )


def first_observation(task: Task) -> str:
    """What the agent sees first."""
    return f"Question: {task.prompt}"

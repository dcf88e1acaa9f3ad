"""Builds the shipped panels: `python -m practicum.envs.text.searchqa.freeze`.

Whole lands are given to a split, in hash order. No fact crosses a border between lands, so
no fact behind a training question is behind a held-out one. Within a split, a family is
the fact that gives the answer: questions that arrive there by different chains, or in other
words, count as one. A test rebuilds the panels and compares them with the shipped files.
"""

from __future__ import annotations

from pathlib import Path

from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.searchqa.lands.draws import shuffled
from practicum.envs.text.searchqa.lands.facts import Land, load_lands
from practicum.envs.text.searchqa.lands.passages import CORPUS_ID
from practicum.envs.text.searchqa.lands.questions import Question, choose, questions_about
from practicum.envs.text.searchqa.tasks import make_task

NUM_LANDS = {"test": 7, "dev": 4}
"""The rest trains."""
PER_LAND = {
    "train": {"1 hop": 14, "2 hops": 22, "3 hops": 21, "comparison": 10},
    "dev": {"1 hop": 10, "2 hops": 15, "3 hops": 15, "comparison": 10},
    "test": {"1 hop": 12, "2 hops": 19, "3 hops": 19, "comparison": 10},
}


def build_panels() -> dict[str, list[Task]]:
    """Make every panel from the lands alone."""
    return {
        split: [task_of(question, land, split) for land, question in chosen]
        for split, chosen in choose_questions().items()
    }


def choose_questions() -> dict[str, list[tuple[Land, Question]]]:
    """Choose the questions of every split, with the lands they are about."""
    lands = {land.name: land for land in load_lands()}
    order = shuffled(lands, "split")
    num_test, num_dev = NUM_LANDS["test"], NUM_LANDS["dev"]
    split_of = {
        name: "test" if i < num_test else "dev" if i < num_test + num_dev else "train"
        for i, name in enumerate(order)
    }
    return {
        split: [
            (lands[name], question)
            for name in sorted(lands)
            if split_of[name] == split
            for question in choose(questions_about(lands[name]), PER_LAND[split])
        ]
        for split in ("train", "dev", "test")
    }


def task_of(question: Question, land: Land, split: str) -> Task:
    """Make a question a task."""
    thing, relation = question.facts[-1]
    return make_task(
        question.text,
        [question.answer],
        CORPUS_ID,
        split=split,
        difficulty=question.difficulty,
        family=f"{land.name}/{thing}/{relation}",
    )


if __name__ == "__main__":
    write_panels(Path(__file__).parent / "panels", build_panels())

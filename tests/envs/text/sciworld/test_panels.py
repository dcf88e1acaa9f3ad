"""The shipped panels, and that the engine makes the same ones again."""

from __future__ import annotations

import json
from pathlib import Path

import practicum.envs.text.sciworld as package
from practicum.core.task import Task
from practicum.envs.panels import panel_texts
from practicum.envs.text.sciworld.engine import Spec
from practicum.envs.text.sciworld.env import SciWorld
from practicum.envs.text.sciworld.freeze import SAMPLED, TASK_NAMES, Solution, assemble, solve
from practicum.envs.text.sciworld.gold import gold_path, gold_text
from practicum.envs.text.sciworld.tasks import MAX_TURNS, difficulty, make_task

FOLDER = Path(package.__path__[0]) / "panels"


def all_tasks(environment: SciWorld) -> list[Task]:
    return [task for name in environment.panel_names() for task in environment.panel(name)]


def test_the_files_hold_exactly_the_panels(sciworld: SciWorld) -> None:
    panels = {name: sciworld.panel(name).tasks for name in sciworld.panel_names()}
    assert tuple(panels) == ("train", "dev", "test")
    for name, text in panel_texts(panels).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text
    paths = {task.id: gold_path(task.id) for task in all_tasks(sciworld)}
    assert (FOLDER / "gold.jsonl").read_text(encoding="utf-8") == gold_text(paths)
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_500_000


async def test_a_fresh_rebuild_gives_the_shipped_tasks_and_paths(sciworld: SciWorld) -> None:
    # Short ones of types whose paths wander through the house: seconds for each.
    types = (
        "test-conductivity-of-unknown-substances",
        "chemistry-mix-paint-tertiary-color",
        "lifespan-shortest-lived",
        "find-animal",
    )
    pool = sciworld._started_pool()
    for name in types:
        of_type = [task for task in all_tasks(sciworld) if task.data["task"] == name]
        task = min(of_type, key=lambda task: len(gold_path(task.id)))
        solution = await solve(pool, Spec(name, task.data["variation"]), task.split)
        assert solution.task == task
        assert solution.gold == gold_path(task.id)
        assert solution.score == 100


def test_every_task_type_is_in_every_split_and_fits_the_horizon(sciworld: SciWorld) -> None:
    for split in SAMPLED:
        tasks = sciworld.panel(split).tasks
        names = {task.data["task"] for task in tasks}
        assert len(names) >= len(TASK_NAMES) - 1, set(TASK_NAMES) - names
        for task in tasks:
            assert task.split == split
            assert len(gold_path(task.id)) <= MAX_TURNS
            assert task.difficulty == difficulty(len(gold_path(task.id)))


def test_equal_goals_with_equal_paths_are_one_family(sciworld: SciWorld) -> None:
    families: dict[str, set[str]] = {}
    for task in all_tasks(sciworld):
        content = json.dumps([task.data["task"], task.prompt, gold_path(task.id)])
        families.setdefault(content, set()).add(task.family)
    assert all(len(names) == 1 for names in families.values())
    assert len({name for names in families.values() for name in names}) == len(families)


def test_a_family_found_in_two_splits_stays_in_the_later_one() -> None:
    def solution(variation: int, split: str, gold: tuple[str, ...], score: int = 100) -> Solution:
        return Solution(Spec("boil", variation), split, "Boil it.", gold, score)

    panels, paths = assemble(
        [
            solution(0, "train", ("wait",)),
            solution(1, "train", ("look around",)),
            solution(2, "dev", ("wait",)),
            solution(3, "dev", ("wait1",), score=90),
            solution(4, "test", ("wait1",) * 101),
        ]
    )
    kept = {split: [task.data["variation"] for task in tasks] for split, tasks in panels.items()}
    assert kept == {"train": [1], "dev": [2], "test": []}
    assert len(paths) == 2


def test_a_task_is_its_content_and_its_gold_path_only_describes_it() -> None:
    one = make_task("boil", 0, description="Boil it.", gold=("wait",))
    other = make_task("boil", 0, description="Boil it.", gold=("wait",) * 60, split="dev")
    assert one.id == other.id
    assert (one.difficulty, other.difficulty) == ("short", "long")
    assert one.family != other.family

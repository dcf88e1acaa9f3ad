"""Builds the shipped panels: `python -m practicum.envs.text.sciworld.freeze`.

From each task and each of the engine's own splits, a few variations at even distances are
solved by the engine, and its path is played back. Kept is what ends with a full score
within the horizon; of 768 paths 763 end so, 39 of them too late. It takes half an
hour or more; a test rebuilds some of the tasks and compares them with the shipped files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from practicum.core.task import Task
from practicum.envs.panels import write_panels
from practicum.envs.text.sciworld.engine import NOT_UNDERSTOOD, Spec
from practicum.envs.text.sciworld.gold import FILE_NAME, gold_text
from practicum.envs.text.sciworld.pool import EnginePool
from practicum.envs.text.sciworld.tasks import MAX_TURNS, make_task

SAMPLED = {"train": 20, "dev": 6, "test": 6}
"""Variations of a task, at most, per split."""
NUM_JVMS = 2

TASK_NAMES = (
    "boil",
    "melt",
    "freeze",
    "change-the-state-of-matter-of",
    "use-thermometer",
    "measure-melting-point-known-substance",
    "measure-melting-point-unknown-substance",
    "power-component",
    "power-component-renewable-vs-nonrenewable-energy",
    "test-conductivity",
    "test-conductivity-of-unknown-substances",
    "find-living-thing",
    "find-non-living-thing",
    "find-plant",
    "find-animal",
    "grow-plant",
    "grow-fruit",
    "chemistry-mix",
    "chemistry-mix-paint-secondary-color",
    "chemistry-mix-paint-tertiary-color",
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
    "lifespan-longest-lived-then-shortest-lived",
    "identify-life-stages-1",
    "identify-life-stages-2",
    "inclined-plane-determine-angle",
    "inclined-plane-friction-named-surfaces",
)
"""All but three: the gold paths of friction on unnamed surfaces and of both Mendelian
tasks run to 140 actions and more."""

_SYNONYMS = (
    (re.compile(r"examine (.+)"), r"look at \1"),
    (re.compile(r"drop (.+)"), r"put down \1"),
    (re.compile(r"pour (?!.* into )(.+) in ((?:jug|bowl|cup)\b.*)"), r"pour \1 into \2"),
)
"""What gold paths say, and what the agent is told to say."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A variation, solved by the engine and played back."""

    spec: Spec
    split: str
    description: str
    gold: tuple[str, ...]
    score: int
    """What the path earned when it was played back."""

    @property
    def is_kept(self) -> bool:
        """Whether the path wins within the horizon."""
        return self.score == 100 and len(self.gold) <= MAX_TURNS

    @property
    def task(self) -> Task:
        """The task of this variation."""
        return make_task(
            self.spec.task,
            self.spec.variation,
            description=self.description,
            gold=self.gold,
            simplifications=self.spec.simplifications,
            split=self.split,
        )


async def solve(pool: EnginePool, spec: Spec, split: str) -> Solution:
    """Let the engine solve a variation and play its path until it ends."""
    async with pool.world(spec) as (engine, world):
        path = [_in_our_words(action) for action in await engine.gold_path(spec)]
        played: list[str] = []
        score = 0
        for action in path:
            reply = await engine.step(world, action)
            if reply.text.startswith(NOT_UNDERSTOOD):
                continue  # nothing happened, so it is no part of the way
            played.append(action)
            score = reply.score
            if reply.is_completed or score < 0:
                break
        return Solution(spec, split, world.description, tuple(played), score)


async def sampled_specs(pool: EnginePool) -> list[tuple[Spec, str]]:
    """The variations to solve, with their splits, at even distances."""
    specs = []
    for name in TASK_NAMES:
        async with pool.world(Spec(name, 0)) as (engine, _):
            variations = await engine.variations(name)
        for split, most in SAMPLED.items():
            given = variations[split]
            count = min(most, len(given))
            specs += [(Spec(name, given[i * len(given) // count]), split) for i in range(count)]
    return specs


def assemble(solutions: Iterable[Solution]) -> tuple[dict[str, list[Task]], dict[str, list[str]]]:
    """Make panels and gold paths; a family in two splits stays in the later one only."""
    panels: dict[str, list[Task]] = {split: [] for split in SAMPLED}
    paths: dict[str, list[str]] = {}
    kept = [solution for solution in solutions if solution.is_kept]
    order = list(SAMPLED)
    last_split: dict[str, str] = {}
    for split in order:
        last_split |= {s.task.family: split for s in kept if s.split == split}
    for solution in kept:
        task = solution.task
        if last_split[task.family] == task.split:
            panels[task.split].append(task)
            paths[task.id] = list(solution.gold)
    return panels, paths


def write(
    folder: Path, panels: Mapping[str, Sequence[Task]], paths: Mapping[str, Sequence[str]]
) -> None:
    """Write the panel files and the gold paths."""
    write_panels(folder, panels)
    (folder / FILE_NAME).write_text(gold_text(paths), encoding="utf-8")


async def solve_all() -> list[Solution]:
    """Solve every sampled variation, a few at a time, in order."""
    pool = EnginePool(NUM_JVMS)
    slots = asyncio.Semaphore(NUM_JVMS)

    async def solve_in_slot(spec: Spec, split: str) -> Solution:
        async with slots:
            return await solve(pool, spec, split)

    try:
        specs = await sampled_specs(pool)
        return await asyncio.gather(*(solve_in_slot(*each) for each in specs))
    finally:
        await pool.aclose()


def _in_our_words(action: str) -> str:
    for theirs, ours in _SYNONYMS:
        if match := theirs.fullmatch(action):
            return match.expand(ours)
    return action


if __name__ == "__main__":
    write(Path(__file__).parent / "panels", *assemble(asyncio.run(solve_all())))

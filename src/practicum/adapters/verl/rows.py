"""Tasks as rows of verl's tables. A row says all there is to know to play its episodes.

The columns are verl's own: `prompt`, `data_source`, `ability`, `reward_model`, `extra_info` and
`agent_name`. What our agent loop needs is one JSON text in `extra_info`, since a parquet column
has one type and environments keep different data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from practicum.adapters.exporting import TaskSet
from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.base import StrictConfig
from practicum.config.eval import LimitsConfig
from practicum.config.train import RlConfig
from practicum.core.agent import Prompt, Sampling, Situation
from practicum.core.episode import Completion
from practicum.core.errors import ConfigError, PolicyError
from practicum.core.message import Message
from practicum.core.task import Task

Row = dict[str, Any]

AGENT_NAME = "practicum"
"""Which agent loop plays a row."""
SPEC = "practicum"
"""The key in `extra_info`."""
NUM_OPEN = 16
"""Environments opened at once to see what they show first."""


class TaskBody(StrictConfig):
    """A task as text; its id must be the hash of the rest."""

    id: str
    env_id: str
    prompt: str
    data: dict[str, Any]
    split: str = ""
    difficulty: str = ""
    family: str = ""

    def task(self) -> Task:
        """The task; one that was edited is a `ConfigError`."""
        task = Task(**self.model_dump())
        task.verify()
        return task


class EpisodeSpec(StrictConfig):
    """How the episodes of a row are played."""

    part: str
    """The environment's name in the run."""
    env: str
    options: dict[str, Any]
    format: str
    max_tokens: int
    """Limit for one answer."""
    limits: LimitsConfig
    retries: int
    """A broken episode is played again this often."""
    min_judged: int
    """A group with fewer judged episodes teaches nothing."""
    is_held_out: bool
    task: TaskBody


class _NoPolicy:
    """Fills a policy's place where only prompts are made."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        raise PolicyError(f"nobody answers {prompt.situation.task.id}: only prompts are made")

    async def aclose(self) -> None:
        """Release nothing."""


async def training_rows(config: RlConfig, sets: Sequence[TaskSet]) -> list[Row]:
    """One row a task; where shares are weighted, tasks stand there as often as they are due."""
    rows = await _rows(config, sets, is_held_out=False)
    return [row for name, count in _shares(sets).items() for row in _cycled(rows[name], count)]


async def held_out_rows(config: RlConfig, sets: Sequence[TaskSet]) -> list[Row]:
    """One row a task that is judged."""
    rows = await _rows(config, sets, is_held_out=True)
    return [row for part in rows.values() for row in part]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write a parquet file that verl's dataset reads."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ConfigError("writing parquet needs pyarrow: pip install pyarrow") from error
    for index, row in enumerate(rows):
        row["extra_info"] = {**row["extra_info"], "index": index}
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


async def _rows(
    config: RlConfig, sets: Sequence[TaskSet], *, is_held_out: bool
) -> dict[str, list[Row]]:
    return {one.name: await _rows_of(config, one, is_held_out) for one in sets}


async def _rows_of(config: RlConfig, one: TaskSet, is_held_out: bool) -> list[Row]:
    agent = ChatAgent(one.environment, get_format(config.format), _NoPolicy(), Sampling())
    slots = asyncio.Semaphore(NUM_OPEN)

    async def row(task: Task) -> Row:
        async with slots:
            prompt = await _first_messages(one, agent, task)
        spec = _spec(config, one, task, is_held_out)
        return {
            "data_source": f"{AGENT_NAME}/{one.name}",
            "agent_name": AGENT_NAME,
            "prompt": prompt,
            "ability": one.part.env,
            "reward_model": {"style": "environment", "ground_truth": task.id},
            "extra_info": {
                "split": "held-out" if is_held_out else "train",
                "task_id": task.id,
                "family": task.family,
                "difficulty": task.difficulty,
                SPEC: spec.model_dump_json(),
            },
        }

    tasks = one.held_out if is_held_out else one.train
    return list(await asyncio.gather(*(row(task) for task in tasks)))


async def _first_messages(one: TaskSet, agent: ChatAgent, task: Task) -> list[dict[str, str]]:
    async with one.environment.open(task) as env:
        first = await env.start()
    if first.images:
        raise ConfigError(f"{one.name} shows pictures, and our agent loop for verl reads text only")
    return written(agent.messages(Situation(task, 0, (), first, 0)))


def written(messages: Iterable[Message]) -> list[dict[str, str]]:
    """Messages as verl has them."""
    return [{"role": message.role, "content": message.text} for message in messages]


def _spec(config: RlConfig, one: TaskSet, task: Task, is_held_out: bool) -> EpisodeSpec:
    limits = one.part.limits or config.limits
    if is_held_out:
        assert config.evaluate is not None
        changes: dict[str, Any] = {
            "max_turns": one.part.evaluate.max_turns or config.evaluate.max_turns,
            "max_repeated_refusals": config.evaluate.max_repeated_refusals,
        }
        limits = limits.model_copy(update=changes)
    if limits.max_turns is None:
        limits = limits.model_copy(update={"max_turns": one.environment.max_turns})
    groups = config.groups
    return EpisodeSpec(
        part=one.name,
        env=one.part.env,
        options=one.part.options,
        format=config.format,
        max_tokens=config.sampling.max_tokens,
        limits=limits,
        retries=groups.retries,
        min_judged=1 if is_held_out else groups.min_judged or max(2, groups.size // 2),
        is_held_out=is_held_out,
        task=TaskBody(**asdict(task)),
    )


def _shares(sets: Sequence[TaskSet]) -> dict[str, int]:
    """How many rows each environment gets, so that drawing rows draws shares by weight."""
    per_weight = max(len(one.train) / one.part.weight for one in sets)
    return {one.name: round(one.part.weight * per_weight) for one in sets}


def _cycled(rows: Sequence[Row], count: int) -> list[Row]:
    """So many rows, all of them before any comes again."""
    return [{**rows[n % len(rows)]} for n in range(count)]

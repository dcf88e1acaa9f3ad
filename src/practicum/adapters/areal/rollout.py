"""Rollout workflows: episodes on AReaL's engine itself, handed over as tensors.

Token ids are kept as they were sampled, pictures are trained on, and a broken episode costs its
group nothing but itself: it is played again, and if it stays broken a row that trains nothing
takes its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from areal.api import RolloutWorkflow
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.data import concat_padded_tensors

from practicum.adapters.areal.agent import with_defaults
from practicum.adapters.areal.engine import EnginePolicy, Reading, load_reading
from practicum.adapters.areal.episodes import (
    WithdrawnError,
    kept_environment,
    play_once,
    play_with_retries,
    read_task,
)
from practicum.adapters.areal.settings import (
    OSWORLD_DEFAULTS,
    OSWORLD_OPTIONS,
    WAA_DEFAULTS,
    WAA_OPTIONS,
    RolloutSettings,
)
from practicum.adapters.areal.tensors import Row, episode_row, stand_in_row
from practicum.config.base import read_config
from practicum.core.env import Environment
from practicum.core.episode import Episode
from practicum.core.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Member:
    episode: Episode
    row: Row


class PracticumRollout(RolloutWorkflow):  # type: ignore[misc]
    """Episodes of any of our environments, for AReaL's executor."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    default_options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **settings: Any) -> None:
        """Take the keys of `RolloutSettings`; one it does not know is a `ConfigError`."""
        self.settings = read_config(
            RolloutSettings, values=with_defaults(self.defaults, self.default_options, settings)
        )
        size = self.settings.group_size
        self._min_judged = min(size, self.settings.min_judged or max(2, size // 2))

    def reading(self) -> Reading:
        """How the model reads; for a model that AReaL cannot load, override it."""
        return load_reading(self.settings.model)

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Row | None:
        """Play the task of a row; None if it, or too much of its group, is broken."""
        size = self.settings.group_size
        async with kept_environment(self.settings) as environment:
            task = read_task(data, environment)
            async with asyncio.TaskGroup() as group:
                jobs = [
                    group.create_task(self._member(engine, environment, task, sample))
                    for sample in range(size)
                ]
        members = [job.result() for job in jobs]
        judged = [member for member in members if member is not None]
        _note(judged, size)
        if len(judged) < self._min_judged:
            if size > 1:
                logger.warning("%s: %d of %d episodes broke", task.id, size - len(judged), size)
            return None
        rows = [member.row for member in judged]
        rows += [stand_in_row(rows)] * (size - len(judged))
        together: Row = concat_padded_tensors(rows)
        return together

    async def _member(
        self, engine: Any, environment: Environment, task: Task, sample: int
    ) -> _Member | None:
        reading = await asyncio.to_thread(self.reading)
        policies: list[EnginePolicy] = []

        async def play(attempt: int) -> Episode:
            policies.append(EnginePolicy(engine, reading, self.settings.max_context))
            return await play_once(self.settings, environment, policies[-1], task, sample, attempt)

        try:
            episode = await play_with_retries(play, self.settings.retries)
        except WithdrawnError as error:
            logger.warning("%s; it is left out", error)
            return None
        row = await asyncio.to_thread(episode_row, episode, policies[-1].versions, reading.pictures)
        return _Member(episode, row)


class WAADesktopRollout(PracticumRollout):
    """Windows Agent Arena's desktops: JSON actions on screenshots, paid for milestones."""

    defaults = WAA_DEFAULTS
    default_options = WAA_OPTIONS


class OSWorldRollout(PracticumRollout):
    """OSWorld's tasks: pyautogui actions on desktops here or behind a gateway or bridge."""

    defaults = OSWORLD_DEFAULTS
    default_options = OSWORLD_OPTIONS


def _note(judged: Sequence[_Member], size: int) -> None:
    """Let AReaL's statistics have what its own workflows tell it, and how much broke."""
    tracker = stats_tracker.get(workflow_context.stat_scope())
    for member in judged:
        reward = member.episode.reward
        assert reward is not None
        tracker.scalar(
            reward=reward.value,
            success=float(reward.is_success),
            num_turns=float(len(member.episode.turns)),
        )
    tracker.scalar(broken=float(size - len(judged)))

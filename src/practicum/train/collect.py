"""Plays groups until an update has what it can learn from.

A group whose rewards are all equal teaches nothing; the moment that is known another one is
started in its place, up to a limit. With `carry_over`, groups that are under way when the
update has enough stay under way and serve the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.config.train import GroupsConfig
from practicum.core.canonical import stable_seed
from practicum.core.episode import Episode, Group
from practicum.rollout.play import Attempt, play_episode
from practicum.train.algorithms.base import Algorithm, JudgedGroup
from practicum.train.mixture import Mixture, OpenGroup

Record = Callable[[Episode], None]


@dataclass
class Collected:
    """The groups of one update."""

    groups: list[JudgedGroup] = field(default_factory=list)

    @property
    def teaching(self) -> list[JudgedGroup]:
        """Those that teach something."""
        return [g for g in self.groups if g.teaches]

    @property
    def episodes(self) -> list[Episode]:
        """Of all groups."""
        return [e for g in self.groups for e in g.group.episodes]

    def of(self, part: str) -> Collected:
        """The groups of one environment."""
        return Collected([g for g in self.groups if g.part == part])


class Collector:
    """Keeps groups under way and hands over whole ones."""

    def __init__(
        self,
        mixture: Mixture,
        num_slots: int,
        groups: GroupsConfig,
        algorithm: Algorithm[Any],
        record: Record,
    ) -> None:
        self._mixture = mixture
        self._num_slots = num_slots
        self._groups = groups
        self._algorithm = algorithm
        self._record = record
        self._limit = groups.max_per_update or 2 * groups.per_update
        self._min_judged = groups.min_judged or max(2, groups.size // 2)
        self._under_way: dict[asyncio.Task[JudgedGroup], OpenGroup] = {}

    @property
    def open_groups(self) -> list[OpenGroup]:
        """Groups under way, the oldest first."""
        return sorted(self._under_way.values(), key=lambda group: group.number)

    def start(self, group: OpenGroup) -> None:
        """Play what is missing of a group."""
        self._under_way[asyncio.create_task(self._play_group(group))] = group

    async def collect(self) -> Collected:
        """Play until enough groups are informative, or the limit of groups is played."""
        collected = Collected()
        wanted = self._groups.per_update
        while True:
            self._start_groups(collected, wanted)
            if not self._under_way:
                return collected
            done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            # What is done comes as a set, which has no order, and a run must repeat.
            for job in sorted(done, key=lambda job: self._under_way[job].number):
                del self._under_way[job]
                collected.groups.append(job.result())
            is_enough = len(collected.teaching) >= wanted
            if self._groups.carry_over and (is_enough or len(collected.groups) >= self._limit):
                return collected

    def _start_groups(self, collected: Collected, wanted: int) -> None:
        if self._groups.carry_over:
            # Twice what fills the slots: members of a group end at different times, and the
            # slots they leave are taken by groups that wait.
            room = -(-2 * self._num_slots // self._groups.size) - len(self._under_way)
        else:
            missing = wanted - len(collected.teaching) - len(self._under_way)
            room = min(missing, self._limit - len(collected.groups) - len(self._under_way))
        for _ in range(room):
            self.start(self._mixture.next())

    async def _play_group(self, group: OpenGroup) -> JudgedGroup:
        async with asyncio.TaskGroup() as members:
            for sample in range(self._groups.size):
                if sample not in group.ended:
                    members.create_task(self._play_member(group, sample))
        episodes = tuple(group.ended[sample] for sample in range(self._groups.size))
        judged = self._algorithm.judge(Group(group.task, episodes), self._min_judged)
        return replace(judged, part=group.part.name)

    async def _play_member(self, group: OpenGroup, sample: int) -> None:
        """One member of a group; a broken one is played again, and every try is recorded."""
        for retry in range(self._groups.retries + 1):
            seed = stable_seed(group.seed, "retry", retry) if retry else group.seed
            episode = await play_episode(group.part.table, Attempt(group.task, sample, seed))
            self._record(episode)
            if not episode.is_broken:
                break
        group.ended[sample] = episode

    async def aclose(self) -> None:
        """Drop what is under way."""
        for job in self._under_way:
            job.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._under_way.clear()

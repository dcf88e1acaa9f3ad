"""Plays groups until an update has what it can learn from.

A group whose rewards are all equal teaches nothing; the moment that is known another one is
started in its place, up to a limit. With `carry_over`, groups that are under way when the
update has enough stay under way and serve the next one. With a staleness bound above zero
they do so too, and groups are started ahead, but an update waits for every group that the
next one could no longer learn from: none is ever thrown away, so long episodes are as likely
to be learned from as short ones.
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
        max_staleness: int = 0,
    ) -> None:
        self._mixture = mixture
        self._num_slots = num_slots
        self._groups = groups
        self._algorithm = algorithm
        self._record = record
        self._limit = groups.max_per_update or 2 * groups.per_update
        self._min_judged = groups.min_judged or max(2, groups.size // 2)
        self._max_staleness = max_staleness
        self.version = 0
        """Updates the weights have seen that sample now."""
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
        if self._max_staleness:
            self._take(collected)
        while True:
            self._start_groups(collected)
            # With a bound, groups that have ended can be left for the next update.
            waiting = [j for j in self._under_way if not (self._max_staleness and j.done())]
            if self._is_ready(collected) or not waiting:
                return collected
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            self._take(collected)

    def _is_enough(self, collected: Collected) -> bool:
        is_taught = len(collected.teaching) >= self._groups.per_update
        return is_taught or len(collected.groups) >= self._limit

    def _is_ready(self, collected: Collected) -> bool:
        if not self._is_enough(collected):
            return False
        if self._groups.carry_over:
            return True
        return not any(self._is_due(group) for group in self._under_way.values())

    def _is_due(self, group: OpenGroup) -> bool:
        """Whether the next update could no longer learn from it."""
        return self.version - group.version >= self._max_staleness

    def _take(self, collected: Collected) -> None:
        """Hand over groups that have ended: all that are due, others until there are enough."""
        done = [job for job in self._under_way if job.done()]
        # They ended in no order that repeats, and a run must repeat.
        for job in sorted(done, key=lambda job: self._under_way[job].number):
            group = self._under_way[job]
            if self._groups.carry_over or self._is_due(group) or not self._is_enough(collected):
                del self._under_way[job]
                collected.groups.append(job.result())

    def _start_groups(self, collected: Collected) -> None:
        wanted, outstanding = self._groups.per_update, len(self._under_way)
        if self._groups.carry_over:
            if self._is_enough(collected):
                return
            # Twice what fills the slots: members of a group end at different times, and the
            # slots they leave are taken by groups that wait.
            room = -(-2 * self._num_slots // self._groups.size) - outstanding
        else:
            missing = wanted - len(collected.teaching)
            room = min(missing, self._limit - len(collected.groups))
            # Groups for later updates: as many as may still be learned from by then.
            room = max(0, room) + self._max_staleness * wanted - outstanding
        for _ in range(room):
            group = self._mixture.next()
            group.version = self.version
            self.start(group)

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

"""Our environments as TRL's `environment_factory` wants them: `reset`, one tool, `get_reward`."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

from practicum.adapters.stepwise import Moment, World
from practicum.core.canonical import canonical_json
from practicum.core.episode import Episode
from practicum.core.errors import EpisodeError
from practicum.core.task import Task
from practicum.envs.http.wire import read_task, write_task
from practicum.rollout.play import Attempt

logger = logging.getLogger(__name__)

MAX_BROKEN_IN_A_ROW = 32
"""Broken episodes teach nothing; this many in a row end the training, for the world is down."""


class EnvironmentFactory:
    """Makes environments for a `GRPOTrainer`, and the rows of its dataset.

    All of them share one world. A row holds its whole task, so that what is played is decided by
    content and not by what is installed where the training runs.
    """

    def __init__(self, world: World, *, max_completion_tokens: int) -> None:
        """Take a world; `max_completion_tokens` is the trainer's `max_completion_length`."""
        self.world = world
        # TRL ends an episode when a tool's reply would not fit, and drops that reply. It has no
        # other way for a world to say that it is done. A word is at least one token.
        self.too_long = "over " * (max_completion_tokens + 1)
        self.samples = itertools.count()
        self.num_broken_in_a_row = 0

    def __call__(self) -> PracticumEnvironment:
        """Make one; TRL keeps it for many episodes."""
        return PracticumEnvironment(self)

    def rows(self, tasks: Iterable[Task]) -> list[dict[str, Any]]:
        """The dataset for a world."""
        return make_rows(self.world.system, tasks)


def make_rows(system: str, tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """A dataset: the instructions and the task, whole."""
    # TRL puts the first observation at the end of the last message.
    prompt = [{"role": "system", "content": system}, {"role": "user", "content": ""}]
    return [{"prompt": prompt, "task": canonical_json(write_task(task))} for task in tasks]


class PracticumEnvironment:
    """One episode after the other, as TRL asks for them.

    A broken episode has no reward: TRL leaves it out of the group's mean and gives it no
    advantage.
    """

    def __init__(self, factory: EnvironmentFactory) -> None:
        self._factory = factory
        self._seat = factory.world.seat()
        self._episode: Episode | None = None
        self._error: EpisodeError | None = None

    def reset(self, **row: Any) -> str:
        """Open the row's task; the text goes to the end of the user's message."""
        self._episode = self._error = None
        task = read_task(json.loads(row["task"]))
        attempt = Attempt(task, next(self._factory.samples))
        return self._play(lambda: self._seat.begin(attempt))

    def act(self, answer: str) -> str:
        """Carry out one action.

        Args:
            answer: The whole answer, in the action format.
        """
        if self._seat.is_under_way:
            return self._play(lambda: self._seat.answer(answer))
        return self._factory.too_long

    def get_reward(self) -> float | None:
        """Judge the episode; one that TRL had no room for is cut short, a broken one has none."""
        if self._seat.is_under_way:
            self._play(self._seat.cut_short)
        if self._episode is None:
            self._factory.num_broken_in_a_row += 1
            if self._factory.num_broken_in_a_row >= MAX_BROKEN_IN_A_ROW and self._error:
                raise self._error
            return None
        self._factory.num_broken_in_a_row = 0
        assert self._episode.reward is not None
        return self._episode.reward.value

    def _play(self, turn: Callable[[], Moment]) -> str:
        try:
            moment = turn()
        except EpisodeError as error:
            logger.warning("an episode broke and is left out: %s", error)
            self._error = error
            return self._factory.too_long
        self._episode = moment.episode
        return moment.observation.text if moment.episode is None else self._factory.too_long

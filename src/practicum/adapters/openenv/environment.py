"""An environment of ours as OpenEnv's: one session plays one episode after the other."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from practicum.adapters.stepwise import Moment, World
from practicum.core.canonical import stable_seed
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Task
from practicum.envs.registry import entries
from practicum.rollout.play import Attempt

DEFAULT_SPLIT = "train"
MAX_SEED = 2**31


class TextAction(Action):  # type: ignore[misc]
    """What the agent does."""

    text: str
    """An action in the environment's words or, with a format, a model's whole answer."""


class TextObservation(Observation):  # type: ignore[misc]
    """What the world shows; `metadata` says how an episode ended."""

    text: str
    task_id: str


class EpisodeState(State):  # type: ignore[misc]
    """Which episode is under way."""

    task_id: str | None = None
    system: str = ""
    """What a model is told in front of the first observation."""


class PracticumEnvironment(Environment[TextAction, TextObservation, EpisodeState]):  # type: ignore[misc]
    """One session.

    A broken world raises, which the client gets as an error: there is no reward then.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._seat = world.seat()
        self._state = EpisodeState(system=world.system)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **chosen: Any
    ) -> TextObservation:
        """Start an episode: of the task `task_id`, of the `index`-th of a `split`, or of any.

        A seed draws the same task everywhere for the same split.
        """
        seed = secrets.randbelow(MAX_SEED) if seed is None else seed
        task = self._choose(seed, **chosen)
        attempt = Attempt(task, seed=seed)
        self._state = EpisodeState(
            episode_id=episode_id or attempt.episode_id, task_id=task.id, system=self._world.system
        )
        return self._observation(self._seat.begin(attempt))

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
        """Take a turn."""
        if timeout_s is not None:
            raise ConfigError("timeout_s is not supported: the server has a limit of its own")
        if not self._seat.is_under_way:
            raise ConfigError("no episode is under way: reset first")
        self._state.step_count += 1
        return self._observation(self._seat.answer(action.text))

    @property
    def state(self) -> EpisodeState:
        """The episode under way."""
        return self._state

    def close(self) -> None:
        """Leave the episode under way; the world stays for other sessions."""
        if self._seat.is_under_way:
            self._seat.leave()

    def get_metadata(self) -> EnvironmentMetadata:
        """Name and summary."""
        env_id = self._world.environment.id
        entry = entries().get(env_id)
        return EnvironmentMetadata(name=env_id, description=entry.summary if entry else env_id)

    def list_splits(self) -> Sequence[str]:
        """Names of the task panels."""
        return self._world.environment.panel_names()

    def num_tasks(self, split: str) -> int:
        """Tasks of a panel."""
        return len(self._tasks(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a panel."""
        return [_describe(task, number) for number, task in enumerate(self._tasks(split))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task of a panel."""
        return _describe(self._tasks(split)[index], index)

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Some tasks of a panel."""
        return self.list_tasks(split)[start:stop]

    def _tasks(self, split: str) -> Sequence[Task]:
        """In the order of their ids, so that an index names a task by content."""
        return sorted(self._world.environment.panel(split), key=lambda task: task.id)

    def _choose(
        self,
        seed: int,
        split: str = DEFAULT_SPLIT,
        index: int | None = None,
        task_id: str | None = None,
        **unknown: Any,
    ) -> Task:
        if unknown:
            known = ("split", "index", "task_id", "seed", "episode_id")
            raise unknown_name("argument of reset", next(iter(unknown)), known)
        tasks = self._tasks(split)
        if task_id is None:
            if index is not None and not 0 <= index < len(tasks):
                raise ConfigError(f"split {split!r} has {len(tasks)} tasks: there is no {index}")
            return tasks[stable_seed("openenv", seed) % len(tasks) if index is None else index]
        if index is not None:
            raise ConfigError("task_id and index say the same thing: leave one out")
        named = next((task for task in tasks if task.id == task_id), None)
        if named is None:
            raise ConfigError(f"task {task_id} is not in split {split!r}")
        return named

    def _observation(self, moment: Moment) -> TextObservation:
        turn, episode = moment.turn, moment.episode
        metadata: dict[str, Any] = {}
        if turn is not None:
            metadata["is_refused"] = turn.is_refused
            if turn.format_error is not None:
                metadata["format_error"] = turn.format_error.kind.value
            if turn.progress is not None:
                metadata["progress"] = turn.progress
        if episode is not None:
            assert episode.stop is not None and episode.reward is not None
            metadata |= {"stop": episode.stop.value, "is_success": episode.is_success}
            metadata["episode_reward"] = episode.reward.value
        return TextObservation(
            text=moment.observation.text,
            task_id=self._state.task_id,
            reward=None if turn is None else turn.reward,
            done=episode is not None,
            metadata=metadata,
        )


def _describe(task: Task, index: int) -> dict[str, Any]:
    return {"id": task.id, "index": index, "prompt": task.prompt, "difficulty": task.difficulty}

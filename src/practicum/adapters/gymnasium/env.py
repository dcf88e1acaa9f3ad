"""An environment of ours as Gymnasium's: text in, text out, a task per reset."""

from __future__ import annotations

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Space

from practicum.adapters.stepwise import Moment, World
from practicum.agents.format import MAX_ANSWER_CHARS
from practicum.core.episode import StopReason
from practicum.core.errors import ConfigError, unknown_name
from practicum.core.task import Task
from practicum.rollout.play import Attempt

MAX_OBSERVATION_CHARS = 1_000_000
SEEDS = np.iinfo(np.int64).max


class AnyText(Space[str]):
    """Any string up to a length; samples are printable ASCII.

    Not Gymnasium's `Text`, which has a finite alphabet: what is not in it would be lost where
    observations travel as numbers, and here that is refused by Gymnasium itself.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(dtype=str)
        self.max_length = max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a text of any length."""
        if mask is not None or probability is not None:
            raise ConfigError("texts are drawn without a mask and without probabilities")
        length = self.np_random.integers(self.max_length + 1)
        return "".join(self.np_random.choice(list(string.printable), size=length))

    def contains(self, x: Any) -> bool:
        """Worlds and models may write in any script."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """There is no finite alphabet to number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((AnyText, self.max_length))

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"


class PracticumEnv(gymnasium.Env[str, str]):
    """Plays tasks of a panel.

    `reset(seed=…)` draws a task, the same one everywhere for the same panel; `reset(options=
    {"task_id": …})` names it. An action is one in the environment's words or, with `format`, a
    model's whole answer. A broken world raises an `EpisodeError`: it has no reward.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        env_id: str,
        *,
        panel: str = "train",
        format: str | None = None,  # noqa: A002 - the word users know from configs
        limits: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space = AnyText(MAX_OBSERVATION_CHARS)
        self.action_space = AnyText(MAX_ANSWER_CHARS)
        self.render_mode = render_mode
        self._world = World(env_id, format_name=format, limits=limits, options=options)
        self._seat = self._world.seat()
        tasks = self._world.environment.panel(panel).tasks
        # In the order of their ids, so that a seed names a task by content.
        self._tasks = {task.id: task for task in sorted(tasks, key=lambda task: task.id)}
        self._shown = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode of a drawn or named task."""
        super().reset(seed=seed)
        task = self._choose(dict(options or {}))
        attempt = Attempt(task, seed=int(self.np_random.integers(SEEDS)))
        self._shown = self._seat.begin(attempt).observation.text
        return self._shown, {"task_id": task.id, "system": self._world.system}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a turn."""
        if not self._seat.is_under_way:
            raise ResetNeeded("no episode is under way: call reset first")
        moment = self._seat.answer(action)
        self._shown = moment.observation.text
        stop = moment.episode.stop if moment.episode else None
        is_done = stop is StopReason.DONE
        reward = moment.turn.reward if moment.turn else 0.0
        return self._shown, reward, is_done, stop is not None and not is_done, _info(moment)

    def render(self) -> str | None:
        """What the world showed last."""
        return self._shown if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Leave the episode and release the environment; idempotent."""
        self._world.close()

    def _choose(self, options: dict[str, Any]) -> Task:
        named = options.pop("task_id", None)
        if options:
            raise unknown_name("option of reset", next(iter(options)), ["task_id"])
        if named is None:
            number = int(self.np_random.integers(len(self._tasks)))
            return list(self._tasks.values())[number]
        if named not in self._tasks:
            raise ConfigError(f"task {named} is not in this panel: see `practicum tasks`")
        return self._tasks[named]


def _info(moment: Moment) -> dict[str, Any]:
    turn, episode = moment.turn, moment.episode
    info: dict[str, Any] = {"is_refused": turn is not None and turn.is_refused}
    if turn is not None and turn.format_error is not None:
        info["format_error"] = turn.format_error.kind.value
    if turn is not None and turn.progress is not None:
        info["progress"] = turn.progress
    if episode is not None:
        assert episode.stop is not None and episode.reward is not None
        info |= {"stop": episode.stop.value, "is_success": episode.is_success}
        info["episode_reward"] = episode.reward.value
    return info

"""Our environments as `verifiers` plays them: the world is the user of a chat.

The episode is played by `play_episode`, as everywhere, with a policy that sends observations
to the player's interaction and takes its replies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from practicum.agents.chat import ChatAgent
from practicum.agents.format import system_text
from practicum.agents.formats import get_format
from practicum.config.eval import LimitsConfig
from practicum.core.agent import Prompt, Sampling
from practicum.core.env import Environment
from practicum.core.episode import Completion
from practicum.core.errors import ConfigError, PolicyError
from practicum.envs.http.wire import read_task, write_task
from practicum.envs.registry import load_env
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_episode


class PracticumData(vf.TaskData):  # type: ignore[misc]
    """A task, whole: what is played is decided by content."""

    task: dict[str, Any]


class PracticumTask(vf.Task[PracticumData]):  # type: ignore[misc]
    """Nothing beyond its data."""


class PracticumTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which tasks."""

    env: str = ""
    """An id of `practicum envs`; needed, though verifiers asks for a default."""
    panel: str = "train"
    format: str = "react"
    """The action format."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment itself."""


class PracticumTaskset(vf.Taskset[PracticumTask, PracticumTasksetConfig]):  # type: ignore[misc]
    """The tasks of a panel, with the instructions in front of them."""

    def load(self) -> Iterator[PracticumTask]:
        """In the order of the panel; the world opens the conversation."""
        config = self.config
        if not config.env:
            raise ConfigError("name an environment of `practicum envs` with --env.taskset.env")
        environment = load_env(config.env, **config.options)
        system = system_text(environment, get_format(config.format))
        for task in environment.panel(config.panel):
            data = PracticumData(
                id=task.id, description=task.prompt, system_prompt=system, task=write_task(task)
            )
            yield PracticumTask(data, config.task)


class PracticumEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """One player, and how far an episode may go."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """Its harness is the chat that comes with the taskset; nothing runs in its runtime."""
    limits: LimitsConfig = LimitsConfig()


class PracticumEnv(vf.Env[PracticumEnvConfig]):  # type: ignore[misc]
    """Plays episodes.

    A broken world raises, which fails the episode: it has no reward, and `--env.retries` may
    play it again.
    """

    _environment: Environment | None = None

    async def start(self) -> None:
        """Open the world that all episodes share."""
        config = self.taskset.config
        self._environment = load_env(config.env, **config.options)

    async def stop(self) -> None:
        """Release it."""
        if self._environment is not None:
            await self._environment.aclose()

    async def run(self, task: Any, agents: Any) -> None:
        """Play one episode and record its reward, success and number of turns."""
        environment = self._environment
        if environment is None:
            raise ConfigError("the environment is not open: play inside `async with env.serving()`")
        limits = self.config.limits
        values = limits.model_dump() | {"max_turns": limits.max_turns or environment.max_turns}
        async with agents.player.interaction(task) as interaction:
            action_format = get_format(self.taskset.config.format)
            agent = ChatAgent(environment, action_format, _Player(interaction), Sampling())
            table = Table(environment, agent, judge_outcome, Limits(**values), Slots(1))
            episode = await play_episode(table, Attempt(read_task(task.data.task)))
            if episode.error is not None:
                raise episode.error.to_error()
        assert episode.reward is not None and episode.stop is not None
        trace = interaction.trace
        trace.record_reward("outcome", episode.reward.value)
        trace.record_metric("is_success", float(episode.is_success))
        trace.record_metric("num_invalid", sum(turn.is_invalid for turn in episode.turns))
        trace.info["stop"] = episode.stop.value


class _Player:
    """Whoever sits behind an interaction, as a policy."""

    def __init__(self, interaction: Any) -> None:
        self._interaction = interaction

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        shown = prompt.messages[-1]
        if shown.images:
            raise ConfigError(
                "this environment shows pictures and the adapter passes text only: choose a view "
                "without them, as the desktop's view=tree"
            )
        segment = await self._interaction.turn(shown.text)
        if not segment.terminated:
            return Completion(segment.messages[-1].content or "")
        trace = self._interaction.trace
        if trace.errors:
            raise PolicyError(f"the player failed: {trace.errors[-1].message}")
        return Completion("", finish="context")  # a limit of verifiers' own was reached

    async def aclose(self) -> None:
        pass

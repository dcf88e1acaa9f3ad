"""An episode whose answers come from outside, one at a time.

Gymnasium, TRL and OpenEnv own the loop: they call `reset` and `step`. The episode is played by
`play_episode` all the same, with a policy that waits for the next answer, so that limits,
deadlines, feedback, faults and rewards are what they are everywhere else.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakSet

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.config.base import read_config
from practicum.config.eval import LimitsConfig
from practicum.core.agent import Act, Agent, Prompt, Sampling, Situation
from practicum.core.commands import usage
from practicum.core.env import Environment
from practicum.core.episode import Completion, Episode, Turn
from practicum.core.errors import ConfigError
from practicum.core.message import Action, Observation
from practicum.envs.registry import load_env
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_episode

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Moment:
    """Where an episode stands: an answer is due, or it is over."""

    observation: Observation
    turn: Turn | None
    """The last one; None at the start."""
    episode: Episode | None
    """All of it, judged, once it is over."""


class Stepwise:
    """Plays one episode after the other, each answer given by a caller.

    Without a format the answer is the action itself, in the environment's own words.
    """

    def __init__(
        self, environment: Environment, limits: LimitsConfig, format_name: str | None = None
    ) -> None:
        self._policy = _Outside()
        agent: Agent = _Commands(environment, self._policy)
        if format_name is not None:
            agent = ChatAgent(environment, get_format(format_name), self._policy, Sampling())
        values = limits.model_dump() | {"max_turns": limits.max_turns or environment.max_turns}
        if "answer_timeout_s" not in limits.model_fields_set:
            values["answer_timeout_s"] = math.inf  # a caller may think as long as it likes
        self._table = Table(environment, agent, judge_outcome, Limits(**values), Slots(1))
        self._job: asyncio.Task[Episode] | None = None
        self.system = agent.system
        """What a model is told in front of the first observation."""

    @property
    def is_under_way(self) -> bool:
        """An answer is due."""
        return self._job is not None and not self._job.done()

    async def begin(self, attempt: Attempt) -> Moment:
        """Leave what was under way and start an episode."""
        await self.aclose()
        self._job = asyncio.create_task(play_episode(self._table, attempt))
        self._job.add_done_callback(self._policy.events.put_nowait)
        return await self._next()

    async def answer(self, text: str) -> Moment:
        """Take a turn; a broken episode raises the `EpisodeError` that broke it."""
        return await self._say(Completion(text))

    async def cut_short(self) -> Moment:
        """End an episode the caller has no room to go on with, and have it judged."""
        return await self._say(Completion("", finish="context"))

    async def aclose(self) -> None:
        """Leave the episode; its world is closed on the way."""
        job, self._job = self._job, None
        if job is not None:
            job.cancel()
            with suppress(asyncio.CancelledError):
                await job
        self._policy.clear()

    async def _say(self, completion: Completion) -> Moment:
        assert self.is_under_way, "no answer is due"
        self._policy.answers.put_nowait(completion)
        return await self._next()

    async def _next(self) -> Moment:
        event = await self._policy.events.get()
        if isinstance(event, Situation):
            turn = event.history[-1] if event.history else None
            return Moment(_text_only(event.observation), turn, None)
        episode = event.result()
        if episode.error is not None:
            raise episode.error.to_error()
        assert episode.final is not None
        return Moment(episode.final, episode.turns[-1] if episode.turns else None, episode)


class _Outside:
    """A policy that asks whoever reads `events` and waits for `answers`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: asyncio.Queue[Completion] = asyncio.Queue()

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        return await self.ask(prompt.situation)

    async def ask(self, situation: Situation) -> Completion:
        self.events.put_nowait(situation)
        return await self.answers.get()

    async def aclose(self) -> None:
        pass


class _Commands:
    """An agent whose answers are actions as they stand."""

    def __init__(self, environment: Environment, policy: _Outside) -> None:
        lines = "\n".join(f"- {usage(c)}: {c.help}" for c in environment.commands)
        self.system = f"{environment.rules}\n\nActions:\n{lines}"
        self._policy = policy

    async def act(self, situation: Situation) -> Act:
        said = await self._policy.ask(situation)
        return Act(said, Action(said.text))


def _text_only(observation: Observation) -> Observation:
    if observation.images:
        raise ConfigError(
            "this environment shows pictures and the adapter passes text only: choose a view "
            "without them, as the desktop's view=tree"
        )
    return observation


class World:
    """An environment and the event loop it lives in, for callers that have none.

    Its seats can be used from any thread, but not from a coroutine.
    """

    def __init__(
        self,
        env_id: str,
        *,
        format_name: str | None = None,
        limits: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.environment = load_env(env_id, **(options or {}))
        self._format_name = format_name
        self._limits = read_config(LimitsConfig, values=limits or {})
        self._players: WeakSet[Stepwise] = WeakSet()
        self.system = self._stepwise().system
        self.max_turns = self._limits.max_turns or self.environment.max_turns
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="practicum", daemon=True)
        self._thread.start()

    def seat(self) -> Seat:
        """Where one episode is played at a time."""
        return Seat(self, self._stepwise())

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run to the end and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Leave what is under way and release the environment; idempotent."""
        if self._loop.is_closed():
            return
        try:
            self.run(self._leave_all())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _stepwise(self) -> Stepwise:
        player = Stepwise(self.environment, self._limits, self._format_name)
        self._players.add(player)
        return player

    async def _leave_all(self) -> None:
        for player in list(self._players):
            await player.aclose()
        await self.environment.aclose()


class Seat:
    """`Stepwise` for callers that wait."""

    def __init__(self, world: World, stepwise: Stepwise) -> None:
        self._world = world
        self._stepwise = stepwise

    @property
    def is_under_way(self) -> bool:
        """An answer is due."""
        return self._stepwise.is_under_way

    def begin(self, attempt: Attempt) -> Moment:
        """Leave what was under way and start an episode."""
        return self._world.run(self._stepwise.begin(attempt))

    def answer(self, text: str) -> Moment:
        """Take a turn."""
        return self._world.run(self._stepwise.answer(text))

    def cut_short(self) -> Moment:
        """End an episode without room to go on, and have it judged."""
        return self._world.run(self._stepwise.cut_short())

    def leave(self) -> None:
        """Leave what is under way."""
        self._world.run(self._stepwise.aclose())

"""Plays one episode for AReaL: a row of its dataset in, an `Episode` or an `EpisodeError` out."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from practicum.adapters.areal.settings import WorkflowSettings
from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.core.agent import Policy, Sampling
from practicum.core.env import Environment, Milestoned
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError, EpisodeError
from practicum.core.reward import RewardFn
from practicum.core.task import Task
from practicum.envs.registry import load_env
from practicum.rewards.milestones import pay_milestones
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode

logger = logging.getLogger(__name__)

TASK = "task"
"""The key of a row that holds the task: as JSON text, as a mapping, or by its id."""

_environments: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Environment]] = (
    WeakKeyDictionary()
)
"""AReaL makes a workflow anew for every row; worlds that cost something outlive it."""


class WithdrawnError(EpisodeError):
    """An episode that broke: AReaL rejects it, and no reward of 0 stands for it."""


def read_task(data: Mapping[str, Any], environment: Environment) -> Task:
    """The task of a row, checked against its id."""
    given = data.get(TASK)
    if isinstance(given, str):
        given = json.loads(given) if given.lstrip().startswith("{") else {"id": given}
    if not isinstance(given, Mapping) or "id" not in given:
        raise ConfigError(
            f"a row must hold a task under {TASK!r} (JSON text, a mapping or an id); this one has "
            f"{', '.join(map(repr, data)) or 'nothing'}: write rows with `practicum export areal`"
        )
    if set(given) == {"id"}:
        return _task_by_id(str(given["id"]), environment)
    try:
        task = Task(**given)
    except TypeError as error:
        raise ConfigError(f"this is no task: {error}") from error
    task.verify()
    if task.env_id != environment.id:
        raise ConfigError(f"{task.id} is a task of {task.env_id!r} and not of {environment.id!r}")
    return task


def _task_by_id(task_id: str, environment: Environment) -> Task:
    for name in environment.panel_names():
        for task in environment.panel(name):
            if task.id == task_id:
                return task
    raise ConfigError(f"no panel of {environment.id} holds {task_id!r}: give the whole task")


@asynccontextmanager
async def kept_environment(settings: WorkflowSettings) -> AsyncIterator[Environment]:
    """The environment of this event loop; AReaL's runner closes it when the loop ends."""
    loop = asyncio.get_running_loop()
    known = _environments.setdefault(loop, {})
    key = json.dumps([settings.env, settings.options], sort_keys=True)
    if key not in known:
        from areal.infra.utils.concurrent import register_loop_cleanup

        environment = load_env(settings.env, **settings.options)
        register_loop_cleanup(environment.aclose, loop=loop)
        known[key] = environment
    yield known[key]


@asynccontextmanager
async def own_environment(settings: WorkflowSettings) -> AsyncIterator[Environment]:
    """An environment for one episode: the event loop of a subprocess ends with it."""
    environment = load_env(settings.env, **settings.options)
    try:
        yield environment
    finally:
        await environment.aclose()


def make_table(settings: WorkflowSettings, environment: Environment, policy: Policy) -> Table:
    """Where an episode is played."""
    wanted, drawn = settings.limits, settings.sampling
    limits = Limits(
        wanted.max_turns or environment.max_turns,
        wanted.turn_timeout_s,
        wanted.answer_timeout_s,
        wanted.max_repeated_refusals,
    )
    sampling = Sampling(drawn.temperature, drawn.top_p, drawn.max_tokens)
    agent = ChatAgent(environment, get_format(settings.format), policy, sampling)
    return Table(environment, agent, _judge(settings, environment), limits)


def _judge(settings: WorkflowSettings, environment: Environment) -> RewardFn:
    if settings.dense == 0:
        return judge_outcome
    if not isinstance(environment, Milestoned):
        raise ConfigError(
            f"dense={settings.dense:g} pays for milestones, and {environment.id} has none: "
            "leave dense out"
        )
    return pay_milestones(judge_outcome, settings.dense)


async def play_once(
    settings: WorkflowSettings,
    environment: Environment,
    policy: Policy,
    task: Task,
    sample: int = 0,
    seed: int = 0,
) -> Episode:
    """Play one attempt within its deadline; a broken one raises `WithdrawnError`."""
    table = make_table(settings, environment, policy)
    limit_s = settings.episode_timeout_s
    try:
        async with asyncio.timeout(limit_s):
            episode = await play_episode(table, Attempt(task, sample, seed))
    except TimeoutError as error:
        raise WithdrawnError(
            f"{task.id} took longer than {limit_s:g} s", kind="episode/deadline"
        ) from error
    if episode.error is not None:
        fault = episode.error
        raise WithdrawnError(
            f"{task.id} broke after {fault.turn} turns ({fault.kind}): {fault.message}",
            kind=fault.kind,
        )
    if not episode.turns:
        raise WithdrawnError(
            f"{task.id} ended without an answer of the policy ({episode.stop}): its first prompt "
            "does not fit the context, or nothing was asked",
            kind="policy/no-answer",
        )
    return episode


async def play_with_retries(
    play: Callable[[int], Awaitable[Episode]],
    retries: int,
    may_retry: Callable[[], bool] = lambda: True,
) -> Episode:
    """Call `play` with 0, 1, … until an episode ends unbroken or the retries are used up."""
    attempt = 0
    while True:
        try:
            episode = await play(attempt)
        except WithdrawnError as error:
            attempt += 1
            if attempt > retries or not may_retry():
                raise
            logger.warning("%s; playing it again (%d of %d)", error, attempt, retries)
        else:
            return episode

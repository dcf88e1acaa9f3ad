"""Plays episodes. The one home of limits, deadlines and of turning failures into data.

Whatever breaks while an episode is played becomes an `Episode` with an `error`, keeps the
turns already played and gets no reward. Nothing else is caught: cancelling passes through
and closes the environment on its way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from practicum.core.agent import Agent, Situation
from practicum.core.canonical import stable_seed
from practicum.core.env import PROGRESS, Concluding, Env, Environment, StepResult, state_hash
from practicum.core.episode import Episode, Group, StopReason, Turn
from practicum.core.errors import EnvError, EpisodeError, ErrorInfo, PolicyError, RewardError
from practicum.core.message import Observation
from practicum.core.reward import Reward, RewardFn
from practicum.core.task import Task

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How far an episode may go, and how long one call may take."""

    max_turns: int
    turn_timeout_s: float = 60.0
    """For one call of the environment: opening, starting, a step, closing."""
    answer_timeout_s: float = 600.0
    """For one answer of the policy, its own retries included."""
    max_repeated_refusals: int | None = None
    """Ends an episode in which one action was refused that many times while nothing else happened;
    None: never."""


class Slots:
    """How many episodes may be under way at once; tables can share them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = asyncio.Semaphore(count)

    async def __aenter__(self) -> None:
        await self._free.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


@dataclass(frozen=True)
class Table:
    """Where episodes are played: who plays what, judged how, within which limits."""

    environment: Environment
    agent: Agent
    judge: RewardFn
    limits: Limits
    slots: Slots = field(default_factory=lambda: Slots(16))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One episode to be played."""

    task: Task
    sample: int = 0
    seed: int = 0

    @property
    def episode_id(self) -> str:
        """Names the episode; equal for equal attempts."""
        return f"{self.task.id}.{self.seed}.{self.sample}"


async def play_group(table: Table, task: Task, size: int, seed: int = 0) -> Group:
    """Play several episodes of one task at once."""
    async with asyncio.TaskGroup() as tasks:
        jobs = [
            tasks.create_task(play_episode(table, Attempt(task, sample, seed)))
            for sample in range(size)
        ]
    return Group(task, tuple(job.result() for job in jobs))


async def play_many(
    table: Table, attempts: Iterable[Attempt], on_episode: Callable[[Episode], None]
) -> None:
    """Play attempts as slots come free; hand each episode over the moment it ends."""
    waiting = iter(attempts)

    async def work() -> None:
        for attempt in waiting:
            on_episode(await play_episode(table, attempt))

    async with asyncio.TaskGroup() as workers:
        for _ in range(table.slots.count):
            workers.create_task(work())


async def play_episode(table: Table, attempt: Attempt) -> Episode:
    """Play one episode to its end, or to the fault that broke it."""
    async with table.slots:
        recorder = _Recorder(attempt, table.agent.system)
        try:
            await _play_to_the_end(table, attempt, recorder)
            judged = await _guard(
                table.judge(attempt.task, recorder.episode()),
                RewardError,
                "judging the episode",
                table.limits.answer_timeout_s,
            )
            return recorder.episode(judged)
        except EpisodeError as error:
            recorder.fail(error)
            return recorder.episode()


async def _play_to_the_end(table: Table, attempt: Attempt, recorder: _Recorder) -> None:
    timeout_s = table.limits.turn_timeout_s
    context = table.environment.open(attempt.task)
    env = await _guard(context.__aenter__(), EnvError, "opening the environment", timeout_s)
    try:
        await _play(table, attempt, env, recorder)
        is_cut = recorder.stop is not StopReason.DONE and recorder.turns
        if is_cut and isinstance(env, Concluding):
            recorder.conclude(
                await _guard(env.conclude(), EnvError, "judging where it was cut", timeout_s)
            )
    finally:
        # A close that fails cannot take back what was played: it is logged, not raised.
        try:
            await _guard(
                context.__aexit__(None, None, None), EnvError, "closing the environment", timeout_s
            )
        except EpisodeError as error:
            logger.warning("%s: %s", attempt.episode_id, error)


async def _play(table: Table, attempt: Attempt, env: Env, recorder: _Recorder) -> None:
    limits = table.limits
    recorder.final = await _guard(
        env.start(), EnvError, "starting the episode", limits.turn_timeout_s
    )
    for turn in range(limits.max_turns):
        observation = recorder.final
        state = await _guard(
            _state(env, observation), EnvError, "telling the state", limits.turn_timeout_s
        )
        seed = stable_seed(attempt.seed, attempt.task.id, attempt.sample, turn)
        situation = Situation(attempt.task, attempt.sample, recorder.turns, observation, seed)
        act = await _guard(
            table.agent.act(situation), PolicyError, "asking the policy", limits.answer_timeout_s
        )
        if act.completion.finish == "context":
            recorder.stop = StopReason.CONTEXT_LIMIT
            return
        if act.format_error is not None:
            recorder.add(
                Turn(observation, act.completion, None, act.format_error, state=state),
                Observation(act.format_error.feedback),
            )
        else:
            assert act.action is not None
            result = await _guard(
                env.step(act.action), EnvError, f"step {turn + 1}", limits.turn_timeout_s
            )
            recorder.add(
                Turn(
                    observation,
                    act.completion,
                    act.action,
                    reward=result.reward,
                    is_refused=result.is_refused,
                    state=state,
                    progress=result.info.get(PROGRESS),
                ),
                result.observation,
            )
            if result.is_done:
                recorder.is_success = result.is_success
                recorder.stop = StopReason.DONE
                return
        if _is_stuck(recorder.turns, limits.max_repeated_refusals):
            recorder.stop = StopReason.REPEATED_REFUSAL
            return
    recorder.stop = StopReason.TURN_LIMIT


async def _state(env: Env, observation: Observation) -> str:
    return state_hash(env, observation)


def _is_stuck(turns: Sequence[Turn], max_repeated: int | None) -> bool:
    """Say whether the last turn tried once too often what was refused, and nothing changed since.

    A look around between two tries leaves the world as it was; a try that works does not.
    """
    if max_repeated is None or not turns[-1].is_invalid:
        return False
    tries, then = 0, turns[-1]
    for turn in reversed(turns):
        if turn.is_invalid:
            tries += _attempted(turn) == _attempted(turns[-1])
        elif turn.state != then.state:
            break
        then = turn
    return tries >= max_repeated


def _attempted(turn: Turn) -> tuple[bool, str]:
    # A new thought around the same refused action is still the same attempt; without an
    # action there is only the answer itself to go by.
    if turn.action is not None:
        return True, turn.action.text
    return False, turn.completion.text


async def _guard(
    call: Awaitable[Result], error_type: type[EpisodeError], what: str, timeout_s: float
) -> Result:
    """Await a call of the outside world; give it a deadline and its failures a name."""
    try:
        async with asyncio.timeout(timeout_s):
            return await call
    except EpisodeError:
        raise
    except TimeoutError as error:
        raise error_type(f"{what} took longer than {timeout_s:g} s", kind="timeout") from error
    except Exception as error:
        raise error_type(f"{what} failed: {type(error).__name__}: {error}") from error


class _Recorder:
    """Collects an episode while it is played."""

    def __init__(self, attempt: Attempt, system: str) -> None:
        self._attempt = attempt
        self._system = system
        self.turns: list[Turn] = []
        self.final: Observation | None = None
        self.stop: StopReason | None = None
        self.is_success = False
        self._error: ErrorInfo | None = None

    def add(self, turn: Turn, then: Observation) -> None:
        self.turns.append(turn)
        self.final = then

    def conclude(self, result: StepResult) -> None:
        last = self.turns[-1]
        self.turns[-1] = replace(last, reward=last.reward + result.reward)
        self.is_success = result.is_success

    def fail(self, error: EpisodeError) -> None:
        self.stop = None
        self.is_success = False
        self._error = ErrorInfo.of(error, turn=len(self.turns))

    def episode(self, reward: Reward | None = None) -> Episode:
        task = self._attempt.task
        return Episode(
            id=self._attempt.episode_id,
            task_id=task.id,
            env_id=task.env_id,
            sample=self._attempt.sample,
            seed=self._attempt.seed,
            system=self._system,
            turns=tuple(self.turns),
            final=self.final,
            stop=self.stop,
            is_success=self.is_success,
            reward=reward,
            error=self._error,
        )

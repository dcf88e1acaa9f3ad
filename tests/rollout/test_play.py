"""Episodes end as success, failure or named fault; nothing is left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from practicum.core.agent import Act, Situation
from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.episode import Completion, Episode, FormatError, FormatErrorKind, StopReason
from practicum.core.errors import EnvError, PolicyError, RewardError
from practicum.core.message import Action, Observation
from practicum.core.reward import Reward
from practicum.core.task import Panel, Task
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import (
    Attempt,
    Limits,
    Slots,
    Table,
    play_episode,
    play_group,
    play_many,
)

TASK = Task.create("counting", "Count to three.", {})


class CountingEnv:
    """Done after three steps; breaks where it is told to."""

    def __init__(self, world: CountingWorld) -> None:
        self._world = world
        self._steps = 0

    async def start(self) -> Observation:
        await self._world.trouble("start")
        return Observation("0")

    async def step(self, action: Action) -> StepResult:
        self._steps += 1
        await self._world.trouble(f"step {self._steps}")
        is_done = self._steps == 3
        return StepResult(
            Observation(str(self._steps)),
            reward=float(is_done),
            is_done=is_done,
            is_success=is_done,
        )


class KeyedEnv(CountingEnv):
    """Falls apart while it says what it is like, from the second turn on."""

    def state_key(self) -> str:
        if self._steps:
            raise OSError("the world is gone")
        return "0"


class ConcludingEnv(CountingEnv):
    """Judges what is there when it is cut short."""

    async def conclude(self) -> StepResult:
        await self._world.trouble("conclude")
        return StepResult(Observation("over"), 0.5, is_done=True, is_success=True)


class CountingWorld:
    id = "counting"
    rules = "Count."
    commands: Sequence[Command] = (Command("next", "next", "count on"),)
    max_turns = 10
    scripts: Mapping[str, Script] = {}

    def __init__(self, **breaks: object) -> None:
        self.breaks = {key.replace("_", " "): value for key, value in breaks.items()}
        self.num_open = 0
        self.most_open = 0

    async def trouble(self, place: str) -> None:
        match self.breaks.get(place):
            case "hang":
                await asyncio.Event().wait()
            case Exception() as error:
                raise error
            case _:
                await asyncio.sleep(0)

    def panel_names(self) -> Sequence[str]:
        return ()

    def panel(self, name: str) -> Panel:
        return Panel(name, (TASK,))

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[CountingEnv]:
        await self.trouble("open")
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        try:
            kinds = {"state": KeyedEnv, "conclude": ConcludingEnv}
            kind = next((kinds[key] for key in kinds if key in self.breaks), CountingEnv)
            yield kind(self)
        finally:
            self.num_open -= 1
            await self.trouble("close")

    async def aclose(self) -> None: ...


class Steady:
    """An agent that always counts on, unless told otherwise."""

    system = "Count."

    def __init__(self, **answers: object) -> None:
        self.answers = {int(key.removeprefix("turn")): value for key, value in answers.items()}
        self.seeds: list[int] = []

    async def act(self, situation: Situation) -> Act:
        self.seeds.append(situation.seed)
        match self.answers.get(len(situation.history)):
            case "hang":
                await asyncio.Event().wait()
            case Exception() as error:
                raise error
            case FormatError() as error:
                return Act(Completion("?"), None, error)
            case Completion() as completion:
                return Act(completion, None, FormatError(FormatErrorKind.EMPTY, ""))
        return Act(Completion("next"), Action("next"))


def make_table(
    world: CountingWorld, agent: Steady | None = None, *, max_turns: int = 10, at_once: int = 4
) -> Table:
    limits = Limits(max_turns, turn_timeout_s=0.05, answer_timeout_s=0.05)
    return Table(world, agent or Steady(), judge_outcome, limits, Slots(at_once))


async def play(world: CountingWorld, agent: Steady | None = None, max_turns: int = 10) -> Episode:
    episode = await play_episode(make_table(world, agent, max_turns=max_turns), Attempt(TASK))
    assert world.num_open == 0
    return episode


async def test_a_finished_episode_is_judged() -> None:
    episode = await play(CountingWorld())
    assert episode.stop == StopReason.DONE
    assert episode.reward == Reward(1.0, True)
    assert [turn.observation.text for turn in episode.turns] == ["0", "1", "2"]
    assert episode.final == Observation("3")
    assert episode.error is None


async def test_a_world_that_cannot_tell_its_state_is_broken_not_failed() -> None:
    group = await play_group(make_table(CountingWorld(state=True)), TASK, 2)
    for episode in group.episodes:
        assert episode.reward is None and episode.error is not None
        assert "telling the state failed: OSError: the world is gone" in episode.error.message
        assert len(episode.turns) == 1


async def test_states_are_what_was_shown_where_a_world_does_not_tell() -> None:
    first, second = await play(CountingWorld()), await play(CountingWorld())
    states = [turn.state for turn in first.turns]
    assert states == [turn.state for turn in second.turns]
    assert len(set(states)) == 3 and None not in states


async def test_an_episode_at_the_turn_limit_failed_and_is_judged() -> None:
    episode = await play(CountingWorld(), max_turns=2)
    assert episode.stop == StopReason.TURN_LIMIT
    assert episode.reward == Reward(0.0, False)


async def test_a_world_that_judges_at_the_end_judges_what_was_cut_short() -> None:
    episode = await play(CountingWorld(conclude=True), max_turns=2)
    assert episode.stop == StopReason.TURN_LIMIT
    assert episode.reward == Reward(0.5, True)
    assert [turn.reward for turn in episode.turns] == [0.0, 0.5]
    full = Completion("", finish="context")
    assert (await play(CountingWorld(conclude=True), Steady(turn1=full))).reward == Reward(
        0.5, True
    )
    whole = await play(CountingWorld(conclude=True))
    assert whole.stop == StopReason.DONE and whole.reward == Reward(1.0, True)


async def test_a_world_that_cannot_judge_what_was_cut_short_is_broken() -> None:
    episode = await play(CountingWorld(conclude=OSError("the world is gone")), max_turns=2)
    assert episode.reward is None and episode.error is not None
    assert "judging where it was cut failed" in episode.error.message


async def test_the_last_answer_at_the_turn_limit_is_carried_out() -> None:
    assert (await play(CountingWorld(), max_turns=3)).stop == StopReason.DONE


async def test_a_format_error_is_feedback_and_costs_a_turn() -> None:
    error = FormatError(FormatErrorKind.EMPTY, "Say something.")
    episode = await play(CountingWorld(), Steady(turn1=error))
    assert [turn.observation.text for turn in episode.turns] == ["0", "1", "Say something.", "2"]
    assert episode.turns[1].format_error == error
    assert episode.reward == Reward(1.0, True)


class Says:
    """An agent that gives its lines in turn; `?…` is an answer no action can be read from."""

    system = "Count."

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    async def act(self, situation: Situation) -> Act:
        text = self._lines[len(situation.history)]
        if text.startswith("?"):
            return Act(Completion(text), None, FormatError(FormatErrorKind.NO_ACTION, "What?"))
        thought = f"Thought {len(situation.history)}. "
        return Act(Completion(thought + text), Action(text))


class RefusingWorld(CountingWorld):
    """Refuses every action but `next` and `look`, which changes nothing."""

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[CountingEnv]:
        class RefusingEnv(CountingEnv):
            async def step(self, action: Action) -> StepResult:
                if action.text == "next":
                    return await super().step(action)
                if action.text == "look":
                    return StepResult(Observation("Numbers."))
                return StepResult(Observation("No."), is_refused=True)

            def state_key(self) -> str:
                return str(self._steps)

        async with super().open(task):
            yield RefusingEnv(self)


async def play_lines(*lines: str, limit: int | None) -> Episode:
    limits = Limits(len(lines), max_repeated_refusals=limit)
    table = Table(RefusingWorld(), Says(*lines), judge_outcome, limits)
    return await play_episode(table, Attempt(TASK))


async def test_repeating_a_refused_action_ends_the_episode_whatever_the_thought() -> None:
    episode = await play_lines("next", "fly", "fly", "fly", "next", "next", limit=3)
    assert episode.stop == StopReason.REPEATED_REFUSAL
    assert episode.reward == Reward(0.0, False)
    assert len(episode.turns) == 4
    assert episode.final == Observation("No.")


@pytest.mark.parametrize(
    "between", [(), ("look",), ("look", "look"), ("run",), ("?what",), ("run", "look")]
)
async def test_neither_a_look_nor_another_refusal_makes_a_new_try_of_it(
    between: tuple[str, ...],
) -> None:
    """What a model does that has learned to look after a refusal, and nothing more."""
    tries = ("fly", *between, "fly", *between, "fly")
    episode = await play_lines("next", *tries, "next", "next", limit=3)
    assert episode.stop == StopReason.REPEATED_REFUSAL
    assert len(episode.turns) == 1 + len(tries)


async def test_repeating_an_unreadable_answer_ends_the_episode() -> None:
    episode = await play_lines("?a", "?b", "?b", "next", limit=2)
    assert episode.stop == StopReason.REPEATED_REFUSAL
    assert [turn.completion.text for turn in episode.turns] == ["?a", "?b", "?b"]


@pytest.mark.parametrize(
    "lines",
    [
        ("fly", "run", "swim", "next", "next", "next"),  # something else every time
        ("fly", "next", "fly", "next", "next"),  # something worked in between
        ("next", "next", "next"),  # repeating what works is no fault
        ("fly", "?fly", "next", "next", "next"),  # an answer is not an action
    ],
)
async def test_other_episodes_go_on(lines: tuple[str, ...]) -> None:
    assert (await play_lines(*lines, limit=2)).stop == StopReason.DONE


async def test_half_a_character_in_what_is_shown_breaks_nothing() -> None:
    class Garbling(CountingWorld):
        @asynccontextmanager
        async def open(self, task: Task) -> AsyncIterator[CountingEnv]:
            class GarblingEnv(CountingEnv):
                async def start(self) -> Observation:
                    return Observation("\ud800")

            async with super().open(task):
                yield GarblingEnv(self)

    episode = await play(Garbling(), Steady())
    assert episode.error is None
    assert episode.turns[0].state


async def test_without_the_limit_a_refused_action_can_be_repeated_for_ever() -> None:
    assert (await play_lines("fly", "fly", "fly", limit=None)).stop == StopReason.TURN_LIMIT


async def test_a_full_context_cuts_the_episode_short() -> None:
    episode = await play(CountingWorld(), Steady(turn2=Completion("", finish="context")))
    assert episode.stop == StopReason.CONTEXT_LIMIT
    assert episode.reward == Reward(0.0, False)
    assert len(episode.turns) == 2


@pytest.mark.parametrize(
    ("breaks", "kind", "num_turns"),
    [
        ({"open": OSError("no")}, "env/crash", 0),
        ({"open": "hang"}, "env/timeout", 0),
        ({"start": EnvError("gone", kind="lost-session")}, "env/lost-session", 0),
        ({"start": "hang"}, "env/timeout", 0),
        ({"step_2": ValueError("bug")}, "env/crash", 1),
        ({"step_3": "hang"}, "env/timeout", 2),
    ],
)
async def test_a_broken_environment_gives_no_reward_and_keeps_the_turns(
    breaks: dict[str, object], kind: str, num_turns: int
) -> None:
    episode = await play(CountingWorld(**breaks))
    assert episode.is_broken
    assert episode.error is not None
    assert episode.error.kind == kind
    assert episode.error.turn == num_turns == len(episode.turns)
    assert episode.reward is None
    assert episode.stop is None
    assert not episode.is_success


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (PolicyError("429", kind="rate-limited"), "policy/rate-limited"),
        (KeyError("bug"), "policy/crash"),
        ("hang", "policy/timeout"),
    ],
)
async def test_a_broken_policy_is_named(answer: object, kind: str) -> None:
    episode = await play(CountingWorld(), Steady(turn1=answer))
    assert episode.error is not None
    assert episode.error.kind == kind
    assert len(episode.turns) == 1


async def test_a_broken_judge_leaves_the_episode_unjudged() -> None:
    async def broken(task: Task, episode: Episode) -> Reward:
        raise RewardError("no verdict", kind="judge-down")

    table = Table(CountingWorld(), Steady(), broken, Limits(10))
    episode = await play_episode(table, Attempt(TASK))
    assert episode.error is not None
    assert episode.error.kind == "reward/judge-down"
    assert episode.reward is None
    assert len(episode.turns) == 3


async def test_a_failed_close_does_not_undo_a_finished_episode(
    caplog: pytest.LogCaptureFixture,
) -> None:
    episode = await play(CountingWorld(close=OSError("lost")))
    assert episode.reward == Reward(1.0, True)
    assert "closing the environment failed" in caplog.text


async def test_one_broken_episode_does_not_touch_its_neighbours() -> None:
    class Sometimes(CountingWorld):
        async def trouble(self, place: str) -> None:
            await super().trouble(place)
            if place == "step 2" and self.most_open == 4 and "used" not in self.breaks:
                self.breaks["used"] = True
                raise OSError("one of many")

    group = await play_group(make_table(Sometimes()), TASK, 8)
    assert sum(episode.is_broken for episode in group.episodes) == 1
    assert len(group.judged) == 7
    assert [episode.sample for episode in group.episodes] == list(range(8))


async def test_slots_bound_what_runs_at_once() -> None:
    world = CountingWorld()
    done: list[Episode] = []
    await play_many(
        make_table(world, at_once=3), (Attempt(TASK, i) for i in range(20)), done.append
    )
    assert world.most_open == 3
    assert sorted(e.sample for e in done) == list(range(20))


async def test_tables_can_share_their_slots() -> None:
    slots = Slots(3)
    worlds: list[CountingWorld] = []
    open_at_once: list[int] = []

    class Watched(CountingWorld):
        async def trouble(self, place: str) -> None:
            await super().trouble(place)
            open_at_once.append(sum(world.num_open for world in worlds))

    worlds += [Watched(), Watched()]
    tables = [Table(world, Steady(), judge_outcome, Limits(10), slots) for world in worlds]
    await asyncio.gather(*(play_group(table, TASK, 10) for table in tables))
    assert max(open_at_once) == 3


async def test_cancelling_closes_the_environment_and_leaves_nothing_running() -> None:
    world = CountingWorld(step_2="hang")
    table = Table(world, Steady(), judge_outcome, Limits(10), Slots(8))
    before = asyncio.all_tasks()
    group = asyncio.create_task(play_group(table, TASK, 8))
    while world.num_open < 8:
        await asyncio.sleep(0.001)
    group.cancel()
    with pytest.raises(asyncio.CancelledError):
        await group
    assert world.num_open == 0
    assert asyncio.all_tasks() == before


async def test_turn_seeds_depend_on_run_task_sample_and_turn_alone() -> None:
    async def seeds(seed: int, sample: int) -> list[int]:
        agent = Steady()
        await play_episode(make_table(CountingWorld(), agent), Attempt(TASK, sample, seed))
        return agent.seeds

    assert await seeds(0, 0) == await seeds(0, 0)
    every = [*await seeds(0, 0), *await seeds(0, 1), *await seeds(1, 0)]
    assert len(set(every)) == len(every)

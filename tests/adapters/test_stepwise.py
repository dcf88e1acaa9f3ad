"""An episode answered from outside is the episode that our own loop plays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from adapters.flaky_textcraft import FlakyTextCraft, create
from adapters.one_episode import FORMAT, MAX_TURNS, TEXTS, collected_episode, task

from practicum.adapters.stepwise import Moment, Stepwise, World
from practicum.config.eval import LimitsConfig
from practicum.core.episode import Completion, StopReason
from practicum.core.errors import ConfigError, EnvError, ErrorInfo, MachineError
from practicum.core.message import Image, Observation
from practicum.envs.registry import load_env
from practicum.rollout.play import Attempt

FLAKY = f"{Path(__file__).with_name('flaky_textcraft.py')}:create"
ALWAYS = {"modulus": 1, "remainders": [0]}
LIMITS = LimitsConfig(max_turns=MAX_TURNS)


async def play(stepwise: Stepwise) -> Moment:
    moment = await stepwise.begin(Attempt(task()))
    for text in TEXTS:
        assert moment.episode is None
        moment = await stepwise.answer(text)
    return moment


async def test_it_is_the_episode_of_our_own_loop() -> None:
    moment = await play(Stepwise(load_env("textcraft"), LIMITS, FORMAT))
    reference = await collected_episode()
    turns = tuple(replace(t, completion=Completion(t.completion.text)) for t in reference.turns)
    assert moment.episode is not None
    assert moment.episode == replace(reference, id=moment.episode.id, seed=0, sample=0, turns=turns)


async def test_an_episode_without_room_is_cut_short_and_judged() -> None:
    stepwise = Stepwise(load_env("textcraft"), LIMITS, FORMAT)
    await stepwise.begin(Attempt(task()))
    await stepwise.answer(TEXTS[2])
    moment = await stepwise.cut_short()
    assert moment.episode is not None and moment.episode.reward is not None
    assert moment.episode.stop is StopReason.CONTEXT_LIMIT
    assert (moment.episode.reward.value, len(moment.episode.turns)) == (0.0, 1)


async def test_an_episode_can_be_left_for_another() -> None:
    stepwise = Stepwise(load_env("textcraft"), LIMITS, FORMAT)
    await stepwise.begin(Attempt(task()))
    await stepwise.answer(TEXTS[2])
    assert (await play(stepwise)).episode is not None
    assert not stepwise.is_under_way


async def test_what_broke_is_raised() -> None:
    stepwise = Stepwise(create(**ALWAYS), LIMITS)
    await stepwise.begin(Attempt(task()))
    await stepwise.answer("inventory")
    with pytest.raises(EnvError, match="the world fell apart") as caught:
        await stepwise.answer("inventory")
    assert caught.value.kind == "lost-session"
    assert not stepwise.is_under_way


async def test_a_world_of_pictures_is_refused() -> None:
    world = create(**ALWAYS)
    picture = Observation("look", (Image(b"png"),))
    world.open = lambda _: _Showing(picture)  # type: ignore[method-assign]
    stepwise = Stepwise(world, LIMITS)
    with pytest.raises(ConfigError, match="view=tree"):
        await stepwise.begin(Attempt(task()))
    await stepwise.aclose()


class _Showing:
    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    async def __aenter__(self) -> _Showing:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def start(self) -> Observation:
        return self._observation


def test_a_world_leaves_what_is_under_way_when_it_is_closed() -> None:
    world = World(FLAKY, options=ALWAYS)
    seats = [world.seat() for _ in range(2)]
    for seat in seats:
        seat.begin(Attempt(task()))
    inner = cast(FlakyTextCraft, world.environment)
    assert inner.num_open == 2
    world.close()
    assert inner.num_open == 0
    world.close()


def test_an_error_comes_back_from_its_record() -> None:
    broken = MachineError("no lease", kind="lost")
    again = ErrorInfo.of(broken, turn=3).to_error()
    assert (type(again), str(again), again.kind) == (MachineError, "no lease", "lost")

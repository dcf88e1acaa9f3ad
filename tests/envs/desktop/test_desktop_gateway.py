"""Tasks on desktops behind a gateway, several at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from desktops.gateways import TOKEN
from desktops.test_gateway_on_xvfb import config
from support import require_env

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Sampling
from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.desktops.gateway.server import running
from practicum.envs.desktop.bodies import TOKEN_VARIABLE
from practicum.envs.desktop.env import Desktop, create
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Slots, Table, play_many

NUM_DESKTOPS = 8
SCREEN = {"width": 1280, "height": 720}


async def play_all(desktop: Desktop, num_tasks: int) -> list[Episode]:
    action_format = get_format("json")
    policy = make_policy("expert", desktop, action_format, EndpointConfig())
    agent = ChatAgent(desktop, action_format, policy, Sampling())
    limits = Limits(desktop.max_turns, turn_timeout_s=120)
    table = Table(desktop, agent, judge_outcome, limits, Slots(NUM_DESKTOPS))
    tasks = [t for t in desktop.panel("all") if t.difficulty in ("terminal", "editor")]
    episodes: list[Episode] = []
    await play_many(table, [Attempt(task) for task in tasks[:num_tasks]], episodes.append)
    return episodes


async def test_an_agent_that_reads_only_text_solves_tasks_on_eight_desktops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_env("desktop")
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    wanted = config(tmp_path, size=NUM_DESKTOPS, spares=0, local=SCREEN)
    async with running(wanted) as (url, _):
        desktop = create(body=url)
        try:
            episodes = await play_all(desktop, 2 * NUM_DESKTOPS)
        finally:
            await desktop.aclose()
    assert [episode.error for episode in episodes] == [None] * 2 * NUM_DESKTOPS
    assert all(episode.is_success for episode in episodes)


async def test_a_screen_of_another_size_is_a_named_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_env("desktop")
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    async with running(config(tmp_path, size=1, spares=0)) as (url, _):
        desktop = create(body=url)
        try:
            episodes = await play_all(desktop, 1)
        finally:
            await desktop.aclose()
    assert [episode.error and episode.error.kind for episode in episodes] == ["machine/screen"]


def test_a_gateway_without_a_token_says_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    require_env("desktop")
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=TOKEN_VARIABLE):
        create(body="http://127.0.0.1:1")

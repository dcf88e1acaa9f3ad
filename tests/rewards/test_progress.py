"""Turns are paid for the way they bring the expert forward, and nothing else changes."""

from __future__ import annotations

import pytest
from support import require_env

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.eval import EndpointConfig
from practicum.core.agent import Sampling
from practicum.core.env import Guided
from practicum.core.episode import Episode
from practicum.envs.registry import load_env
from practicum.rewards.outcome import judge_outcome
from practicum.rewards.progress import judge_progress
from practicum.rollout.play import Attempt, Limits, Table, play_episode
from practicum.train.batch import turn_rewards


async def play(
    script: str, env_id: str = "textcraft", weight: float = 0.3, max_turns: int = 60
) -> Episode:
    require_env(env_id)
    env = load_env(env_id)
    assert isinstance(env, Guided)
    react = get_format("react")
    agent = ChatAgent(env, react, make_policy(script, env, react, EndpointConfig()), Sampling())
    judge = judge_progress(judge_outcome, env, weight)
    task = next(t for t in env.panel("dev") if t.difficulty != "depth 1")
    try:
        return await play_episode(Table(env, agent, judge, Limits(max_turns)), Attempt(task))
    finally:
        await env.aclose()


@pytest.mark.parametrize("env_id", ["textcraft", "babyai", "sciworld"])
async def test_the_expert_earns_an_equal_share_with_every_turn(env_id: str) -> None:
    episode = await play("expert", env_id)
    assert episode.is_success and episode.reward is not None
    share = 0.3 / len(episode.turns)
    assert episode.reward.dense == pytest.approx([share] * len(episode.turns))
    assert episode.reward.value == pytest.approx(1.0, abs=0.1), "as without: BabyAI pays for speed"


@pytest.mark.parametrize("env_id", ["textcraft", "babyai"])
async def test_detours_pay_nothing(env_id: str) -> None:
    episode = await play("random", env_id, max_turns=8)
    assert episode.reward is not None and not episode.is_success
    assert len(episode.reward.dense) == 8 and sum(episode.reward.dense) < 0.3


async def test_an_episode_is_paid_for_where_it_ends() -> None:
    whole = await play("expert")
    cut = await play("expert", max_turns=2)
    assert cut.reward is not None and not cut.is_success
    assert sum(cut.reward.dense) == pytest.approx(0.3 * 2 / len(whole.turns))
    assert cut.reward.value == 0.0


async def test_dense_rewards_come_on_top_of_what_turns_earned() -> None:
    episode = await play("expert")
    assert episode.reward is not None
    rewards = turn_rewards(episode)
    assert sum(rewards) == pytest.approx(1.3)
    assert rewards[:-1] == pytest.approx(list(episode.reward.dense[:-1]))

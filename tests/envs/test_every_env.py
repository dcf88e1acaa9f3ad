"""What holds for every registered environment: a new one is tested by being registered."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import TIMELESS, require_env

from practicum.agents.chat import ChatAgent
from practicum.agents.formats import FORMATS, get_format
from practicum.agents.policy_spec import make_policy
from practicum.config.base import read_config
from practicum.config.eval import EndpointConfig, EvalConfig
from practicum.core.agent import Sampling
from practicum.envs import registry
from practicum.envs.contract import check_env
from practicum.evaluate import runner
from practicum.rewards.outcome import judge_outcome
from practicum.rollout.play import Attempt, Limits, Table, play_episode

every_env = pytest.mark.parametrize("env_id", registry.entries())


@every_env
async def test_every_environment_keeps_its_promises(env_id: str) -> None:
    require_env(env_id)
    environment = registry.load_env(env_id)
    try:
        for result in await check_env(environment):
            assert result.is_kept, f"{result.name}: {result.detail}"
    finally:
        await environment.aclose()


@every_env
@pytest.mark.parametrize("name", FORMATS)
async def test_the_expert_wins_in_every_format(tmp_path: Path, env_id: str, name: str) -> None:
    """What it wants is rendered, parsed and carried out like a model's answer."""
    require_env(env_id)
    config = read_config(
        EvalConfig,
        values={"env": env_id, "policy": "expert", "panel": "dev", "format": name, "max_tasks": 3},
    )
    evaluation = runner.prepare(config)
    try:
        run = runner.start_run(evaluation, tmp_path / "run")
        report = await runner.run_evaluation(evaluation, run, lambda _: None)
    finally:
        await evaluation.aclose()
    assert report["success"]["mean"] == 1.0
    assert report["format_errors"]["total"] == 0


@pytest.mark.parametrize("env_id", TIMELESS)
async def test_equal_games_come_through_equal_states(env_id: str) -> None:
    require_env(env_id)
    environment = registry.load_env(env_id)
    react = get_format("react")
    policy = make_policy("expert", environment, react, EndpointConfig())
    agent = ChatAgent(environment, react, policy, Sampling())
    table = Table(environment, agent, judge_outcome, Limits(environment.max_turns))
    try:
        task = environment.panel("dev").tasks[0]
        games = [await play_episode(table, Attempt(task, sample)) for sample in range(2)]
    finally:
        await environment.aclose()
    states = [[turn.state for turn in game.turns] for game in games]
    assert states[0] == states[1] and None not in states[0]
    assert 2 * len(set(states[0])) > len(states[0]), "the expert hardly ever comes back"

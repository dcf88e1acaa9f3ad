"""Every environment of ours passes Gymnasium's own checks, and its expert wins there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gymnasium
import pytest
from adapters.expert_play import ExpertPlayer
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from support import TIMELESS, require_env

from practicum.adapters.gymnasium import gym_id
from practicum.core.errors import ConfigError, EnvError
from practicum.envs.registry import entries, load_env

FLAKY = f"{Path(__file__).with_name('flaky_textcraft.py')}:create"
ALWAYS = {"modulus": 1, "remainders": [0]}


def play(env: gymnasium.Env[str, str], player: ExpertPlayer, shown: str) -> dict[str, Any]:
    total = 0.0
    while True:
        shown, reward, is_terminated, is_truncated, info = env.step(player.answer(shown))
        total += reward
        if is_terminated or is_truncated:
            assert info["episode_reward"] == total
            return {**info, "is_terminated": is_terminated}


@pytest.mark.parametrize("env_id", TIMELESS)
def test_gymnasium_finds_no_fault(env_id: str) -> None:
    require_env(env_id)
    env = gymnasium.make(gym_id(env_id), panel="dev")
    try:
        check_env(env.unwrapped)
    finally:
        env.close()


@pytest.mark.parametrize("env_id", entries())
def test_the_expert_wins(env_id: str) -> None:
    require_env(env_id)
    env = gymnasium.make(gym_id(env_id), panel="dev")
    environment = load_env(env_id)
    task = environment.panel("dev").tasks[0]
    try:
        shown, _ = env.reset(options={"task_id": task.id})
        last = play(env, ExpertPlayer(environment, task), shown)
    finally:
        env.close()
    assert last["is_success"] and last["is_terminated"] and last["stop"] == "done"


def test_a_seed_and_a_name_choose_the_task() -> None:
    env = gymnasium.make("practicum/TextCraft-v1")
    try:
        drawn = [env.reset(seed=seed)[1]["task_id"] for seed in (3, 3, 4)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert drawn[0] == "textcraft-d3e396dce899cd54", "the same on every machine"
        shown, info = env.reset(options={"task_id": drawn[2]})
        assert info["task_id"] == drawn[2]
        assert env.reset(seed=4)[0] == shown
        with pytest.raises(ConfigError, match="not in this panel"):
            env.reset(options={"task_id": "textcraft-0"})
        with pytest.raises(ConfigError, match="unknown option of reset 'task': did you mean"):
            env.reset(options={"task": drawn[2]})
    finally:
        env.close()


def test_with_a_format_an_action_is_a_whole_answer() -> None:
    env = gymnasium.make("practicum/TextCraft-v1", format="react", limits={"max_turns": 2})
    try:
        _, info = env.reset(seed=0)
        assert "Action: <one action>" in info["system"]
        shown, reward, *ends, info = env.step("get 1 stick")
        assert "Your answer held no action" in shown
        assert (reward, ends, info["format_error"]) == (0.0, [False, False], "no-action")
        *_, is_terminated, is_truncated, info = env.step("Action: inventory")
        assert (is_terminated, is_truncated) == (False, True)
        assert info["stop"] == "turn-limit"
        with pytest.raises(ResetNeeded):
            env.step("Action: inventory")
    finally:
        env.close()


def test_a_broken_world_raises_and_the_next_episode_is_sound() -> None:
    env = gymnasium.make("practicum/TextCraft-v1", env_id=FLAKY, options=ALWAYS)
    try:
        env.reset(seed=0)
        env.step("inventory")
        with pytest.raises(EnvError, match="the world fell apart"):
            env.step("inventory")
        env.reset(seed=0)
        env.step("inventory")
    finally:
        env.close()


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown option"):
        gymnasium.make("practicum/TextCraft-v1", options={"colour": 1})
    with pytest.raises(ConfigError, match="unknown key 'max_turn': did you mean 'max_turns'"):
        gymnasium.make("practicum/TextCraft-v1", limits={"max_turn": 1})
    with pytest.raises(ConfigError, match="unknown action format"):
        gymnasium.make("practicum/TextCraft-v1", format="reakt")


# Gymnasium forks, and newer Pythons warn where there are threads.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_episodes_side_by_side(mode: Literal["sync", "async"]) -> None:
    options = {"shared_memory": False} if mode == "async" else {}
    envs = gymnasium.make_vec(
        "practicum/TextCraft-v1", num_envs=2, vectorization_mode=mode, vector_kwargs=options
    )
    try:
        shown, _ = envs.reset(seed=[0, 1])
        assert len(shown) == 2 and shown[0] != shown[1]
        shown, rewards, *_ = envs.step(("inventory", "inventory"))
        assert shown[0] == "Inventory: You are not carrying anything."
        assert list(rewards) == [0.0, 0.0]
    finally:
        envs.close()


def test_texts_do_not_travel_as_numbers() -> None:
    with pytest.raises(ValueError, match="shared_memory=False"):
        gymnasium.make_vec("practicum/TextCraft-v1", num_envs=2, vectorization_mode="async")

"""The conversation an agent shows a policy."""

from __future__ import annotations

from practicum.agents.chat import LEFT_OUT, ChatAgent
from practicum.agents.formats import get_format
from practicum.core.agent import Sampling, Situation
from practicum.core.episode import Completion, Turn
from practicum.core.message import Action, Image, Observation
from practicum.envs.registry import load_env
from practicum.policies.scripted import ScriptedPolicy


def agent(max_images: int | None) -> ChatAgent:
    env = load_env("textcraft")
    policy = ScriptedPolicy(env.scripts["random"], lambda decision: decision.action.text)
    return ChatAgent(env, get_format("react"), policy, Sampling(), max_images=max_images)


def situation(num_turns: int) -> Situation:
    seen = [Observation(f"turn {n}", (Image(b"%d" % n),)) for n in range(num_turns + 1)]
    turns = [Turn(o, Completion("x"), Action("x")) for o in seen[:-1]]
    task = load_env("textcraft").panel("dev").tasks[0]
    return Situation(task, 0, turns, seen[-1], 0)


def test_messages_only_grow_at_their_end() -> None:
    for num_turns in range(4):
        before = agent(None).messages(situation(num_turns))
        after = agent(None).messages(situation(num_turns + 1))
        assert after[: len(before)] == before


def test_a_window_keeps_the_newest_pictures_and_says_what_is_missing() -> None:
    users = [m for m in agent(2).messages(situation(3)) if m.role == "user"]
    assert [len(m.images) for m in users] == [0, 0, 1, 1]
    assert users[0].text == f"{LEFT_OUT}\nturn 0"
    assert users[-1].images[0].data == b"3"

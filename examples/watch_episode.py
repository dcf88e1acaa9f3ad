"""Plays one TextCraft game and prints it: the shortest tour of the Python interface.

python examples/watch_episode.py [expert|novice|random]
"""

from __future__ import annotations

import asyncio
import sys

from practicum import (
    Attempt,
    ChatAgent,
    Limits,
    Sampling,
    Table,
    get_format,
    judge_outcome,
    load_env,
    make_policy,
    play_episode,
)
from practicum.config.eval import EndpointConfig

GOAL = "Craft bookshelf."


async def main(player: str) -> None:
    """Play the game and print every turn as the player saw it."""
    env = load_env("textcraft")
    task = next(task for task in env.panel("dev") if task.prompt == GOAL)
    react = get_format("react")
    policy = make_policy(player, env, react, EndpointConfig())
    agent = ChatAgent(env, react, policy, Sampling())
    table = Table(env, agent, judge_outcome, Limits(max_turns=env.max_turns))

    episode = await play_episode(table, Attempt(task))

    print(f"{player} plays {task.id}: {task.prompt}\n")
    for turn in episode.turns:
        print(turn.observation.text, "\n", sep="")
        print("\n".join(f"    {line}" for line in turn.completion.text.splitlines()), "\n", sep="")
    assert episode.final is not None and episode.reward is not None
    print(episode.final.text)
    print(f"\nended: {episode.stop}, reward {episode.reward.value:g}, {len(episode.turns)} turns")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "expert"))

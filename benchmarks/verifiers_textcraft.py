"""The rollout benchmark's game as an environment of `verifiers` 0.4.

Loaded by `verifiers` through its plugin name, `verifiers_textcraft`. Like the game tasksets
that ship with it, the environment holds the player's `interaction` open and answers every
reply with the next observation. Wherever there is a choice it is the cheaper one:

- The harness runs in this process, as `Harness.launch` allows, where the shipped `null`
  harness starts a Python program for every turn. Model calls still pass the interception
  server: that is the contract, and where `verifiers` records the turn.
- The harness keeps the conversation itself, where the default rebuilds it from the trace,
  and posts it with plain aiohttp over kept-open connections, cheaper than an SDK.
- The game reads the action with one regular expression and knows `get` only.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import verifiers.v1 as vf

__all__ = ["CraftEnv", "CraftHarness", "CraftTaskset"]

# Comes with verifiers; our own environment need not have it.
aiohttp: Any = importlib.import_module("aiohttp")

_ACTION = re.compile(r"^Action: get ([0-9]+) (.*)$", re.MULTILINE)


class CraftGame:
    """Fetches items; says what TextCraft says."""

    def __init__(self) -> None:
        self._inventory: dict[str, int] = {}

    def step(self, answer: str) -> str:
        match = _ACTION.search(answer)
        if match is None:
            return "Your answer held no action."
        count, name = int(match[1]), match[2]
        self._inventory[name] = self._inventory.get(name, 0) + count
        return f"Got {count} {name}"


class CraftSession(vf.HarnessSession):  # type: ignore[misc]
    """One episode's conversation, kept as it goes over the wire."""

    _messages: list[dict[str, str]] | None = None

    async def _run(self, messages: Any) -> Any:
        if self._messages is None:
            self._messages = [
                {"role": "system", "content": self.data.system_prompt},
                {"role": "user", "content": self.data.prompt},
            ]
        else:
            self._messages.extend({"role": m.role, "content": m.content} for m in messages)
        request = {"model": self.ctx.model, "messages": self._messages}
        async with CraftHarness.http.post(
            f"{self.endpoint}/chat/completions",
            data=json.dumps(request).encode(),
            headers={
                "authorization": f"Bearer {self.secret}",
                "content-type": "application/json",
            },
        ) as reply:
            completion = json.loads(await reply.read())
        answer = completion["choices"][0]["message"]["content"]
        self._messages.append({"role": "assistant", "content": answer})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class CraftHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """A chat loop in this process."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    http: ClassVar[Any]
    """Shared by all episodes; `CraftEnv` opens and closes it."""

    async def session(self, *args: Any) -> CraftSession:
        return CraftSession(self, *args)

    async def launch(self, *_: Any) -> Any:
        raise NotImplementedError("every turn goes through CraftSession")


class CraftConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Where the prompts are."""

    scenario: Path
    """JSON with `system` and `first_observations`, as our own agent sends them."""


class CraftTask(vf.Task[vf.TaskData]):  # type: ignore[misc]
    """Nothing beyond its data."""


class CraftTaskset(vf.Taskset[CraftTask, CraftConfig]):  # type: ignore[misc]
    """One task per first observation."""

    def load(self) -> Iterator[CraftTask]:
        scenario = json.loads(self.config.scenario.read_text())
        for first in scenario["first_observations"]:
            data = vf.TaskData(prompt=first, system_prompt=scenario["system"])
            yield CraftTask(data, self.config.task)


class CraftEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """One player, and how long an episode is."""

    player: vf.AgentConfig = vf.AgentConfig(
        harness={"id": "verifiers_textcraft"}, runtime=vf.SubprocessConfig()
    )
    num_turns: int = 1


class CraftEnv(vf.Env[CraftEnvConfig]):  # type: ignore[misc]
    """Answers every reply of the player with the game's."""

    async def start(self) -> None:
        CraftHarness.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def stop(self) -> None:
        await CraftHarness.http.close()

    async def run(self, task: Any, agents: Any) -> None:
        game = CraftGame()
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(self.config.num_turns - 1):
                segment = await interaction.turn(game.step(segment.last_reply))
            game.step(segment.last_reply)
        interaction.trace.record_reward("outcome", 0.0)

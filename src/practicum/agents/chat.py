"""The agent: an environment's rules and an action format around a policy, in chat form."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.agents.format import ActionFormat
from practicum.core.agent import Act, Policy, Prompt, Sampling, Situation
from practicum.core.commands import Command
from practicum.core.env import Environment
from practicum.core.episode import FormatError
from practicum.core.message import Message


class ChatAgent:
    """Shows the episode so far as a conversation and reads one action from the answer."""

    def __init__(
        self,
        environment: Environment,
        action_format: ActionFormat,
        policy: Policy,
        sampling: Sampling,
    ) -> None:
        self._commands: Sequence[Command] = environment.commands
        self._format = action_format
        self._policy = policy
        self._sampling = sampling
        self._system = f"{environment.rules}\n\n{action_format.instructions(self._commands)}"

    @property
    def system(self) -> str:
        """Rules of the world, then how to answer."""
        return self._system

    async def act(self, situation: Situation) -> Act:
        """Ask the policy and read its answer."""
        prompt = Prompt(self.messages(situation), situation)
        completion = await self._policy.complete(prompt, self._sampling)
        parsed = self._format.parse(completion.text, self._commands)
        if isinstance(parsed, FormatError):
            return Act(completion, None, parsed)
        return Act(completion, parsed.action)

    def messages(self, situation: Situation) -> tuple[Message, ...]:
        """The conversation so far: it only ever grows at its end."""
        messages = [Message("system", self._system)]
        for turn in situation.history:
            seen = turn.observation
            messages.append(Message("user", seen.text, seen.images))
            messages.append(Message("assistant", turn.completion.text))
        now = situation.observation
        messages.append(Message("user", now.text, now.images))
        return tuple(messages)

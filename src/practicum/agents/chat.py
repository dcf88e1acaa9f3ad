"""The agent: an environment's rules and an action format around a policy, in chat form."""

from __future__ import annotations

from collections.abc import Sequence

from practicum.agents.format import ActionFormat, system_text
from practicum.core.agent import Act, Policy, Prompt, Sampling, Situation
from practicum.core.commands import Command
from practicum.core.env import Environment
from practicum.core.episode import FormatError
from practicum.core.message import Message

LEFT_OUT = "(an older picture is left out here)"


class ChatAgent:
    """Shows the episode so far as a conversation and reads one action from the answer.

    With `max_images`, only the newest pictures are sent. Messages then change after they were
    sent, so such an agent is for evaluation: what it samples cannot be trained on in one piece.
    """

    def __init__(
        self,
        environment: Environment,
        action_format: ActionFormat,
        policy: Policy,
        sampling: Sampling,
        *,
        max_images: int | None = None,
    ) -> None:
        self._commands: Sequence[Command] = environment.commands
        self._format = action_format
        self._policy = policy
        self._sampling = sampling
        self._max_images = max_images
        self._system = system_text(environment, action_format)

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
        """The conversation so far: it only ever grows at its end, unless pictures are limited."""
        messages = [Message("system", self._system)]
        for turn in situation.history:
            seen = turn.observation
            messages.append(Message("user", seen.text, seen.images))
            messages.append(Message("assistant", turn.completion.text))
        now = situation.observation
        messages.append(Message("user", now.text, now.images))
        if self._max_images is not None:
            messages = _limit_images(messages, self._max_images)
        return tuple(messages)


def _limit_images(messages: Sequence[Message], most: int) -> list[Message]:
    """Take all but the newest pictures out; a note says that there was one."""
    kept: list[Message] = []
    for message in reversed(messages):
        if message.images and most < len(message.images):
            note = f"{LEFT_OUT}\n{message.text}" if message.text else LEFT_OUT
            kept.append(Message(message.role, note))
            most = 0
        else:
            most -= len(message.images)
            kept.append(message)
    return kept[::-1]

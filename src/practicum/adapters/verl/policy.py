"""verl's inference servers behind the interface of a policy: ids in, ids out."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion
from practicum.core.errors import ConfigError, PolicyError
from practicum.policies.rendering import Renderer


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens verl keeps of a sequence, and how many the model reads."""

    prompt: int
    response: int
    context: int


@dataclass
class ServerPolicy:
    """Answers of one episode. The session's id keeps it on one server, and its cache warm."""

    client: Any
    """verl's `LLMServerClient`, or what has its `generate`."""
    renderer: Renderer
    session: str
    sampling_params: dict[str, Any]
    """As verl sets them for training or validation."""
    room: Room
    generate_s: float = 0.0
    num_preempted: int = -1
    """-1: the server does not say."""
    versions: list[int] = field(default_factory=list)
    """Of the weights that answered, in their order."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Sample the next answer of the episode."""
        ids = self.renderer.prompt_ids(prompt)
        left = self._left(prompt, len(ids))
        if left <= 0:
            return Completion("", "context")
        params = {
            **self.sampling_params,
            "max_tokens": min(sampling.max_tokens, left),
            "stop_token_ids": sorted(self.renderer.stop_ids),
        }
        began = perf_counter()
        answer = await self.client.generate(
            self.session, prompt_ids=list(ids), sampling_params=params
        )
        self.generate_s += perf_counter() - began
        self._note(answer)
        if answer.stop_reason in ("aborted", "abort") or not answer.token_ids:
            raise PolicyError("the server ended an answer before its end", kind="aborted")
        token_ids = tuple(map(int, answer.token_ids))
        return Completion(
            text=self.renderer.decode(token_ids),
            finish="stop" if token_ids[-1] in self.renderer.stop_ids else "length",
            prompt_token_ids=ids,
            token_ids=token_ids,
            logprobs=_logprobs(answer),
            policy_version=answer.extra_fields.get("max_global_steps"),
        )

    def _left(self, prompt: Prompt, num_ids: int) -> int:
        """Tokens there is room for; a first prompt that verl would cut is a mistake of ours."""
        history = prompt.situation.history
        first = num_ids
        if history:
            asked = history[0].completion.prompt_token_ids
            assert asked is not None
            first = len(asked)
        if first > self.room.prompt:
            raise ConfigError(
                f"the prompt of {prompt.situation.task.id} has {first} tokens and data."
                f"max_prompt_length={self.room.prompt}: verl would cut it; export again"
            )
        return min(first + self.room.response, self.room.context) - num_ids

    def _note(self, answer: Any) -> None:
        for key in ("min_global_steps", "max_global_steps"):
            version = answer.extra_fields.get(key)
            if version is not None:
                self.versions.append(int(version))
        if answer.num_preempted is not None:
            self.num_preempted = max(0, self.num_preempted) + answer.num_preempted

    async def aclose(self) -> None:
        """Release nothing: the servers are the trainer's."""


def _logprobs(answer: Any) -> tuple[float, ...]:
    if not answer.log_probs or len(answer.log_probs) != len(answer.token_ids):
        raise ConfigError(
            f"the server gave {len(answer.log_probs or ())} log-probabilities for "
            f"{len(answer.token_ids)} tokens: set actor_rollout_ref.rollout."
            "calculate_log_probs=true"
        )
    return tuple(map(float, answer.log_probs))

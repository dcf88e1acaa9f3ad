"""A server asked in token ids: what it sampled goes back to it as it was, turn after turn.

Chat endpoints render and tokenise a conversation anew at every turn. Here our renderer does so,
and the server's `/completions` gets ids and gives ids. Written against vLLM, which takes
`return_token_ids` and `stop_token_ids`; its log-probabilities are those that an answer was drawn
with if it was started with `--logprobs-mode processed_logprobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai
from openai.types import Completion as ServerCompletion

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion
from practicum.core.errors import PolicyError
from practicum.policies.openai_endpoint import Endpoint, OpenAIPolicy
from practicum.policies.rendering import Renderer


class _Models(openai.BaseModel):
    """What a server says of its models."""

    data: list[dict[str, Any]]


class TokenEndpointPolicy(OpenAIPolicy):
    """A model behind an OpenAI-compatible endpoint that takes and gives token ids."""

    def __init__(self, endpoint: Endpoint, renderer: Renderer) -> None:
        super().__init__(endpoint)
        self.renderer = renderer
        self.version = 0
        """What a trainer said last: the server does not tell."""
        self._max_context: int | None = None

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask for one answer to the ids of a conversation."""
        ids = self.renderer.prompt_ids(prompt)
        room = await self._find_context() - len(ids)
        if room <= 0:
            return Completion("", finish="context")
        version = self.version
        request = {
            "prompt": ids,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": min(sampling.max_tokens, room),
            "seed": prompt.situation.seed % 2**31,
            "stop_token_ids": sorted(self.renderer.stop_ids),
            "add_special_tokens": False,
        }
        reply = await self.call("/completions", ServerCompletion, request)
        if reply is None:
            return Completion("", finish="context")
        return self._read(reply, ids, version)

    def _settings(self) -> dict[str, Any]:
        # 0: of the sampled token and no other.
        return {"model": self._endpoint.model, "logprobs": 0, "return_token_ids": True}

    def _read(self, reply: ServerCompletion, ids: tuple[int, ...], version: int) -> Completion:
        where = self._endpoint.base_url
        if not reply.choices:
            raise PolicyError(f"{where} answered without choices", kind="bad-reply")
        choice = reply.choices[0]
        extras: Mapping[str, Any] = choice.model_extra or {}
        said, logprobs = extras.get("token_ids"), choice.logprobs and choice.logprobs.token_logprobs
        if not said or not logprobs or len(said) != len(logprobs):
            raise PolicyError(
                f"{where} did not send the ids and log-probabilities of its answer: it must be a "
                "server that knows return_token_ids, such as vLLM",
                kind="bad-reply",
            )
        if list(extras.get("prompt_token_ids") or ids) != list(ids):
            raise PolicyError(f"{where} answered another prompt than was sent", kind="bad-reply")
        return Completion(
            text=self.renderer.decode(said),
            finish="length" if choice.finish_reason == "length" else "stop",
            prompt_token_ids=ids,
            token_ids=tuple(said),
            logprobs=tuple(logprobs),
            policy_version=version,
        )

    async def _find_context(self) -> int:
        """How many tokens the model takes, prompt and answer together; asked once."""
        if self._max_context is None:
            models = await self.call("/models", _Models)
            listed = [] if models is None else models.data
            own = [model for model in listed if model.get("id") == self._endpoint.model]
            length = own[0].get("max_model_len") if own else None
            if not isinstance(length, int):
                known = ", ".join(str(model.get("id")) for model in listed)
                raise PolicyError(
                    f"{self._endpoint.base_url} does not say how many tokens "
                    f"{self._endpoint.model} takes (max_model_len of /models); it lists: {known}",
                    kind="bad-reply",
                )
            self._max_context = length
        return self._max_context

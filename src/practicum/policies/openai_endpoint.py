"""Any OpenAI-compatible endpoint, through the `openai` SDK.

What a server can do wrong becomes a `PolicyError` with a kind: `unreachable`, `timeout`,
`rate-limited`, `server-error`, `bad-reply`, `refused` (a request it will never take). A
conversation that no longer fits the model's context is the agent's doing, not a fault:
it comes back as a completion with `finish="context"`.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import openai
from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion import Choice

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion, Finish
from practicum.core.errors import PolicyError
from practicum.core.message import Image, Message
from practicum.core.retry import Again, Backoff, read_retry_after, retry

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply", bound=openai.BaseModel)

_CONTEXT_WORDS = ("context length", "context_length", "maximum context", "context window")
_AREAL_CONTEXT_WORDS = "exceeds max_total_tokens"
"""AReaL's proxy says so with status 500."""
_NO_KEY = "none"
"""Local servers take any key, but the SDK insists on one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask, and how patiently."""

    model: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    request_timeout_s: float = 120.0
    backoff: Backoff = field(default_factory=Backoff)
    repeats_unanswered: bool = True
    """Ask again also where no reply came: a server that keeps what it answers would keep two."""
    wants_logprobs: bool = False
    wants_token_ids: bool = False
    sends_seed: bool = False


class OpenAIPolicy:
    """A model behind an OpenAI-compatible chat endpoint."""

    def __init__(self, endpoint: Endpoint, http_client: Any = None) -> None:
        """With a `http_client`, its connections are used and stay open."""
        self._endpoint = endpoint
        self._is_shared = http_client is not None
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.api_key or _NO_KEY,
            base_url=endpoint.base_url,
            timeout=endpoint.request_timeout_s,
            max_retries=0,  # `practicum.core.retry` waits visibly and within our bounds
            http_client=http_client,
        )

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask for one answer; transient failures are retried."""
        reply = await self.ask(self._request(prompt, sampling))
        if reply is None:
            return Completion("", finish="context")
        return read_choice(reply, reply.choices[0])

    async def ask(self, request: Mapping[str, Any]) -> ChatCompletion | None:
        """Send a chat request that has all but the endpoint's own settings.

        The reply has a choice at least. None: the conversation does not fit the context.
        """
        reply = await self.call("/chat/completions", ChatCompletion, request)
        if reply is not None and not reply.choices:
            raise PolicyError(
                f"{self._endpoint.base_url} answered without choices", kind="bad-reply"
            )
        return reply

    async def call(
        self, path: str, kind: type[Reply], request: Mapping[str, Any] | None = None
    ) -> Reply | None:
        """Send a request, or get what is there; what breaks is named.

        None: the conversation does not fit the context.
        """
        body = None if request is None else {**request, **self._settings()}
        try:
            return await retry(
                lambda: self._call(path, kind, body), self._judge, self._endpoint.backoff, self._say
            )
        except openai.OpenAIError as error:
            if _is_context_overflow(error):
                return None
            raise self._named(error) from error
        except json.JSONDecodeError as error:
            raise PolicyError(
                f"{self._endpoint.base_url} answered with broken JSON: {error}", kind="bad-reply"
            ) from error

    async def aclose(self) -> None:
        """Close the connections, unless they are someone else's."""
        if not self._is_shared:
            await self._client.close()

    async def _call(self, path: str, kind: type[Reply], body: Mapping[str, Any] | None) -> Reply:
        # Not `chat.completions.create`: it checks every message against its type hints at every
        # turn, which costs more than twice as much as all the rest of the call.
        reply: object = (
            await self._client.get(path, cast_to=kind)
            if body is None
            else await self._client.post(path, body=body, cast_to=kind)
        )
        # The SDK hands a body that is no JSON through as it is.
        if not isinstance(reply, kind):
            raise PolicyError(
                f"{self._endpoint.base_url} answered with {str(reply)[:60]!r} and not with what "
                f"belongs to {path}: is this the API's base URL (it often ends in /v1)?",
                kind="bad-reply",
            )
        return reply

    def _request(self, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
        endpoint = self._endpoint
        request: dict[str, Any] = {
            "messages": [_message(message) for message in prompt.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if endpoint.sends_seed:
            request["seed"] = prompt.situation.seed % 2**31
        return request

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"model": self._endpoint.model}
        if self._endpoint.wants_logprobs:
            settings["logprobs"] = True
        if self._endpoint.wants_token_ids:
            settings["return_token_ids"] = True
        return settings

    def _named(self, error: openai.OpenAIError) -> PolicyError:
        where = self._endpoint.base_url
        if isinstance(error, openai.APITimeoutError):
            seconds = self._endpoint.request_timeout_s
            return PolicyError(f"{where} did not answer within {seconds:g} s", kind="timeout")
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return PolicyError(f"cannot reach {where}: {cause}", kind="unreachable")
        if isinstance(error, openai.RateLimitError):
            tries = self._endpoint.backoff.attempts
            return PolicyError(f"{where} said 429 {tries} times: {error}", kind="rate-limited")
        if isinstance(error, openai.InternalServerError):
            return PolicyError(f"{where} failed: {error}", kind="server-error")
        if isinstance(error, openai.APIStatusError):
            return PolicyError(
                f"{where} refused the request ({error.status_code}): {error.message}",
                kind="refused",
            )
        return PolicyError(f"{where} gave a reply that cannot be used: {error}", kind="bad-reply")

    def _judge(self, error: Exception) -> Again | None:
        has_status = isinstance(error, openai.APIStatusError)
        if not (has_status or self._endpoint.repeats_unanswered):
            return None
        return _worth_another_try(error)

    def _say(self, error: Exception, wait_s: float) -> None:
        logger.warning("%s; asking again in %.1f s", self._named_briefly(error), wait_s)

    def _named_briefly(self, error: Exception) -> str:
        named = self._named(error) if isinstance(error, openai.OpenAIError) else error
        return str(named)[:200]


def read_choice(reply: ChatCompletion, choice: Choice) -> Completion:
    """One of the answers in a reply, with the token ids that the server sent along."""
    # Servers add fields of their own; the SDK keeps them as extras.
    extras = choice.model_extra or {}
    logprobs = choice.logprobs.content if choice.logprobs else None
    finish: Finish = "length" if choice.finish_reason == "length" else "stop"
    return Completion(
        text=choice.message.content or "",
        finish=finish,
        prompt_token_ids=_ids((reply.model_extra or {}).get("prompt_token_ids")),
        token_ids=_ids(extras.get("token_ids")),
        logprobs=tuple(token.logprob for token in logprobs) if logprobs else None,
    )


def image_url(image: Image) -> str:
    """A picture as a URL that holds it."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def _worth_another_try(error: Exception) -> Again | None:
    if isinstance(error, openai.OpenAIError) and _is_context_overflow(error):
        return None
    if isinstance(error, json.JSONDecodeError):
        return Again()
    if isinstance(error, openai.APIConnectionError):  # time-outs are among these
        return Again()
    if isinstance(error, openai.APIStatusError) and (
        error.status_code in (408, 409, 429) or error.status_code >= 500
    ):
        return Again(read_retry_after(error.response.headers.get("retry-after")))
    return None


def _is_context_overflow(error: openai.OpenAIError) -> bool:
    if isinstance(error, openai.InternalServerError):
        return _AREAL_CONTEXT_WORDS in f"{error.message} {error.body}"
    if not isinstance(error, openai.BadRequestError):
        return False
    text = f"{error.code} {error.message}".lower()
    return any(words in text for words in _CONTEXT_WORDS)


def _ids(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, Sequence) and value and all(isinstance(i, int) for i in value):
        return tuple(value)
    return None


def _message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = [
        {
            "type": "image_url",
            "image_url": {"url": image_url(image)},
        }
        for image in message.images
    ]
    return {"role": message.role, "content": [*parts, {"type": "text", "text": message.text}]}

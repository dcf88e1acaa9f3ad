"""A vision-language model that says yes or no about a screenshot, asked once per content.

Any OpenAI-compatible endpoint will do. Answers are kept on disk under a hash of model, question
and picture, so that grading again costs nothing and gives the same verdict.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import openai

from practicum.core.canonical import canonical_json, content_hash
from practicum.core.errors import ConfigError, RewardError
from practicum.core.message import Image
from practicum.core.retry import Again, Backoff, read_retry_after, retry

API_KEY_VARIABLE = "PRACTICUM_JUDGE_API_KEY"
PROMPT = (
    "You check what a screenshot shows. Answer the question about it with one JSON object and "
    'nothing else: {"reason": "one sentence", "verdict": "yes"} or "no". If the screenshot does '
    'not show it clearly, the verdict is "no".'
)


class ScreenJudge:
    """Asks a model, or remembers what it said."""

    def __init__(self, spec: str, cache: Path, *, backoff: Backoff | None = None) -> None:
        self._model, at, base_url = spec.rpartition("@")
        if not at or not self._model or not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"judge {spec!r} must read MODEL@BASE_URL")
        self._cache = cache
        self._backoff = backoff or Backoff()
        self._client = openai.AsyncOpenAI(
            api_key=os.environ.get(API_KEY_VARIABLE) or "none",
            base_url=base_url,
            max_retries=0,
            timeout=120,
        )

    async def __call__(self, image: Image, question: str) -> bool:
        """Answer a question about a picture, or raise `RewardError`."""
        key = content_hash([self._model, PROMPT, question, image.hash])
        path = self._cache / key[:2] / f"{key}.json"
        if path.exists():
            return bool(json.loads(path.read_text(encoding="utf-8"))["verdict"] == "yes")
        said = await self._ask(image, question)
        verdict = _read(said)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"model": self._model, "question": question, "image": image.hash, **verdict}
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(canonical_json(record), encoding="utf-8")
        fresh.rename(path)
        return bool(verdict["verdict"] == "yes")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, image: Image, question: str) -> str:
        picture = f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
        messages: Any = [
            {"role": "system", "content": PROMPT},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": picture}},
                    {"type": "text", "text": question},
                ],
            },
        ]

        async def call() -> Any:
            return await self._client.chat.completions.create(
                model=self._model, messages=messages, temperature=0.0, max_tokens=300
            )

        try:
            reply = await retry(call, _worth_another_try, self._backoff)
        except openai.APITimeoutError as error:
            raise RewardError(f"the judge did not answer: {error}", kind="timeout") from error
        except openai.OpenAIError as error:
            raise RewardError(f"the judge cannot be asked: {error}", kind="judge") from error
        choices = getattr(reply, "choices", None)
        if not choices:
            raise RewardError("the judge answered without choices", kind="judge")
        return str(choices[0].message.content or "")


def _read(said: str) -> dict[str, str]:
    text = said.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or body.get("verdict") not in ("yes", "no"):
        raise RewardError(f"the judge's answer is no verdict: {said[:200]!r}", kind="judge")
    return {"verdict": body["verdict"], "reason": str(body.get("reason", ""))}


def _worth_another_try(error: Exception) -> Again | None:
    if isinstance(error, openai.APIConnectionError):
        return Again()
    if isinstance(error, openai.APIStatusError) and (
        error.status_code in (408, 409, 429) or error.status_code >= 500
    ):
        return Again(read_retry_after(error.response.headers.get("retry-after")))
    return None

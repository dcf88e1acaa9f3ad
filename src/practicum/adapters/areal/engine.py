"""AReaL's inference engine behind the interface of a policy, in token space."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from areal.api import ModelRequest
from areal.api.cli_args import GenerationHyperparameters
from areal.utils.hf_utils import load_hf_processor_and_tokenizer

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion
from practicum.core.errors import PolicyError
from practicum.policies.pictures import PictureReader
from practicum.policies.rendering import Renderer


@dataclass(frozen=True)
class Reading:
    """How a model reads: its tokenizer and template, and its processor if it sees pictures."""

    tokenizer: Any
    processor: Any
    renderer: Renderer
    pictures: PictureReader | None


@lru_cache(maxsize=4)
def load_reading(model: str) -> Reading:
    """Load what AReaL itself loads for a model."""
    processor, tokenizer = load_hf_processor_and_tokenizer(model)
    has_pictures = getattr(processor, "image_processor", None) is not None
    pictures = PictureReader(processor, tokenizer) if has_pictures else None
    if has_pictures and not tokenizer.chat_template:
        tokenizer.chat_template = processor.chat_template
    renderer = Renderer(tokenizer, pictures=pictures)
    return Reading(tokenizer, processor if has_pictures else None, renderer, pictures)


@dataclass
class EnginePolicy:
    """The policy of one episode; remembers which weights sampled each token."""

    engine: Any
    reading: Reading
    max_context: int
    versions: list[tuple[int, ...]] = field(default_factory=list)
    """For each answer the version of every token: weights can change on the way."""
    # One for all answers: AReaL then asks the same server, which still has the beginning.
    _request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Ask for one answer."""
        ids = self.reading.renderer.prompt_ids(prompt)
        if len(ids) >= self.max_context:
            return Completion("", finish="context", prompt_token_ids=ids)
        request = self._request(prompt, ids, sampling)
        reply = await self.engine.agenerate(request)
        said = tuple(reply.output_tokens)
        lengths = {len(said), len(reply.output_logprobs), len(reply.output_versions)}
        if not said or len(lengths) != 1 or tuple(reply.input_tokens) != ids:
            raise PolicyError(
                f"the engine answered {len(ids)} prompt tokens with {len(said)} tokens, "
                f"{len(reply.output_logprobs)} log-probabilities, {len(reply.output_versions)} "
                f"versions and {len(reply.input_tokens)} prompt tokens",
                kind="bad-reply",
            )
        self.versions.append(tuple(reply.output_versions))
        return Completion(
            self.reading.renderer.decode(said),
            "length" if reply.stop_reason == "length" else "stop",
            ids,
            said,
            tuple(map(float, reply.output_logprobs)),
            reply.output_versions[-1],
        )

    async def aclose(self) -> None:
        """Release nothing: the engine is AReaL's."""

    def _request(self, prompt: Prompt, ids: tuple[int, ...], sampling: Sampling) -> ModelRequest:
        images = [image for message in prompt.messages for image in message.images]
        backend = str(getattr(getattr(self.engine, "config", None), "backend", ""))
        if images and backend.startswith("vllm"):
            raise PolicyError(
                "AReaL gives vLLM pictures as messages, which it tokenises anew: take "
                "rollout.backend=sglang:…",
                kind="pictures",
            )
        return ModelRequest(
            rid=self._request_id,
            input_ids=list(ids),
            gconfig=GenerationHyperparameters(
                n_samples=1,
                max_new_tokens=sampling.max_tokens,
                max_tokens=self.max_context,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                greedy=sampling.temperature == 0,
                stop_token_ids=sorted(self.reading.renderer.stop_ids),
            ),
            tokenizer=self.reading.tokenizer,
            processor=self.reading.processor,
            image_data=[base64.b64encode(image.data).decode() for image in images] or None,
        )

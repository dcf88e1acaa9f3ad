"""The `hf` policy: a model in this process, sampled with exact ids and log-probabilities."""

from __future__ import annotations

from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion
from practicum.policies.local.engine import Engine, EngineOptions
from practicum.policies.local.weights import LocalModel
from practicum.policies.rendering import Renderer


class HfPolicy:
    """Answers with a local model. Training changes the same weights between two answers."""

    def __init__(self, model: LocalModel, options: EngineOptions) -> None:
        self.model = model
        self.renderer = Renderer(model.tokenizer)
        self.engine = Engine(model, self.renderer.stop_ids, options)
        self.version = 0
        """Raised with every change of the weights."""

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Sample the next answer of an episode."""
        ids = self.renderer.prompt_ids(prompt)
        if len(ids) >= self.engine.options.max_context:
            return Completion("", "context")
        history = prompt.situation.history
        num_known = 0
        if history and history[-1].completion.token_ids is not None:
            last = history[-1].completion
            num_known = len(last.prompt_token_ids or ()) + len(last.token_ids or ())
        version = self.version
        answer = await self.engine.generate(ids, num_known, sampling, prompt.situation.seed)
        return Completion(
            text=self.renderer.decode(answer.token_ids),
            finish="length" if answer.is_cut else "stop",
            prompt_token_ids=ids,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            policy_version=version,
        )

    async def aclose(self) -> None:
        """Nothing is held but memory."""

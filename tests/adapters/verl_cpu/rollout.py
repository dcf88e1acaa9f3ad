"""A rollout backend of verl named `hf`: our sampler over a transformers model, in a Ray actor."""

from __future__ import annotations

from typing import Any

import ray
import torch
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

NAME = "hf"


class Server:
    """Samples with the weights it was given last."""

    def __init__(self, path: str, num_slots: int, max_context: int, seed: int) -> None:
        from practicum.policies.local.engine import EngineOptions
        from practicum.policies.local.policy import HfPolicy
        from practicum.policies.local.weights import load_model

        self._policy = HfPolicy(
            load_model(path, device="cpu", dtype="float32"),
            EngineOptions(num_slots=num_slots, max_context=max_context),
        )
        self._seed = seed
        self._global_steps = 0
        self._lengths: set[int] = set()
        self._said: set[tuple[int, ...]] = set()

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        from practicum.core.agent import Sampling

        self._seed += 1
        ids = tuple(prompt_ids)
        known = (n for n in sorted(self._lengths, reverse=True) if ids[:n] in self._said)
        sampling = Sampling(sampling_params["temperature"], 1.0, sampling_params["max_tokens"])
        answer = await self._policy.engine.generate(ids, next(known, 0), sampling, self._seed)
        whole = ids + answer.token_ids
        self._lengths.add(len(whole))
        self._said.add(whole)
        return TokenOutput(
            token_ids=list(answer.token_ids),
            log_probs=list(answer.logprobs),
            stop_reason="completed",
            extra_fields={"global_steps": self._global_steps},
        )

    async def load(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        network = self._policy.model.network
        _, unknown = network.load_state_dict(weights, strict=False)
        assert not unknown, unknown
        self._policy.engine.resume(weights_changed=True)
        self._lengths.clear()
        self._said.clear()
        self._global_steps = self._global_steps if global_steps is None else global_steps

    async def wake_up(self, **_: Any) -> None:
        pass

    async def sleep(self, **_: Any) -> None:
        pass

    async def clear_kv_cache(self) -> None:
        pass

    async def abort_all_requests(self, **_: Any) -> None:
        pass

    async def resume_generation(self) -> None:
        pass


class Replica(RolloutReplica):
    async def launch_servers(self) -> None:
        server = (
            ray.remote(Server)
            .options(name=f"{NAME}_server_{self.replica_rank}", num_cpus=0, max_concurrency=1000)
            .remote(
                self.model_config.path,
                self.config.max_num_seqs,
                self.config.prompt_length + self.config.response_length,
                self.config.seed,
            )
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = NAME


class ServerAdapter(BaseRollout):
    """In the trainer's process: hands new weights over."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, **_: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self._server: Any = None

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        self._server = self._server or ray.get_actor(f"{NAME}_server_0")
        named = {
            name: t.detach().float().clone() async for name, t in ensure_async_iterator(weights)
        }
        await self._server.load.remote(named, global_steps)


RolloutReplicaRegistry.register(NAME, lambda: Replica)
_ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.ServerAdapter"

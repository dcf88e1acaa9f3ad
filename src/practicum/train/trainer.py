"""The trainer: owns the optimiser, turns packed batches into newer weights of a local model.

The module it trains is the module the sampler samples from, so publishing weights costs
nothing; only where both work at once the sampler has a copy. In bfloat16 the optimiser keeps
float32 masters and the module gets a rounded copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from practicum.config.train import LoraConfig, ModelConfig, OptimizerConfig, PackingConfig
from practicum.core.errors import DivergedError
from practicum.policies.local.attention import PackedLayout
from practicum.policies.local.lean import plain_products
from practicum.policies.local.stepper import hidden_states, lean_hidden_states, output_head
from practicum.policies.local.weights import LocalModel
from practicum.train.batch import Pack, Sample, pack_samples
from practicum.train.losses import logprobs_and_entropy
from practicum.train.team import ALONE, Team

HEAD_TOKENS = 4096
"""Trained tokens whose logits are worked on at once."""
KEPT_LOGIT_BYTES = 2**31
"""So many of a micro-batch are kept for the gradient; the others are computed again."""

Metrics = dict[str, float]


@dataclass(frozen=True)
class Scored:
    """What the model says about the trained tokens of one micro-batch."""

    logprobs_N: Tensor
    entropy_N: Tensor
    recorded_N: Tensor
    """Log-probabilities the sampler recorded."""
    advantages_N: Tensor
    fixed_N: dict[str, Tensor]
    """What was known before the first step of this update, by name."""
    sequences_N: Tensor
    """Which sequence of the micro-batch a token belongs to."""
    values_N: Tensor | None = None
    """What the value head expects from here on, before each token."""

    def before(self) -> Tensor:
        """The trainer's log-probabilities before the first step, per token."""
        return self.fixed_N.get("start", self.logprobs_N.detach())


class Known(NamedTuple):
    """What the model said about trained tokens before the first step."""

    logprobs_N: Tensor
    values_N: Tensor | None

    def to(self, device: str | torch.device) -> Known:
        """The same on a device."""
        values_N = self.values_N
        return Known(self.logprobs_N.to(device), None if values_N is None else values_N.to(device))


Objective = Callable[[Scored], tuple[Tensor, dict[str, Tensor]]]
"""Loss per token, and further values per token to report the mean of."""


class LocalTrainer:
    """Trains all weights of a model, or adapters, on one device."""

    def __init__(
        self,
        model: LocalModel,
        optimizer: OptimizerConfig,
        packing: PackingConfig,
        *,
        num_updates: int,
        gradient_checkpointing: bool = False,
        compile_model: bool = False,
        temperature: float = 1.0,
        value_learning_rate: float | None = None,
        team: Team = ALONE,
    ) -> None:
        """With a `value_learning_rate`, a value head is trained on top of the model."""
        self.model = model
        self.team = team
        self.num_steps = 0
        """Optimiser steps so far."""
        self._config = optimizer
        self._num_updates = num_updates
        self._packing = packing
        self._temperature = temperature
        self._checkpoints = gradient_checkpointing
        is_gpu = model.device.type == "cuda"
        self._pads = is_gpu if packing.fixed_shapes == "auto" else packing.fixed_shapes
        if gradient_checkpointing:
            model.network.gradient_checkpointing_enable({"use_reentrant": False})
            _refuse_dropout(model.network.config)
        # On a GPU attention is a kernel that knows whole sequences only.
        self._shares = not is_gpu
        self._hidden = hidden_states
        if compile_model:
            self._hidden = torch.compile(hidden_states, dynamic=False)
        elif not is_gpu and not gradient_checkpointing:
            self._hidden = lean_hidden_states
        self._params = [p for p in model.network.parameters() if p.requires_grad]
        self._has_masters = self._params[0].dtype != torch.float32
        self._masters = (
            [p.detach().float().requires_grad_() for p in self._params]
            if self._has_masters
            else self._params
        )
        groups: list[dict[str, Any]] = [{"params": self._masters, "scale": 1.0}]
        self._value_head: torch.nn.Linear | None = None
        if value_learning_rate is not None:
            self._value_head = torch.nn.Linear(model.network.config.hidden_size, 1)
            torch.nn.init.zeros_(self._value_head.weight)
            torch.nn.init.zeros_(self._value_head.bias)
            self._value_head.to(model.device)
            scale = value_learning_rate / optimizer.learning_rate
            groups.append({"params": list(self._value_head.parameters()), "scale": scale})
        self._optimizer = torch.optim.AdamW(
            groups,
            lr=optimizer.learning_rate,
            betas=(optimizer.beta1, optimizer.beta2),
            weight_decay=optimizer.weight_decay,
            fused=True,
        )
        # New adapters are drawn at random, by each process for itself.
        team.agree([*model.network.parameters(), *(self._masters if self._has_masters else ())])

    def pack(self, samples: Sequence[Sample]) -> list[Pack]:
        """Lay samples into micro-batches."""
        return pack_samples(
            samples, self._packing.pack_tokens, pad=self._pads, pad_id=0, share=self._shares
        )

    def step(
        self,
        packs: Sequence[Pack],
        objective: Objective,
        *,
        update: int,
        fixed: Sequence[dict[str, Tensor]] | None = None,
        normaliser: float | None = None,
    ) -> Metrics:
        """One optimiser step over all packs; the loss is a mean over tokens or divided as told."""
        metrics = self.gather(packs, objective, fixed=fixed, normaliser=normaliser)
        return metrics | self.apply(update)

    def gather(
        self,
        packs: Sequence[Pack],
        objective: Objective,
        *,
        fixed: Sequence[dict[str, Tensor]] | None = None,
        normaliser: float | None = None,
    ) -> Metrics:
        """Add the gradient of all packs to what the next `apply` will use."""
        num_tokens = sum(len(pack.targets_N) for pack in packs)
        divisor = normaliser or num_tokens
        totals: dict[str, Tensor] = {}
        # transformers checkpoints activations in train mode only.
        self.model.network.train(self._checkpoints)
        for index in self.team.own(len(packs)):
            pack = packs[index]
            with plain_products(self.model.dtype):
                scored = self._score(pack, {} if fixed is None else fixed[index])
                loss_N, reported = objective(scored)
                loss = loss_N.sum() / divisor
                loss.backward()
            self._gather_gradients()
            reported = {"loss": loss_N, "entropy": scored.entropy_N, **reported}
            for name, tensor_N in reported.items():
                value_N = tensor_N.detach().float()
                if name.endswith("max"):
                    worst = value_N.max()
                    totals[name] = torch.maximum(totals.get(name, worst), worst)
                else:
                    totals[name] = totals.get(name, torch.zeros_like(loss)) + value_N.sum()
        self.model.network.eval()
        values = torch.stack(list(totals.values())).tolist() if totals else []
        told = self.team.gather(dict(zip(totals, values, strict=True)))
        metrics = {}
        for name in next(row for row in told if row):
            found = [row[name] for row in told if row]
            if name.endswith("max"):
                metrics[name] = max(found)
            else:
                metrics[name] = sum(found) / (divisor if name == "loss" else num_tokens)
        return metrics

    def apply(self, update: int) -> Metrics:
        """Move the weights by the gradient that was gathered."""
        head = [] if self._value_head is None else list(self._value_head.parameters())
        self.team.add_gradients([*self._masters, *head])
        limit = self._config.max_grad_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self._masters, limit))
        # The head by itself: while untrained its gradients would drown the model's.
        head_norm = float(torch.nn.utils.clip_grad_norm_(head, limit))
        rate = self.learning_rate(update)
        if not math.isfinite(total := norm + head_norm):
            raise DivergedError(
                f"the gradient of update {update + 1} is {total}, training has diverged: "
                f"go on from a checkpoint with an optimizer.learning_rate below {rate:g}"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if self._has_masters:
            with torch.no_grad():
                torch._foreach_copy_(self._params, self._masters)
        self.num_steps += 1
        return {"grad_norm": norm, "lr": rate}

    @torch.no_grad()
    def look(self, packs: Sequence[Pack], network: Any = None) -> list[Known]:
        """What the model says about the trained tokens, without a gradient."""
        own: dict[int, Known] = {}
        with plain_products(self.model.dtype):
            for index in self.team.own(len(packs)):
                scored = self._score(packs[index], {}, network)
                own[index] = Known(scored.logprobs_N, scored.values_N)
        if self.team.size == 1:
            return list(own.values())
        device = self.model.device
        told = self.team.gather({index: known.to("cpu") for index, known in own.items()})
        known = {index: one.to(device) for row in told for index, one in row.items()}
        return [known[index] for index in range(len(packs))]

    @torch.no_grad()
    def publish(self, sampler: LocalModel) -> None:
        """Give the sampler the weights as they are; nothing to do where it has the same module."""
        if sampler.network is not self.model.network:
            theirs, ours = sampler.network.parameters(), self.model.network.parameters()
            torch._foreach_copy_(list(theirs), list(ours))

    def learning_rate(self, update: int) -> float:
        """The rate of an update, counted from 0."""
        config = self._config
        if update < config.warmup_updates:
            return config.learning_rate * (update + 1) / (config.warmup_updates + 1)
        span = max(1, self._num_updates - config.warmup_updates)
        progress = min(1.0, (update - config.warmup_updates) / span)
        floor = 0.1
        shape = {
            "constant": 1.0,
            "linear": 1 - (1 - floor) * progress,
            "cosine": floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)),
        }[config.schedule]
        return config.learning_rate * shape

    def save_state(self, path: Path) -> None:
        """Write what the export lacks: optimiser moments, master weights, adapters unmerged."""
        state = {
            "num_steps": self.num_steps,
            "optimizer": self._optimizer.state_dict(),
            "weights": [m.detach() for m in self._masters],
            "value_head": self._value_head.state_dict() if self._value_head is not None else {},
        }
        torch.save(state, path)

    @torch.no_grad()
    def load_state(self, path: Path) -> None:
        """Take up what `save_state` wrote."""
        state = torch.load(path, map_location=self.model.device, weights_only=True)
        self.num_steps = state["num_steps"]
        for master, param, value in zip(self._masters, self._params, state["weights"], strict=True):
            master.copy_(value)
            if self._has_masters:
                param.copy_(value)
        if self._value_head is not None:
            self._value_head.load_state_dict(state["value_head"])
        self._optimizer.load_state_dict(state["optimizer"])

    def _score(self, pack: Pack, fixed: dict[str, Tensor], network: Any = None) -> Scored:
        device = self.model.device
        network = network or self.model.network
        layout = PackedLayout(pack.lengths, device, pack.parents)
        ids_T, positions_T, predictors_N, targets_N = (
            torch.from_numpy(array).to(device, non_blocking=True)
            for array in (pack.ids_T, pack.positions_T, pack.predictors_N, pack.targets_N)
        )
        hidden_N = self._hidden(network, ids_T, positions_T, layout, predictors_N)
        head = output_head(network)
        kept = KEPT_LOGIT_BYTES // (network.config.vocab_size * hidden_N.element_size())
        logprobs, entropies = [], []
        left = len(targets_N)
        for part, targets in zip(
            hidden_N.split(HEAD_TOKENS), targets_N.split(HEAD_TOKENS), strict=True
        ):
            inputs = (head, part, targets, self._temperature)
            # The backward pass begins with the last part, whose logits are gone when the
            # first one's are made again.
            is_kept = left <= kept
            left -= len(targets)
            logprobs_part, entropy_part = (
                _head_logprobs(*inputs)
                if is_kept
                else checkpoint(_head_logprobs, *inputs, use_reentrant=False)
            )
            logprobs.append(logprobs_part)
            entropies.append(entropy_part)
        return Scored(
            torch.cat(logprobs),
            torch.cat(entropies),
            torch.from_numpy(pack.logprobs_N).to(device),
            fixed.get("advantages", torch.from_numpy(pack.advantages_N).to(device)),
            fixed,
            torch.from_numpy(pack.sequences_N).to(device),
            self._value_head(hidden_N.float())[:, 0] if self._value_head is not None else None,
        )

    def _gather_gradients(self) -> None:
        """Sum bfloat16 gradients of micro-batches in float32."""
        if not self._has_masters:
            return
        gradients = [param.grad for param in self._params]
        if self._masters[0].grad is None:
            for master, gradient in zip(self._masters, gradients, strict=True):
                assert gradient is not None
                master.grad = gradient.float()
        else:
            torch._foreach_add_([master.grad for master in self._masters], gradients)
        for param in self._params:
            param.grad = None


def _head_logprobs(
    head: Any, hidden: Tensor, targets: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    return logprobs_and_entropy(head(hidden), targets, temperature)


def _refuse_dropout(config: Any) -> None:
    values = {k: v for k, v in config.to_dict().items() if "dropout" in k and v}
    assert not values, f"{values}: a policy is trained as it samples, without dropout"


def add_adapters(model: LocalModel, config: LoraConfig, seed: int = 0) -> LocalModel:
    """The same model with low-rank adapters that alone are trained; equal seeds, equal adapters."""
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    peft_config = PeftConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=config.targets,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = get_peft_model(model.network, peft_config)
    return LocalModel(network, model.tokenizer, model.device)


def prepare_model(model: LocalModel, config: ModelConfig, seed: int) -> LocalModel:
    """The model as the config wants it trained."""
    return add_adapters(model, config.lora, seed) if config.lora is not None else model

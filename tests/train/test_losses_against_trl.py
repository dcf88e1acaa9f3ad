"""The same inputs give TRL's numbers: advantages, loss, gradient and metrics.

A real `GRPOTrainer` around a tiny model scores rollouts made up here and computes its loss;
ours is computed from the plain logits of the same model. Two sets of noise put reference,
old and new policy apart, so that nothing compared is trivially equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from practicum.train.advantages import group_advantages
from practicum.train.losses import (
    kl_penalty,
    logprobs_and_entropy,
    mismatch_metrics,
    policy_loss,
    policy_metrics,
    sequence_policy_loss,
    token_mean,
    truncated_weights,
)

VOCAB, EOS, GROUP = 32, 1, 4
TEMPERATURE, CLIP_LOW, CLIP_HIGH, CAP = 0.7, 0.1, 0.15, 1.2
# Two informative groups, one with a broken episode, and one group that teaches nothing.
REWARDS = [1.0, 0.0, 0.25, 1.0, 1.0, None, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5]

# `rollout_func` may change, TRL warns; 1.16 is the release compared with.
pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-model")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        initializer_range=0.3, bos_token_id=0, eos_token_id=EOS, pad_token_id=0,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": EOS} | {f"w{i}": i for i in range(2, VOCAB)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<pad>")),
        eos_token="<eos>",
        pad_token="<pad>",
    )
    tokenizer.save_pretrained(folder)
    return folder


def made_up_rollouts(prompts: list[str], _: Any) -> dict[str, Any]:
    """Token ids, recorded log-probabilities and which tokens the model wrote, of each episode."""
    random = np.random.default_rng(0)
    lengths = random.integers(3, 9, len(prompts))
    return {
        "prompt_ids": [random.integers(2, VOCAB, 4).tolist() for _ in prompts],
        "completion_ids": [[*random.integers(2, VOCAB, n).tolist(), EOS] for n in lengths],
        "logprobs": [random.normal(-3.5, 0.7, n + 1).tolist() for n in lengths],
        # The third token of each episode came from the environment.
        "env_mask": [[1, 1, 0] + [1] * (n - 2) for n in lengths],
    }


class Comparison:
    """A trainer of TRL's after scoring one batch, and what both sides read from it."""

    def __init__(self, folder: Path, work: Path, *, with_weights: bool, **options: Any) -> None:
        args = GRPOConfig(
            output_dir=str(work), use_cpu=True, bf16=False, report_to="none",
            temperature=TEMPERATURE, epsilon=CLIP_LOW, epsilon_high=CLIP_HIGH,
            per_device_train_batch_size=len(REWARDS), num_generations=GROUP, num_iterations=2,
            gradient_checkpointing=False, **options,
        )  # fmt: skip
        self.trainer = GRPOTrainer(
            model=str(folder),
            reward_funcs=lambda **_: REWARDS,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "w2"}] * len(REWARDS)),
            rollout_func=made_up_rollouts,
        )
        # What TRL's own training loop and a vLLM server would have set.
        self.trainer.current_gradient_accumulation_steps = 1
        self.trainer.use_vllm = with_weights
        self.trainer.vllm_importance_sampling_correction = with_weights
        self.trainer.vllm_importance_sampling_mode = "token_truncate"
        self.trainer.vllm_importance_sampling_clip_min = None
        self.trainer.vllm_importance_sampling_clip_max = CAP
        self.trainer._last_loaded_step = 0
        self.model = self.trainer.model.train()
        self._move_weights(seed=1)
        rows = [{"prompt": "w2"}] * len(REWARDS)
        self.scored = self.trainer._generate_and_score_completions(rows)
        self._move_weights(seed=2)
        self.mask = (self.scored["completion_mask"] * self.scored["tool_mask"]).bool()

    def _move_weights(self, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.add_(torch.randn(weights.shape, generator=random), alpha=0.02)

    def metric(self, name: str) -> float:
        return self.trainer._metrics["train"][name][-1]

    def their_loss(self) -> torch.Tensor:
        return self.trainer._compute_loss(self.model, self.scored)

    def our_logprobs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the completions, from plain logits."""
        scored = self.scored
        ids = torch.cat([scored["prompt_ids"], scored["completion_ids"]], 1)
        attention = torch.cat([scored["prompt_mask"], scored["completion_mask"]], 1)
        logits = self.model(input_ids=ids, attention_mask=attention).logits
        length = scored["completion_ids"].shape[1]
        return logprobs_and_entropy(
            logits[:, -length - 1 : -1], scored["completion_ids"], TEMPERATURE
        )

    def our_advantages(self) -> torch.Tensor:
        scale = "std" if self.trainer.scale_rewards == "group" else "none"
        groups = [REWARDS[i : i + GROUP] for i in range(0, len(REWARDS), GROUP)]
        values = np.concatenate([group_advantages(g, scale=scale).values for g in groups])
        return torch.tensor(values, dtype=torch.float32)

    def our_token_loss(self, logprobs: torch.Tensor) -> torch.Tensor:
        scored, trainer = self.scored, self.trainer
        weights = None
        if trainer.use_vllm:
            weights = truncated_weights(
                scored["old_per_token_logps"], scored["sampling_per_token_logps"], CAP
            )
        loss = policy_loss(
            logprobs,
            scored["old_per_token_logps"],
            self.our_advantages()[:, None],
            clip_low=CLIP_LOW,
            clip_high=CLIP_HIGH,
            weights_N=weights,
        )
        if trainer.beta:
            loss = loss + trainer.beta * self.our_kl(logprobs)
        return loss

    def our_kl(self, logprobs: torch.Tensor) -> torch.Tensor:
        is_corrected = self.trainer.args.use_bias_correction_kl
        old = self.scored["old_per_token_logps"] if is_corrected else None
        return kl_penalty(logprobs, self.scored["ref_per_token_logps"], old)

    def our_loss(self) -> torch.Tensor:
        loss = self.our_token_loss(self.our_logprobs()[0])
        if self.trainer.loss_type == "grpo":  # a mean of the episodes' means
            return sum(
                token_mean(row, len(loss) * int(kept.sum()), kept)
                for row, kept in zip(loss, self.mask, strict=True)
            )
        return token_mean(loss, int(self.mask.sum()), self.mask)

    def gradient(self, loss: torch.Tensor) -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, self.model.parameters())])


@pytest.fixture(
    scope="module",
    params=[
        {"loss_type": "dapo", "scale_rewards": "none", "with_weights": True},
        {"loss_type": "bnpo", "scale_rewards": "group", "with_weights": True, "beta": 0.1},
        {
            "loss_type": "grpo",
            "scale_rewards": "group",
            "with_weights": False,
            "beta": 0.1,
            "use_bias_correction_kl": False,
        },
    ],
    ids=lambda options: options["loss_type"],
)
def comparison(
    request: pytest.FixtureRequest, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Comparison]:
    yield Comparison(model_folder, tmp_path_factory.mktemp("trl"), **request.param)


def test_advantages_are_those_of_trl(comparison: Comparison) -> None:
    ours = comparison.our_advantages()
    assert ours.any()
    assert torch.allclose(ours, comparison.scored["advantages"], rtol=0, atol=1e-6)


def test_loss_is_that_of_trl(comparison: Comparison) -> None:
    theirs, ours = comparison.their_loss(), comparison.our_loss()
    assert abs(theirs.item()) > 1e-3
    assert abs(theirs.item() - ours.item()) < 1e-6


def test_gradient_is_that_of_trl(comparison: Comparison) -> None:
    theirs = comparison.gradient(comparison.their_loss())
    ours = comparison.gradient(comparison.our_loss())
    assert theirs.abs().max() > 1e-3
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


def test_metrics_are_those_of_trl(comparison: Comparison) -> None:
    comparison.their_loss()
    mask, scored = comparison.mask, comparison.scored
    logprobs, entropy = comparison.our_logprobs()
    old = scored["old_per_token_logps"]
    advantages = comparison.our_advantages()[:, None].expand_as(old)
    ours = policy_metrics(
        logprobs[mask], old[mask], advantages[mask], clip_low=CLIP_LOW, clip_high=CLIP_HIGH
    )
    assert ours["policy/clip_fraction"] > 0
    near = {"abs": 1e-6, "rel": 0}
    assert ours["policy/clip_fraction"] == pytest.approx(
        comparison.metric("clip_ratio/region_mean"), **near
    )
    assert entropy[mask].mean().item() == pytest.approx(comparison.metric("entropy"), **near)
    if comparison.trainer.use_vllm:
        gap = mismatch_metrics(old[mask], scored["sampling_per_token_logps"][mask])
        name = "sampling/sampling_logp_difference"
        assert gap["mismatch/mean"] == pytest.approx(comparison.metric(f"{name}/mean"), **near)
        assert gap["mismatch/max"] == pytest.approx(comparison.metric(f"{name}/max"), **near)
    if comparison.trainer.beta:
        kl = comparison.our_kl(logprobs)[mask].mean().item()
        assert kl == pytest.approx(comparison.metric("kl"), **near)


def whole_sequence_loss(
    comparison: Comparison, advantages: torch.Tensor, *, is_mean: bool
) -> torch.Tensor:
    """The mean over episodes of losses with one ratio each."""
    logprobs, mask = comparison.our_logprobs()[0], comparison.mask
    rows = torch.arange(len(mask))[:, None].expand_as(mask)
    loss = sequence_policy_loss(
        logprobs[mask],
        comparison.scored["old_per_token_logps"][mask],
        advantages[:, None].expand_as(mask)[mask],
        rows[mask],
        clip_low=CLIP_LOW,
        clip_high=CLIP_HIGH,
        is_mean=is_mean,
    )
    return loss.sum() / len(mask)


def assert_same(comparison: Comparison, theirs: torch.Tensor, ours: torch.Tensor) -> None:
    # Sums over a whole sequence round more than single tokens do.
    assert abs(theirs.item()) > 1e-3
    assert theirs.item() == pytest.approx(ours.item(), abs=1e-6, rel=1e-5)
    gradient = comparison.gradient(theirs)
    assert gradient.abs().max() > 1e-3
    assert torch.allclose(comparison.gradient(ours), gradient, rtol=1e-4, atol=1e-5)


def test_dr_grpo_is_that_of_trl(model_folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"loss_type": "dr_grpo", "scale_rewards": "none"}
    comparison = Comparison(
        model_folder, tmp_path, with_weights=False, max_completion_length=16, **options
    )
    loss = comparison.our_token_loss(comparison.our_logprobs()[0])
    ours = token_mean(loss, 16 * len(REWARDS), comparison.mask)
    assert_same(comparison, comparison.their_loss(), ours)


def test_gspo_is_that_of_trl(model_folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"loss_type": "grpo", "scale_rewards": "group"}
    comparison = Comparison(
        model_folder, tmp_path, with_weights=False, importance_sampling_level="sequence", **options
    )
    ours = whole_sequence_loss(comparison, comparison.our_advantages(), is_mean=True)
    assert_same(comparison, comparison.their_loss(), ours)


def test_rloo_is_that_of_trl(model_folder: Path, tmp_path: Path) -> None:
    comparison = Comparison(
        model_folder, tmp_path, with_weights=False, loss_type="grpo", scale_rewards="none"
    )
    trainer = RLOOTrainer(
        model=str(model_folder),
        reward_funcs=lambda **_: REWARDS,
        args=RLOOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            report_to="none",
            temperature=TEMPERATURE,
            epsilon=CLIP_LOW,
            epsilon_high=CLIP_HIGH,
            per_device_train_batch_size=len(REWARDS),
            num_generations=GROUP,
            gradient_checkpointing=False,
            beta=0.0,
        ),
        train_dataset=Dataset.from_list([{"prompt": "w2"}] * len(REWARDS)),
    )
    groups = [REWARDS[i : i + GROUP] for i in range(0, len(REWARDS), GROUP)]
    values = np.concatenate([group_advantages(g, baseline="others").values for g in groups])
    advantages = torch.tensor(values, dtype=torch.float32)
    scored = comparison.scored
    # Its RLOO knows no environment: every token of a completion is the model's.
    written = scored["completion_mask"]
    comparison.mask = written.bool()
    inputs = {
        **{name: scored[name] for name in ("prompt_ids", "prompt_mask", "completion_ids")},
        "completion_mask": written,
        "old_logps": (scored["old_per_token_logps"] * written).sum(1),
        "advantages": advantages,
    }
    theirs = trainer._compute_loss(comparison.model, inputs)
    ours = whole_sequence_loss(comparison, advantages, is_mean=False)
    assert_same(comparison, theirs, ours)

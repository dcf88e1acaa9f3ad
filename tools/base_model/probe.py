"""Asks of a base model what the quickstart will ask: `python -m tools.base_model.probe DIR`.

A little SFT on expert episodes, then GRPO, and from the same start as much compute of SFT
alone; each evaluated on the development panel. A bare version of what Practicum's own
trainer does, fast on a GPU, to choose among base models.
"""

from __future__ import annotations

import argparse
import copy
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedTokenizerFast

from practicum.core.task import Task
from practicum.envs.text.textcraft.world import World
from tools.base_model.arena import Played, play_all, score
from tools.base_model.batches import Document, batches, encode, pad
from tools.base_model.corpus import EXPERT, play
from tools.base_model.model import CraftModel, Size
from tools.base_model.tokenizer import build_tokenizer
from tools.base_model.train import panel_tasks

logger = logging.getLogger("base_model")

GROUP_SIZE = 8
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
MAX_PROMPT_CHARS = 1600
"""Training goals with longer first messages are left out: they cost most and teach least."""
FORWARD_COST = 1 / 3
"""Of a sampled token, against one that is trained on."""

Tasks = Sequence[tuple[Task, World]]


def main() -> None:
    """Probe as the command line says."""
    arguments = _parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.set_float32_matmul_precision("high")
    tokenizer = build_tokenizer()
    base = load(arguments.base, len(tokenizer)).to(arguments.device)
    dev = panel_tasks("dev")[: arguments.eval_tasks]
    _report("base", base, tokenizer, dev, arguments)
    train = [
        (task, world)
        for task, world in panel_tasks("train")
        if sum(map(len, task.data["commands"])) < MAX_PROMPT_CHARS
    ]
    rng = Random(arguments.seed)
    demos = [
        encode(play(task, world, EXPERT, rng)) for task, world in rng.sample(train, arguments.demos)
    ]
    started = copy.deepcopy(base)
    num_tokens = arguments.sft_epochs * sum(len(demo.ids) for demo in demos)
    sft(started, demos, num_tokens, arguments)
    _report(f"sft {num_tokens} tokens", started, tokenizer, dev, arguments)
    learner = copy.deepcopy(started)
    spent = grpo(learner, tokenizer, train, arguments)
    _report(f"grpo {spent} token equivalents", learner, tokenizer, dev, arguments)
    for share in (0.1, 0.3, 1.0):
        control = copy.deepcopy(started)
        sft(control, demos, int(share * spent), arguments)
        _report(f"more sft, {share:.0%} of that", control, tokenizer, dev, arguments)


def load(folder: Path, vocab_size: int) -> CraftModel:
    """Read a folder that `train` wrote."""
    config = AutoConfig.from_pretrained(folder)
    size = Size(
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
        config.intermediate_size,
    )
    model = CraftModel(size, vocab_size)
    state = load_file(folder / "model.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return model


def sft(
    model: CraftModel, demos: Sequence[Document], num_tokens: int, arguments: argparse.Namespace
) -> None:
    """Train on the answers of the demonstrations for so many tokens, the rate falling to zero."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=arguments.sft_lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    rng = Random(arguments.seed)
    done = 0
    while done < num_tokens:
        for batch in batches(demos, rng, tokens_per_batch=4096):
            ids, is_answer = (tensor.to(arguments.device) for tensor in batch)
            optimiser.param_groups[0]["lr"] = arguments.sft_lr * max(0.0, 1 - done / num_tokens)
            losses = -_logprobs(model, ids)
            mask = is_answer[:, 1:].float()
            _update(model, optimiser, (losses * mask).sum() / mask.sum())
            done += ids.numel()


def grpo(
    model: CraftModel,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Tasks,
    arguments: argparse.Namespace,
) -> int:
    """Reinforce; returns the compute spent, in tokens trained on."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=arguments.rl_lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    rng = Random(arguments.seed)
    spent = 0.0
    for update in range(arguments.rl_updates):
        started = time.monotonic()
        chosen = rng.sample(list(tasks), arguments.groups)
        repeated = [task for task in chosen for _ in range(GROUP_SIZE)]
        played = play_all(model, tokenizer, repeated, seed=arguments.seed * 1000 + update)
        sampled_s = time.monotonic() - started
        kept: list[tuple[Played, float]] = []
        for i in range(0, len(played), GROUP_SIZE):
            group = played[i : i + GROUP_SIZE]
            mean = sum(p.is_success for p in group) / GROUP_SIZE
            if 0 < mean < 1:
                kept += [(p, p.is_success - mean) for p in group]
        rng.shuffle(kept)
        gaps = [
            _reinforce(model, optimiser, kept[i :: arguments.minibatches], arguments)
            for i in range(arguments.minibatches)
            if kept[i :: arguments.minibatches]
        ]
        trained = sum(len(p.ids) for p, _ in kept)
        spent += trained + FORWARD_COST * sum(len(p.ids) for p in played)
        logger.info(
            "update %d: %s; %d episodes used, gap %s, %.1f s sampling, %.1f s training",
            update,
            score(played),
            len(kept),
            " ".join(f"{gap:.4f}" for gap in gaps),
            sampled_s,
            time.monotonic() - started - sampled_s,
        )
    return int(spent)


def _reinforce(
    model: CraftModel,
    optimiser: torch.optim.Optimizer,
    kept: Sequence[tuple[Played, float]],
    arguments: argparse.Namespace,
) -> float:
    """One clipped policy-gradient update; returns the mean gap to the sampler."""
    kept = sorted(kept, key=lambda pair: len(pair[0].ids))
    total = sum(sum(p.is_sampled) for p, _ in kept)
    gap = 0.0
    optimiser.zero_grad(set_to_none=True)
    for i in range(0, len(kept), 64):
        part = kept[i : i + 64]
        ids, mask = pad([_document(p) for p, _ in part])
        old = torch.zeros(ids.shape)
        for row, (p, _) in enumerate(part):
            old[row, : len(p.logprobs)] = torch.tensor(p.logprobs)
        ids, mask, old = (t.to(arguments.device) for t in (ids, mask, old))
        weights = mask[:, 1:].float()
        advantages = torch.tensor([a for _, a in part], device=arguments.device)[:, None]
        new = _logprobs(model, ids)
        ratio = (new - old[:, 1:]).mul(weights).exp()
        clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        gain = torch.minimum(ratio * advantages, clipped * advantages)
        (-(gain * weights).sum() / total).backward()
        gap += ((new.detach() - old[:, 1:]).abs() * weights).sum().item() / total
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return gap


def _logprobs(model: CraftModel, ids: Tensor) -> Tensor:
    logits = model(ids)[:, :-1]
    return torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None])[..., 0]


def _update(model: CraftModel, optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()


def _document(played: Played) -> Document:
    return Document(np.array(played.ids, dtype=np.uint16), np.array(played.is_sampled))


def _report(
    name: str,
    model: CraftModel,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Tasks,
    arguments: argparse.Namespace,
) -> None:
    repeated = [task for task in tasks for _ in range(arguments.eval_samples)]
    logger.info("== %s: %s", name, score(play_all(model, tokenizer, repeated, seed=7)))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("--demos", type=int, default=32)
    parser.add_argument("--sft-epochs", type=int, default=4)
    parser.add_argument("--sft-lr", type=float, default=1e-3)
    parser.add_argument("--rl-lr", type=float, default=5e-4)
    parser.add_argument("--rl-updates", type=int, default=20)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--eval-samples", type=int, default=8)
    parser.add_argument("--eval-tasks", type=int, default=81)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()

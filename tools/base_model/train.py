"""Trains the base model that ships with Practicum: `python -m tools.base_model.train --out DIR`.

Makes the corpus, trains, writes a Hugging Face folder, and reports what the model can do
in held-out invented worlds and on TextCraft's development panel, which it never saw.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from practicum.core.task import Task
from practicum.envs.text.textcraft.tasks import PANELS, make_task
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import World
from tools.base_model.arena import play_all, score
from tools.base_model.batches import Document, batches, make_corpus
from tools.base_model.corpus import RECIPES
from tools.base_model.model import SIZES, CraftModel, save
from tools.base_model.tokenizer import build_tokenizer
from tools.base_model.worlds import Shape, make_world

logger = logging.getLogger("base_model")

FIRST_HELD_OUT_SEED = 2_000_000_000
"""Worlds from here on are never trained on."""
PROMPT_WEIGHT = 0.1
"""Of a token the crafter only reads: little can be learned from names drawn at random."""
WARMUP = 0.03
"""Share of the updates."""


def main() -> None:
    """Train as the command line says."""
    arguments = _parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    started = time.monotonic()
    documents = make_corpus(arguments.recipe, arguments.documents, arguments.processes)
    num_tokens = sum(len(document.ids) for document in documents)
    logger.info(
        "corpus %s: %d episodes, %d tokens, %.0f s; no real name or recipe in it",
        arguments.recipe,
        len(documents),
        num_tokens,
        time.monotonic() - started,
    )
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = build_tokenizer()
    model = CraftModel(SIZES[arguments.size], len(tokenizer)).to(arguments.device)
    logger.info("%d parameters", sum(p.numel() for p in model.parameters()))
    loss = fit(model, documents, arguments)
    save(model, tokenizer, arguments.out)
    figures = evaluate(model, tokenizer, arguments.eval_tasks, arguments.eval_samples)
    figures |= {"answer_loss": round(loss, 4), "seconds": round(time.monotonic() - started)}
    _write_readme(arguments, figures)


def fit(model: CraftModel, documents: Sequence[Document], arguments: argparse.Namespace) -> float:
    """Train for so many updates; returns the last loss on answers."""
    decayed = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=arguments.lr,
        betas=(0.9, 0.95),
        fused=arguments.device == "cuda",
    )
    rng = Random(arguments.seed)
    compute = torch.compile(answer_loss, dynamic=True) if arguments.compile else answer_loss
    started, num_tokens, recent = time.monotonic(), 0, 0.0
    stream = _endless(documents, rng, arguments.tokens_per_update)
    for update in range(arguments.updates):
        ids, is_answer = next(stream)
        ids, is_answer = ids.to(arguments.device), is_answer.to(arguments.device)
        for group in optimiser.param_groups:
            group["lr"] = arguments.lr * _schedule(update / arguments.updates)
        with _autocast(arguments.device):
            loss, on_answers = compute(model, ids, is_answer)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        num_tokens += ids.numel()
        if update % max(1, arguments.updates // 20) == 0 or update == arguments.updates - 1:
            recent = on_answers.item()
            rate = num_tokens / (time.monotonic() - started)
            logger.info("update %d: answer loss %.4f, %.0f tokens/s", update, recent, rate)
    return recent


def answer_loss(model: CraftModel, ids: Tensor, is_answer: Tensor) -> tuple[Tensor, Tensor]:
    """The training loss, and the part of it that concerns answers."""
    logits, targets = model(ids)[:, :-1], ids[:, 1:]
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    answers = is_answer[:, 1:].flatten().float()
    read = (targets.flatten() != 0).float() - answers
    weights = answers + PROMPT_WEIGHT * read
    on_answers = (losses * answers).sum() / answers.sum()
    return (losses * weights).sum() / weights.sum(), on_answers.detach()


def evaluate(
    model: CraftModel, tokenizer: PreTrainedTokenizerFast, num_tasks: int, num_samples: int
) -> dict[str, object]:
    """Play held-out invented worlds and the development panel."""
    figures: dict[str, object] = {}
    panels = {"invented": held_out_tasks(num_tasks), "dev": panel_tasks("dev")[:num_tasks]}
    for name, tasks in panels.items():
        repeated = [task for task in tasks for _ in range(num_samples)]
        figures[name] = str(score(play_all(model, tokenizer, repeated, seed=0)))
        logger.info("%s: %s", name, figures[name])
    return figures


def held_out_tasks(count: int) -> list[tuple[Task, World]]:
    """Tasks in worlds that are not in the corpus."""
    found: list[tuple[Task, World]] = []
    for seed in range(FIRST_HELD_OUT_SEED, FIRST_HELD_OUT_SEED + count):
        world = make_world(seed, Shape())
        found.append((make_task(world, Random(seed).choice(world.goals)), world))
    return found


def panel_tasks(name: str) -> list[tuple[Task, World]]:
    """The real tasks of a panel."""
    return [(task, load_world(task.data["world"])) for task in PANELS.load(name)]


def _endless(
    documents: Sequence[Document], rng: Random, tokens_per_batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from batches(documents, rng, tokens_per_batch)


def _schedule(progress: float) -> float:
    if progress < WARMUP:
        return progress / WARMUP + 0.01
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (progress - WARMUP) / (1 - WARMUP)))


def _autocast(device: str) -> AbstractContextManager[object]:
    return torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()


def _write_readme(arguments: argparse.Namespace, figures: dict[str, object]) -> None:
    folder: Path = arguments.out
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    shown = ("recipe", "size", "documents", "updates", "tokens_per_update", "lr", "seed")
    options = " ".join(f"--{k.replace('_', '-')} {getattr(arguments, k)}" for k in shown)
    (folder / "README.md").write_text(
        "# Craft base\n\n"
        "A small base model for Practicum's quickstart: it knows the language of crafting from "
        "invented worlds,\nand has seen no goal and no recipe of TextCraft. Made by\n\n"
        f"    python -m tools.base_model.train {options}\n\n"
        f"`model.safetensors`: sha256 {digest}\n\n"
        f"```json\n{json.dumps(figures, indent=1)}\n```\n",
        encoding="utf-8",
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="mixed")
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--tokens-per-update", type=int, default=65_536)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--eval-samples", type=int, default=8)
    parser.add_argument("--eval-tasks", type=int, default=96)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()

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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import torch
from transformers import PreTrainedTokenizerFast

from practicum.core.task import Task
from practicum.envs.text.textcraft.invented_tasks import make_tasks
from practicum.envs.text.textcraft.tasks import PANELS
from practicum.envs.text.textcraft.versions import load_world
from practicum.envs.text.textcraft.world import World
from tools.base_model.arena import play_all, score
from tools.base_model.batches import Corpus, encode, make_corpus
from tools.base_model.corpus import EXPERT, RECIPES, play
from tools.base_model.model import SIZES, CraftModel, save
from tools.base_model.shelves import Shelf, fill_shelves, walk
from tools.base_model.tokenizer import build_tokenizer
from tools.base_model.updates import Optimisers, Update, answer_loss, autocast

logger = logging.getLogger("base_model")

FIRST_HELD_OUT_SEED = 2_000_000_000
"""Worlds from here on are never trained on."""
WARMUP = 0.03
"""Share of the training in which the learning rate rises."""
NUM_LINES = 20
"""Of the log."""
CHECK_EVERY = 64
"""Updates given to a GPU before its results are awaited."""


def main() -> None:
    """Train as the command line says."""
    arguments = _parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    started = time.monotonic()
    corpus = (
        Corpus.load(arguments.corpus)
        if arguments.corpus
        else make_corpus(arguments.recipe, arguments.documents, arguments.processes)
    )
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = build_tokenizer()
    model = CraftModel(SIZES[arguments.size], len(tokenizer)).to(arguments.device)
    logger.info("%d parameters", sum(p.numel() for p in model.parameters()))
    figures = fit(model, tokenizer, corpus, arguments)
    save(model, tokenizer, arguments.out)
    figures |= evaluate(model, tokenizer, arguments.eval_tasks, arguments.eval_samples)
    figures["seconds"] = round(time.monotonic() - started)
    _write_readme(arguments, len(corpus.lengths), figures)


def fit(
    model: CraftModel,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Corpus,
    arguments: argparse.Namespace,
) -> dict[str, object]:
    """Train for so many updates or minutes; returns the last losses and the speed."""
    pad = tokenizer.pad_token_id
    assert isinstance(pad, int)
    device: str = arguments.device
    shelves = fill_shelves(corpus, pad, arguments.tokens_per_update, device)
    panel = fill_shelves(
        panel_corpus("dev", arguments.eval_tasks), pad, arguments.tokens_per_update, device
    )
    optimisers = Optimisers(model, arguments.lr, arguments.muon_lr)
    total = torch.zeros((), device=device)
    loss = partial(answer_loss, pad=pad)
    compute = torch.compile(loss, dynamic=False) if arguments.compile else loss
    updates = [Update(model, optimisers, shelf, total, compute) for shelf in shelves]
    if device == "cuda" and not arguments.eager:
        for one in updates:
            one.capture()
        logger.info("captured %d shapes", len(updates))
    total.zero_()
    clock = _Clock(arguments.updates, arguments.minutes)
    stream = walk(shelves, arguments.seed)
    done, num_tokens, num_lines, since = 0, 0, 0, 0
    figures: dict[str, object] = {}
    while (progress := clock.progress(done)) < 1:
        optimisers.set_rate(_schedule(progress))
        number, rows = next(stream)
        updates[number](rows)
        done += 1
        num_tokens += shelves[number].ids[0].numel() * len(rows)
        if done % CHECK_EVERY == 0:
            total.cpu()  # waits for the device, so that the clock is right
        progress = clock.progress(done)
        if progress < min(1, (num_lines + 1) / NUM_LINES):
            continue
        seconds = clock.seconds()
        figures = {
            "answer_loss": round(total.item() / (done - since), 5),
            "dev_answer_loss": round(panel_loss(model, panel, pad), 5),
            "updates": done,
            "updates_per_second": round(done / seconds, 1),
            "tokens_per_second": round(num_tokens / seconds),
        }
        logger.info("%.1f%%: %s", 100 * progress, ", ".join(f"{k} {v}" for k, v in figures.items()))
        total.zero_()
        num_lines, since = int(progress * NUM_LINES), done
    return figures


class _Clock:
    """How far training is, by updates or by minutes."""

    def __init__(self, num_updates: int, minutes: float | None) -> None:
        self._num_updates = num_updates
        self._limit = None if minutes is None else 60 * minutes
        self._started = time.monotonic()

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def progress(self, done: int) -> float:
        """From 0 to 1."""
        if self._limit is None:
            return done / self._num_updates
        return self.seconds() / self._limit


@torch.no_grad()
def panel_loss(model: CraftModel, shelves: Sequence[Shelf], pad: int) -> float:
    """Mean loss of a token in the expert's answers on a panel; documents count by their length."""
    total, count = 0.0, 0
    for shelf in shelves:
        for start in range(0, len(shelf.ids), shelf.num_rows):
            rows = torch.arange(
                start, min(start + shelf.num_rows, len(shelf.ids)), device=shelf.ids.device
            )
            ids, is_answer = shelf.take(rows)
            with autocast(ids.device.type):
                _, on_answers = answer_loss(model, ids, is_answer, pad)
            weight = int(is_answer.sum())
            total += on_answers.item() * weight
            count += weight
    return total / count


def panel_corpus(name: str, num_tasks: int) -> Corpus:
    """The expert's episodes of a panel's tasks; measured on, never trained on."""
    return Corpus.join(
        [
            encode(play(task, world, EXPERT, Random(0)))
            for task, world in panel_tasks(name)[:num_tasks]
        ]
    )


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
    """Tasks in worlds that are not in the corpus, one of each world."""
    seeds = range(FIRST_HELD_OUT_SEED, FIRST_HELD_OUT_SEED + 2 * count)
    firsts = (next(make_tasks(seed), None) for seed in seeds)
    return [first for first in firsts if first][:count]


def panel_tasks(name: str) -> list[tuple[Task, World]]:
    """The real tasks of a panel."""
    return [(task, load_world(task.data["world"])) for task in PANELS.load(name)]


def _schedule(progress: float) -> float:
    if progress < WARMUP:
        return progress / WARMUP + 0.01
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (progress - WARMUP) / (1 - WARMUP)))


def _write_readme(
    arguments: argparse.Namespace, num_documents: int, figures: dict[str, object]
) -> None:
    folder: Path = arguments.out
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    shown = {
        "recipe": arguments.recipe,
        "size": arguments.size,
        "documents": num_documents,
        "updates": figures["updates"],
        "tokens-per-update": arguments.tokens_per_update,
        "lr": arguments.lr,
        "muon-lr": arguments.muon_lr,
        "seed": arguments.seed,
    }
    options = " ".join(f"--{key} {value}" for key, value in shown.items() if value is not None)
    (folder / "README.md").write_text(
        "# Craft base\n\n"
        "A small base model for Practicum's quickstart: it knows the language of crafting from "
        "invented worlds,\nplayed by crafters of whom some look again before they act and most "
        "do not. It has seen no goal and\nno recipe of TextCraft. Made by\n\n"
        f"    python -m tools.base_model.train {options}\n\n"
        f"`model.safetensors`: sha256 {digest}\n\n"
        f"```json\n{json.dumps(figures, indent=1)}\n```\n",
        encoding="utf-8",
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="mixed")
    parser.add_argument("--corpus", type=Path, help="a file that `batches` made of the recipe")
    parser.add_argument("--size", choices=sorted(SIZES), default="deep")
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--updates", type=int, default=60_000)
    parser.add_argument("--minutes", type=float, help="train so long instead, corpus not counted")
    parser.add_argument("--tokens-per-update", type=int, default=32_768)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--muon-lr", type=float, help="use Muon for the layers' matrices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--eval-samples", type=int, default=8)
    parser.add_argument("--eval-tasks", type=int, default=96)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--eager", action="store_true", help="capture no graph")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()

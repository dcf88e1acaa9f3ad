"""Turns conversations into tokens: the corpus in memory and on disk, and padded batches of it.

One document a row: nothing leaks between documents. How training walks through them on its
device is left to `shelves`.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tools.base_model.corpus import RECIPES, SYSTEM_TEXT, Conversation, make_documents
from tools.base_model.tokenizer import ASSISTANT, END, PAD, SYSTEM, build_tokenizer

logger = logging.getLogger("base_model")

MAX_LENGTH = 1024
"""Of a document that is trained on; longer ones are left out."""
WORLDS_PER_JOB = 50
_LENGTH_STEP = 64


@dataclass(frozen=True, slots=True)
class Document:
    """One episode as tokens."""

    ids: NDArray[np.uint16]
    is_answer: NDArray[np.bool_]
    """What the crafter wrote, its end-of-turn tokens included."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents one behind the other."""

    ids: NDArray[np.uint16]
    is_answer: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    num_too_long: int = 0
    """Documents that were left out."""

    @classmethod
    def join(cls, documents: Sequence[Document]) -> Corpus:
        """Put documents together, without those that are too long."""
        kept = [document for document in documents if len(document.ids) <= MAX_LENGTH]
        return cls(
            np.concatenate([document.ids for document in kept]),
            np.concatenate([document.is_answer for document in kept]),
            np.array([len(document.ids) for document in kept], dtype=np.int64),
            len(documents) - len(kept),
        )

    def save(self, path: Path) -> None:
        """Write the corpus to a file."""
        np.savez(
            path,
            ids=self.ids,
            is_answer=self.is_answer,
            lengths=self.lengths,
            num_too_long=self.num_too_long,
        )

    @classmethod
    def load(cls, path: Path) -> Corpus:
        """Read what `save` wrote."""
        with np.load(path) as parts:
            return cls(
                parts["ids"], parts["is_answer"], parts["lengths"], int(parts["num_too_long"])
            )


@lru_cache(maxsize=1)
def _tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def encode(conversation: Conversation) -> Document:
    """Tokenise a conversation behind the agent's instructions."""
    tokenizer = _tokenizer()
    # Special tokens cut a text, so its parts can be tokenised by themselves.
    turns = "".join(f"<|{role}|>{text}{END}" for role, text in conversation)
    ids = np.array([*_instructions(), *_encode(turns)], dtype=np.uint16)
    opens = np.flatnonzero(ids == tokenizer.convert_tokens_to_ids(ASSISTANT))
    closes = np.flatnonzero(ids == tokenizer.convert_tokens_to_ids(END))
    # Inside an answer: after its opening token, up to and including its end.
    changes = np.zeros(len(ids) + 1, dtype=np.int8)
    changes[opens + 1] = 1
    changes[closes[np.searchsorted(closes, opens)] + 1] = -1
    is_answer = np.cumsum(changes[:-1], dtype=np.int8).astype(np.bool_)
    return Document(ids, is_answer)


@lru_cache(maxsize=1)
def _instructions() -> tuple[int, ...]:
    return tuple(_encode(f"{SYSTEM}{SYSTEM_TEXT}{END}"))


def _encode(text: str) -> list[int]:
    return _tokenizer().backend_tokenizer.encode(text, add_special_tokens=False).ids


def _make_some(job: tuple[str, int]) -> Corpus:
    recipe, first_seed = job
    seeds = range(first_seed, first_seed + WORLDS_PER_JOB)
    documents = [encode(doc) for seed in seeds for doc in make_documents(RECIPES[recipe], seed)]
    return Corpus.join(documents)


def make_corpus(recipe: str, num_documents: int, num_processes: int) -> Corpus:
    """Play about so many documents in many processes; the same for any number of them."""
    started = time.monotonic()
    parts: list[Corpus] = []
    found = 0
    with get_context("fork").Pool(num_processes) as pool:
        for part in pool.imap(_make_some, _jobs(recipe, num_documents)):
            parts.append(part)
            found += len(part.lengths)
            if found >= num_documents:
                break
    corpus = Corpus(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.is_answer for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        sum(part.num_too_long for part in parts),
    )
    logger.info(
        "corpus %s: %d episodes, %d tokens, %d too long, %.0f s; no real name or recipe in it",
        recipe,
        len(corpus.lengths),
        len(corpus.ids),
        corpus.num_too_long,
        time.monotonic() - started,
    )
    return corpus


def _jobs(recipe: str, num_documents: int) -> Iterator[tuple[str, int]]:
    """So many jobs that they are sure to give enough documents (a world gives two or more)."""
    for i in range(num_documents // (2 * WORLDS_PER_JOB) + 1):
        yield recipe, i * WORLDS_PER_JOB


def batches(
    documents: Sequence[Document], rng: Random, tokens_per_batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass over the documents in random order: ids and a mask of answers, `[row, position]`."""
    order = list(range(len(documents)))
    rng.shuffle(order)
    order.sort(key=lambda i: len(documents[i].ids) // _LENGTH_STEP)
    groups: list[list[int]] = [[]]
    for i in order:
        padded = -(-len(documents[i].ids) // _LENGTH_STEP) * _LENGTH_STEP
        if groups[-1] and (len(groups[-1]) + 1) * padded > tokens_per_batch:
            groups.append([])
        groups[-1].append(i)
    rng.shuffle(groups)
    for group in groups:
        yield pad([documents[i] for i in group])


def pad(documents: Sequence[Document]) -> tuple[Tensor, Tensor]:
    """Put documents into one rectangle."""
    longest = max(len(document.ids) for document in documents)
    shape = (len(documents), -(-longest // _LENGTH_STEP) * _LENGTH_STEP)
    ids = np.full(shape, _tokenizer().convert_tokens_to_ids(PAD), dtype=np.int64)
    is_answer = np.zeros(shape, dtype=np.bool_)
    for row, document in enumerate(documents):
        ids[row, : len(document.ids)] = document.ids
        is_answer[row, : len(document.ids)] = document.is_answer
    return torch.from_numpy(ids), torch.from_numpy(is_answer)


def main() -> None:
    """Make a corpus and save it: `python -m tools.base_model.batches --out FILE.npz`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="mixed")
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--processes", type=int, default=4)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    make_corpus(arguments.recipe, arguments.documents, arguments.processes).save(arguments.out)


if __name__ == "__main__":
    main()

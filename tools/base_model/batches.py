"""Turns conversations into padded batches of token ids and loss weights.

One document a row, documents of like length together: nothing leaks between documents and
little is padding. Lengths are multiples of 64, so there are few shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tools.base_model.corpus import RECIPES, SYSTEM_TEXT, Conversation, make_documents
from tools.base_model.tokenizer import ASSISTANT, END, PAD, SYSTEM, build_tokenizer

MAX_LENGTH = 1024
WORLDS_PER_JOB = 50
_LENGTH_STEP = 64


@dataclass(frozen=True, slots=True)
class Document:
    """One episode as tokens."""

    ids: NDArray[np.uint16]
    is_answer: NDArray[np.bool_]
    """What the crafter wrote, its end-of-turn tokens included."""


@lru_cache(maxsize=1)
def _tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def encode(conversation: Conversation) -> Document:
    """Tokenise a conversation behind the agent's instructions."""
    tokenizer = _tokenizer()
    turns = "".join(f"<|{role}|>{text}{END}" for role, text in conversation)
    backend = tokenizer.backend_tokenizer
    ids = np.array(
        backend.encode(f"{SYSTEM}{SYSTEM_TEXT}{END}{turns}", add_special_tokens=False).ids,
        dtype=np.uint16,
    )[:MAX_LENGTH]
    opens = ids == tokenizer.convert_tokens_to_ids(ASSISTANT)
    closes = ids == tokenizer.convert_tokens_to_ids(END)
    # Inside an answer: after its opening token, up to and including its end.
    is_answer = np.zeros(len(ids), dtype=np.bool_)
    inside = False
    for i in range(len(ids)):
        is_answer[i] = inside
        inside = bool(opens[i]) or (inside and not closes[i])
    return Document(ids, is_answer)


def _make_some(job: tuple[str, int]) -> list[Document]:
    recipe, first_seed = job
    seeds = range(first_seed, first_seed + WORLDS_PER_JOB)
    return [encode(doc) for seed in seeds for doc in make_documents(RECIPES[recipe], seed)]


def make_corpus(recipe: str, num_documents: int, num_processes: int) -> list[Document]:
    """Play documents in many processes; the same for any number of them."""
    jobs = ((recipe, seed) for seed in range(0, 1_000_000_000, WORLDS_PER_JOB))
    documents: list[Document] = []
    with get_context("fork").Pool(num_processes) as pool:
        for some in pool.imap(_make_some, jobs_until(jobs, num_documents)):
            documents += some
            if len(documents) >= num_documents:
                break
    return documents[:num_documents]


def jobs_until(jobs: Iterator[tuple[str, int]], num_documents: int) -> Iterator[tuple[str, int]]:
    """So many jobs that they are sure to give enough documents (a world gives two or more)."""
    for _ in range(num_documents // (2 * WORLDS_PER_JOB) + 1):
        yield next(jobs)


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

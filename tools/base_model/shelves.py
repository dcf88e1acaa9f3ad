"""The corpus where it is trained on: rectangles of documents of like length, on one device.

A batch is some rows of one rectangle, given by an index, so that an update needs nothing
from the host but that index, and there are as many shapes as there are rectangles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tools.base_model.batches import Corpus

LENGTHS = (128, 256, 448, 704, 1024)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Documents of like length, padded to one."""

    ids: Tensor
    """int16 `[document, position]`: kept small, made long when a batch is taken."""
    is_answer: Tensor
    num_rows: int
    """Documents in a batch."""

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The ids and the answer mask of some documents."""
        return self.ids[rows].long(), self.is_answer[rows]


def fill_shelves(
    corpus: Corpus, pad: int, tokens_per_batch: int, device: str, lengths: Sequence[int] = LENGTHS
) -> list[Shelf]:
    """Sort documents by length into rectangles; empty ones are left out."""
    ends = np.cumsum(corpus.lengths)
    starts = ends - corpus.lengths
    shelves: list[Shelf] = []
    shorter = 0
    for length in lengths:
        chosen = np.flatnonzero((corpus.lengths > shorter) & (corpus.lengths <= length))
        shorter = length
        if not len(chosen):
            continue
        is_inside = np.arange(length) < corpus.lengths[chosen, None]
        ids = np.full(is_inside.shape, pad, dtype=np.int16)
        is_answer = np.zeros(is_inside.shape, dtype=np.bool_)
        places = (starts[chosen, None] + np.arange(length))[is_inside]
        ids[is_inside] = corpus.ids[places]
        is_answer[is_inside] = corpus.is_answer[places]
        num_rows = min(len(chosen), max(1, tokens_per_batch // length))
        on_device = (torch.from_numpy(ids).to(device), torch.from_numpy(is_answer).to(device))
        shelves.append(Shelf(on_device[0], on_device[1], num_rows))
    return shelves


def walk(shelves: Sequence[Shelf], seed: int) -> Iterator[tuple[int, Tensor]]:
    """Batches without end: the number of a shelf and the rows to take from it.

    Every pass shows each document at most once, in a new order; what does not fill a batch
    waits for another pass.
    """
    device = shelves[0].ids.device
    generator = torch.Generator(device).manual_seed(seed)
    order_of_batches = torch.Generator().manual_seed(seed)
    while True:
        orders = [torch.randperm(len(s.ids), generator=generator, device=device) for s in shelves]
        cuts = [
            (number, start)
            for number, shelf in enumerate(shelves)
            for start in range(0, len(shelf.ids) - shelf.num_rows + 1, shelf.num_rows)
        ]
        for i in torch.randperm(len(cuts), generator=order_of_batches).tolist():
            number, start = cuts[i]
            yield number, orders[number][start : start + shelves[number].num_rows]

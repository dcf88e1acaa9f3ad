"""BM25 over texts that are already cut into words, with one ranking everywhere.

`bm25s` scores, by Lucene's formula with Pyserini's constants. Equal scores are ordered by
place in the collection. Immutable and safe to use from many threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_K1 = 0.9
_B = 0.4
_NUM_DECIMALS = 9
"""Of scores; differences below that are rounding of the machine and count as ties."""


class Bm25Index:
    """An index over documents, each a list of words."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        from bm25s import BM25
        from bm25s.tokenization import Tokenized

        self._size = len(documents)
        # Not the library's own vocabulary: it numbers words in set order.
        words = sorted({word for document in documents for word in document})
        self._ids = {word: i for i, word in enumerate(words)}
        self._engine: Any = BM25(k1=_K1, b=_B, method="lucene", dtype="float64", backend="numpy")
        rows = [[self._ids[word] for word in document] for document in documents]
        self._engine.index(Tokenized(rows, dict(self._ids)), show_progress=False)

    def __len__(self) -> int:
        return self._size

    def search(self, words: Sequence[str], limit: int) -> list[int]:
        """Rows of up to `limit` documents that share a word with the query, best first."""
        import numpy as np

        ids = [self._ids[word] for word in words if word in self._ids]
        if not ids:
            return []
        scores = np.round(self._engine.get_scores_from_ids(ids), _NUM_DECIMALS)
        found = np.flatnonzero(scores > 0)
        if len(found) > limit:
            least = np.partition(scores[found], len(found) - limit)[len(found) - limit]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")][:limit]
        return [int(row) for row in best]

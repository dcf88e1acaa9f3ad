"""BM25 search over product texts, tuned as WebShop's Lucene index is.

`bm25s` scores (Lucene's variant, k1 0.9, b 0.4); the analysis is that of Lucene's English
analyser: lower case, possessives off, stop words out, Porter stems. Equal scores are
ordered by place in the catalogue, so a query has one answer everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_RESULTS = 50

_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their "
    "then there these they this to was will with".split()
)
_SCORE_DIGITS = 6


def tokenize(text: str) -> list[str]:
    """Cut a text into the stems that are compared."""
    import Stemmer

    words = (w.replace("’", "'").removesuffix("'s") for w in _WORD.findall(text.lower()))
    # A stemmer holds state and is not safe between threads; making one costs microseconds.
    stems: list[str] = Stemmer.Stemmer("porter").stemWords(
        [word for word in words if word not in _STOP_WORDS]
    )
    return stems


class SearchIndex:
    """An immutable index; searching changes nothing."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._size = len(texts)
        documents = [tokenize(text) for text in texts]
        # In order of appearance: the library's own vocabulary follows the order of a set.
        self._ids = _number(word for document in documents for word in document)
        self._scorer = bm25s.BM25(method="lucene", k1=0.9, b=0.4, dtype="float64")
        rows = [[self._ids[word] for word in document] for document in documents]
        self._scorer.index((rows, self._ids), create_empty_token=False, show_progress=False)

    def __len__(self) -> int:
        return self._size

    def search(self, keywords: str, limit: int = MAX_RESULTS) -> list[int]:
        """Rows of the documents that match, best first."""
        import numpy as np

        words = [word for word in tokenize(keywords) if word in self._ids]
        if not words:
            return []
        # Rounded, so that the last bit of a platform's logarithm orders nothing.
        scores = np.round(self._scorer.get_scores(words), _SCORE_DIGITS)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [int(row) for row in best if scores[row] > 0]


def _number(words: Iterable[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for word in words:
        numbers.setdefault(word, len(numbers))
    return numbers

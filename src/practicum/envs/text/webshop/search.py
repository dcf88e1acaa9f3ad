"""BM25 search over product texts, tuned as WebShop's Lucene index is.

The analysis is that of Lucene's English analyser: lower case, possessives off, stop words
out, Porter stems.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from practicum.envs.text.bm25 import Bm25Index

MAX_RESULTS = 50

_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*")
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their "
    "then there these they this to was will with".split()
)


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
        self._index = Bm25Index([tokenize(text) for text in texts])

    def __len__(self) -> int:
        return len(self._index)

    def search(self, keywords: str, limit: int = MAX_RESULTS) -> list[int]:
        """Rows of the documents that match, best first."""
        return self._index.search(tokenize(keywords), limit)

"""Finding passages: what a retriever is, and BM25 over passages held in memory.

BM25 is `bm25s` with Lucene's formula and the constants of Pyserini, which Search-R1 uses.
Equal scores are ordered by position in the collection, so a query has one result everywhere.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from practicum.core.errors import ConfigError

INSTALL = "pip install 'practicum[searchqa]'"

_K1 = 0.9
_B = 0.4
_NUM_DECIMALS = 9
"""Of scores; differences below that are rounding of the machine and count as ties."""
_MAX_INLINE_PASSAGES = 20_000
"""A search over more passages would hold up other episodes, so it runs in a thread."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Document:
    """A passage with its title."""

    id: str
    title: str
    text: str

    @classmethod
    def from_contents(cls, doc_id: str, contents: str) -> Document:
        """Read wiki-18's form: the title, mostly in quotes, then the text on the next line."""
        title, _, text = contents.partition("\n")
        title = title.strip()
        if len(title) > 1 and title.startswith('"') and title.endswith('"'):
            title = title[1:-1]
        return cls(doc_id, title, text.strip())


class Retriever(Protocol):
    """Finds the passages that suit a query, best first. Shared by concurrent episodes."""

    async def retrieve(self, query: str, k: int) -> list[Document]:
        """Find up to `k` passages, or raise `EnvError` if the search itself breaks."""
        ...

    async def aclose(self) -> None:
        """Release connections; idempotent."""
        ...


class Bm25Index:
    """An immutable index over passages. Blocking and safe to use from many threads."""

    def __init__(self, documents: Sequence[Document]) -> None:
        from bm25s import BM25
        from bm25s.tokenization import Tokenized

        self.documents = documents
        texts = [_words(f"{document.title} {document.text}") for document in documents]
        # Not bm25s' own vocabulary: it numbers words in set order.
        words = sorted({word for text in texts for word in text})
        self._word_ids = {word: i for i, word in enumerate(words)}
        self._engine: Any = BM25(k1=_K1, b=_B, method="lucene", dtype="float64", backend="numpy")
        ids = [[self._word_ids[word] for word in text] for text in texts]
        self._engine.index(Tokenized(ids, dict(self._word_ids)), show_progress=False)

    def search(self, query: str, k: int) -> list[Document]:
        """Find up to `k` passages that share a word with the query."""
        import numpy as np

        ids = [self._word_ids[word] for word in _words(query) if word in self._word_ids]
        if not ids:
            return []
        scores = np.round(self._engine.get_scores_from_ids(ids), _NUM_DECIMALS)
        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")][:k]
        return [self.documents[i] for i in best]


class Bm25Retriever:
    """BM25 over documents that are loaded, and indexed, at the first search."""

    def __init__(self, load: Callable[[], Sequence[Document]]) -> None:
        if find_spec("bm25s") is None:
            raise ConfigError(f"SearchQA's search engine bm25s is not installed: {INSTALL}")
        self._load = load
        self._index: Bm25Index | None = None
        # Held while building: two episodes that search first must not build two indexes.
        self._building = threading.Lock()

    async def retrieve(self, query: str, k: int) -> list[Document]:
        """Find up to `k` passages."""
        index = self._index
        if index is None:
            index = await asyncio.to_thread(self._build)
        if len(index.documents) > _MAX_INLINE_PASSAGES:
            return await asyncio.to_thread(index.search, query, k)
        return index.search(query, k)

    async def aclose(self) -> None:
        """Release nothing."""

    def _build(self) -> Bm25Index:
        with self._building:
            if self._index is None:
                self._index = Bm25Index(self._load())
            return self._index


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())

"""Finding passages: what a retriever is, and BM25 over passages held in memory.

Search-R1 uses BM25 with Lucene's formula and Pyserini's constants, and so does this.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from practicum.core.errors import ConfigError
from practicum.envs.text.bm25 import Bm25Index

INSTALL = "pip install 'practicum[searchqa]'"

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


class PassageIndex:
    """An immutable index over passages. Blocking and safe to use from many threads."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self._index = Bm25Index([_words(f"{d.title} {d.text}") for d in documents])

    def search(self, query: str, k: int) -> list[Document]:
        """Find up to `k` passages that share a word with the query."""
        return [self.documents[row] for row in self._index.search(_words(query), k)]


class Bm25Retriever:
    """BM25 over documents that are loaded, and indexed, at the first search."""

    def __init__(self, load: Callable[[], Sequence[Document]]) -> None:
        self._load = load
        self._index: PassageIndex | None = None
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

    def _build(self) -> PassageIndex:
        # Looked for at the first search: who plays on a server needs no engine here.
        if find_spec("bm25s") is None:
            raise ConfigError(f"SearchQA's search engine bm25s is not installed: {INSTALL}")
        with self._building:
            if self._index is None:
                self._index = PassageIndex(self._load())
            return self._index


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())

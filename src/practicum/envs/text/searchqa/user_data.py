"""The user's own collections and questions, as JSON lines.

A collection has wiki-18's form, `{"id": "7", "contents": "\\"Title\\"\\ntext"}`, or `title` and
`text` apart. Questions have Search-R1's form, `{"question": …, "golden_answers": […]}`; a
single `answer` will do, `split` names the panel (`test` if absent), and `data_source` or
`difficulty` the stratum of reports. A question that stands in two splits is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from practicum.core.canonical import content_hash
from practicum.core.errors import ConfigError
from practicum.core.task import Panel, Task
from practicum.envs.text.searchqa.retriever import Document
from practicum.envs.text.searchqa.scoring import normalise
from practicum.envs.text.searchqa.tasks import make_task

SERVICE_CORPUS_ID = "service"
"""For collections behind a retrieval service, whose content cannot be checked from here."""

DEFAULT_SPLIT = "test"


@dataclass(frozen=True)
class UserData:
    """A file of questions about one collection. Read on first use."""

    questions_path: Path
    corpus_id: str
    corpus_path: Path | None = None

    @classmethod
    def with_corpus(cls, questions_path: Path, corpus_path: Path) -> UserData:
        """Pair questions with a collection in a file, which is named by its content."""
        try:
            with corpus_path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ConfigError(f"cannot read the collection {corpus_path}: {error}") from error
        return cls(questions_path, f"file-{digest[:16]}", corpus_path)

    @cached_property
    def panels(self) -> Mapping[str, Panel]:
        """The questions by split, in file order; a repeated row counts once."""
        splits: dict[str, dict[str, Task]] = {}
        split_of: dict[str, str] = {}
        for place, row in _rows(self.questions_path):
            task = _read_task(place, row, self.corpus_id)
            other = split_of.setdefault(task.family, task.split)
            if other != task.split:
                raise ConfigError(f"{place}: this question is in split {other!r} too")
            splits.setdefault(task.split, {}).setdefault(task.id, task)
        if not splits:
            raise ConfigError(f"{self.questions_path} holds no questions")
        return {name: Panel(name, tuple(found.values())) for name, found in splits.items()}

    def load_corpus(self) -> Sequence[Document]:
        """Read the collection into memory."""
        assert self.corpus_path is not None
        rows = enumerate(_rows(self.corpus_path))
        documents = tuple(_read_document(place, row, i) for i, (place, row) in rows)
        if not documents:
            raise ConfigError(f"{self.corpus_path} holds no passages")
        return documents


def _read_task(place: str, row: Mapping[str, Any], corpus_id: str) -> Task:
    question = row.get("question")
    golden = row.get("golden_answers", row.get("answer"))
    golden = [golden] if isinstance(golden, str) else golden
    if not isinstance(question, str) or not question.strip():
        raise ConfigError(f"{place}: 'question' must be a text, not {question!r}")
    is_listed = isinstance(golden, list) and len(golden) > 0
    if not is_listed or not all(isinstance(gold, str) and gold.strip() for gold in golden):
        raise ConfigError(f"{place}: 'golden_answers' must be a list of texts, not {golden!r}")
    try:
        return make_task(
            question.strip(),
            golden,
            corpus_id,
            split=str(row.get("split") or DEFAULT_SPLIT),
            difficulty=str(row.get("difficulty") or row.get("data_source") or ""),
            family=content_hash(normalise(question))[:16],
        )
    except UnicodeEncodeError as error:
        raise ConfigError(f"{place}: half a character, {error.object!r}") from error


def _read_document(place: str, row: Mapping[str, Any], position: int) -> Document:
    doc_id = str(row.get("id", position))
    if isinstance(contents := row.get("contents"), str):
        return Document.from_contents(doc_id, contents)
    title, text = row.get("title"), row.get("text")
    if isinstance(title, str) and isinstance(text, str):
        return Document(doc_id, title, text)
    raise ConfigError(f"{place}: a passage needs 'contents', or 'title' and 'text'")


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read JSON lines; each comes with its place, for error messages."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    place = f"{path}, line {number}"
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ConfigError(f"{place}: expected an object, not {line.strip()[:40]!r}")
                    yield place, row
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{place}: not JSON ({error.msg})") from error

"""What an agent is asked to do, and ordered sets of that.

A task is its content: its id is a hash over what the environment needs to set it up and
what the agent is told first. Split, difficulty and family describe a task; they are not
part of it, so regrouping tasks never renames them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from practicum.core.canonical import content_hash
from practicum.core.errors import ConfigError

ID_HEX_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Task:
    """What to do. Pure data: can be saved, sent, compared. Knows no rewards."""

    id: str
    env_id: str
    prompt: str
    """The goal in words, as a person would be told it."""
    data: Mapping[str, Any]
    """All the environment needs to set it up; JSON values only."""
    split: str = ""
    difficulty: str = ""
    """The stratum it is reported under, for TextCraft the crafting depth."""
    family: str = ""
    """Tasks of one family ask for the same thing; a split never separates them."""

    @classmethod
    def create(
        cls,
        env_id: str,
        prompt: str,
        data: Mapping[str, Any],
        *,
        split: str = "",
        difficulty: str = "",
        family: str = "",
    ) -> Task:
        """Make a task and compute its id from its content."""
        task_id = _task_id(env_id, prompt, data)
        return cls(task_id, env_id, prompt, data, split, difficulty, family or task_id)

    def verify(self) -> None:
        """Raise if the id is not the hash of the content."""
        expected = _task_id(self.env_id, self.prompt, self.data)
        if self.id != expected:
            raise ConfigError(
                f"task {self.id} has content that hashes to {expected}: "
                "it was edited after it was frozen; rebuild the panel it came from"
            )


def _task_id(env_id: str, prompt: str, data: Mapping[str, Any]) -> str:
    digest = content_hash({"env": env_id, "prompt": prompt, "data": dict(data)})
    return f"{env_id}-{digest[:ID_HEX_DIGITS]}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A named, ordered, frozen set of tasks. Compared by the hash of its task ids."""

    name: str
    tasks: tuple[Task, ...]
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        ids = [task.id for task in self.tasks]
        if len(set(ids)) != len(ids):
            twice = sorted({i for i in ids if ids.count(i) > 1})
            raise ConfigError(f"panel {self.name!r} holds {twice[0]} twice")
        object.__setattr__(self, "hash", content_hash(sorted(ids)))

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

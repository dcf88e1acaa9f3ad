"""Conversations to learn from, read from and written to tables.

A table is a run folder, or a file with one JSON object a line (or one JSON array of them):

- `{"messages": [{"role": "user", "content": "…"}, …]}`, what `practicum data` writes;
- `{"conversations": [{"from": "human", "value": "…"}, …]}`, as AgentTraj and ShareGPT have it.

An answer with `"train": false` or `"loss": false` is shown and not learned from. Beside the
messages a row can name its `env_id`, `task_id`, `family`, `difficulty` and `outcome`. The file
has no header: other tools read it as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from practicum.core.episode import Episode
from practicum.core.errors import ConfigError
from practicum.core.message import Message, Role
from practicum.core.task import Task
from practicum.store.files import write_atomically
from practicum.store.run import Run

Turns = Literal["all", "accepted"]
Outcome = Literal["success", "failed", "broken", ""]

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and which of the answers among them are learned from."""

    messages: tuple[Message, ...]
    chosen: tuple[bool, ...]
    """One per message; true for answers only."""
    env_id: str = ""
    task_id: str = ""
    family: str = ""
    difficulty: str = ""
    outcome: Outcome = ""
    """Empty: the table does not say."""
    source: str = ""
    """Where it was read: `file:line`, or the episode's id."""

    @property
    def answers(self) -> list[str]:
        """The texts that are learned from."""
        pairs = zip(self.messages, self.chosen, strict=True)
        return [message.text for message, is_chosen in pairs if is_chosen]


def episode_conversation(
    episode: Episode, task: Task | None = None, turns: Turns = "all"
) -> Conversation:
    """An episode as the policy saw it; `accepted` leaves refused and misformed answers out.

    An answer that was cut is never chosen: it would teach to stop in the middle.
    """
    messages = [Message("system", episode.system)]
    chosen = [False]
    for turn in episode.turns:
        seen, said = turn.observation, turn.completion
        messages += [Message("user", seen.text, seen.images), Message("assistant", said.text)]
        is_wanted = turns == "all" or not turn.is_invalid
        chosen += [False, is_wanted and said.finish == "stop"]
    return Conversation(
        tuple(messages),
        tuple(chosen),
        env_id=episode.env_id,
        task_id=episode.task_id,
        family=task.family if task else "",
        difficulty=task.difficulty if task else "",
        outcome=_outcome(episode),
        source=episode.id,
    )


def read_table(path: Path, turns: Turns = "all") -> list[Conversation]:
    """Read a run folder or a table file, all of it; what it cannot mean is a `ConfigError`."""
    if path.is_dir():
        run = Run.open(path)
        tasks = {task.id: task for task in run.tasks()}
        return [episode_conversation(e, tasks.get(e.task_id), turns) for e in run.episodes()]
    conversations = [_read_row(row, where) for where, row in _rows(path)]
    if not conversations:
        raise ConfigError(f"{path} holds no conversation")
    return conversations


def refuse_existing(path: Path) -> None:
    """Raise if the file is there already; asked before anything costly is done."""
    if path.exists():
        raise ConfigError(f"{path} exists already: choose another file")


def write_table(path: Path, conversations: Iterable[Conversation]) -> None:
    """Write a table of messages; a file that is there already is left alone."""
    refuse_existing(path)
    rows = [json.dumps(_write_row(c), ensure_ascii=False) for c in conversations]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(f"{row}\n" for row in rows))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _outcome(episode: Episode) -> Outcome:
    if episode.is_broken:
        return "broken"
    return "success" if episode.is_success else "failed"


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if text.lstrip().startswith("["):
        for number, row in enumerate(_parse(text, str(path)), start=1):
            yield f"{path}:{number}", row
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", _parse(line, f"{path}:{number}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error


def _read_row(row: Any, where: str) -> Conversation:
    keys = list(row) if isinstance(row, dict) else type(row).__name__
    for name, role_key, text_key in (
        ("messages", "role", "content"),
        ("conversations", "from", "value"),
    ):
        if isinstance(row, dict) and isinstance(row.get(name), list) and row[name]:
            read = [_read_message(item, role_key, text_key, where) for item in row[name]]
            break
    else:
        raise ConfigError(
            f"{where} has {keys} and no filled list of messages or conversations: "
            "write one JSON object a line, as in "
            '{"messages": [{"role": "user", "content": "…"}, …]}'
        )
    messages = tuple(message for message, _ in read)
    _check_turns(messages, where)
    outcome = row.get("outcome", "")
    if outcome not in ("success", "failed", "broken", ""):
        raise ConfigError(f"{where} has the outcome {outcome!r}: write success, failed or broken")
    return Conversation(
        messages,
        tuple(is_chosen for _, is_chosen in read),
        env_id=str(row.get("env_id", "")),
        task_id=str(row.get("task_id", row.get("item_id", ""))),
        family=str(row.get("family", "")),
        difficulty=str(row.get("difficulty", "")),
        outcome=outcome,
        source=where,
    )


def _read_message(item: Any, role_key: str, text_key: str, where: str) -> tuple[Message, bool]:
    given = item.get(role_key) if isinstance(item, dict) else None
    role = _ROLES.get(given) if isinstance(given, str) else None
    text = item.get(text_key) if isinstance(item, dict) else None
    if role is None or not isinstance(text, str):
        raise ConfigError(
            f"{where} has the message {str(item)[:60]!r}: it needs a {role_key} "
            f"({', '.join(_ROLES)}) and a {text_key} that is text"
        )
    marks = [item[key] for key in ("train", "loss") if item.get(key) is not None]
    if any(mark not in (True, False) for mark in marks):
        raise ConfigError(f"{where} marks a message with {marks[0]!r}: train and loss are booleans")
    return Message(role, text), role == "assistant" and all(marks)


def _check_turns(messages: tuple[Message, ...], where: str) -> None:
    talk = messages[1:] if messages[0].role == "system" else messages
    for index, message in enumerate(talk):
        due = "assistant" if index % 2 else "user"
        if message.role != due:
            raise ConfigError(
                f"{where} has a message of the {message.role} where one of the {due} is due: "
                "after an optional system message, user and assistant take turns"
            )


def _write_row(conversation: Conversation) -> dict[str, Any]:
    messages = []
    for message, is_chosen in zip(conversation.messages, conversation.chosen, strict=True):
        if message.images:
            raise ConfigError(
                f"{conversation.source} shows an image, and a table holds text only: "
                "train from the run folder"
            )
        row: dict[str, Any] = {"role": message.role, "content": message.text}
        if message.role == "assistant" and not is_chosen:
            row["train"] = False
        messages.append(row)
    about = {
        name: value
        for name in ("env_id", "task_id", "family", "difficulty", "outcome")
        if (value := getattr(conversation, name))
    }
    return {**about, "messages": messages}

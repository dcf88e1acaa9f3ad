"""Which task an AgentGym server serves, and under which index it has the one we want.

AgentGym names tasks by an index into whatever its machine lists first: TextCraft's 544
goals come in another order on another file system. So an index is found by asking the
server, and what it serves is compared with what was asked for before the first turn.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from practicum.core.errors import EnvError
from practicum.core.task import Task
from practicum.envs.http.dialects import Dialect, read_first
from practicum.envs.http.wire import bad_reply

INDEX = "agentgym_index"
"""In a task's data: the task is whatever an AgentGym server has under this index."""

Reply = Any


@dataclass(frozen=True, slots=True)
class Identity:
    """How to tell the tasks of one environment apart from the outside."""

    served: Callable[[Reply, str], str]
    """What a server's reply to a reset, and its text, say the task is."""
    asked: Callable[[Task], str] = lambda task: task.prompt
    """The same of one of our tasks."""
    index: Callable[[Task], int | None] = lambda _: None
    """The index, where it follows from the task."""
    can_scan: bool = False
    """Resetting through all indices is cheap enough to find a task by."""
    block: Callable[[Reply | Task], tuple[str, int]] | None = None
    """Indices come in blocks: a block's name, and the place of a reply or a task in it."""
    differs: Callable[[Task, str], str | None] = lambda _task, _text: None
    """A further difference that the name alone does not show."""


def index_task(env_id: str, index: int) -> Task:
    """The task that is whatever an AgentGym server has under an index."""
    prompt = f"Task {index} of the {env_id} server."
    return Task.create(env_id, prompt, {INDEX: index}, split="agentgym")


def _match(pattern: str) -> Callable[[Reply, str], str]:
    found = re.compile(pattern, re.MULTILINE)

    def served(_: Reply, text: str) -> str:
        match = found.search(text)
        return match[1].strip() if match else text

    return served


def _differing_recipes(task: Task, text: str) -> str | None:
    """TextCraft worlds share goals; the goal's own recipes tell them apart.

    One recipe in common is enough: where recipes form a cycle, the order of files on the
    server's disk decides which of them it keeps.
    """
    goal = task.data["goal"].replace("_", " ")
    own = re.compile(rf"craft \d+ {re.escape(goal)} using .+")
    ours = {line for line in task.data["commands"] if own.fullmatch(line)}
    theirs = {line for line in text.splitlines() if own.fullmatch(line)}
    if ours & theirs:
        return None
    return f"{goal} made as {sorted(theirs)} and not as {sorted(ours)}"


def _babyai_index(task: Task) -> int | None:
    from practicum.envs.text.babyai.engine import LEVELS

    return int(task.data["seed"]) * len(LEVELS) + LEVELS.index(task.data["level"])


def _sciworld_block(given: Reply | Task) -> tuple[str, int]:
    keys = ("task", "variation") if isinstance(given, Task) else ("task_name", "var_num")
    data = given.data if isinstance(given, Task) else given
    name, place = (data.get(key) if isinstance(data, Mapping) else None for key in keys)
    if not isinstance(name, str) or not isinstance(place, int):
        raise bad_reply("a task's name and variation", data)
    return name, place


def _name_in_block(given: Reply | Task) -> str:
    name, place = _sciworld_block(given)
    return f"{name}/{place}"


def _differing_simplifications(task: Task, _: str) -> str | None:
    asked = task.data.get("simplifications")
    return f"no simplifications instead of {asked!r}" if asked else None


IDENTITIES: Mapping[str, Identity] = {
    "textcraft": Identity(
        _match(r"^Goal: craft (.+?)\.?$"),
        lambda task: str(task.data["goal"]).replace("_", " "),
        can_scan=True,
        differs=_differing_recipes,
    ),
    "babyai": Identity(_match(r"^Your goal: (.+?)\.?$"), index=_babyai_index),
    "sciworld": Identity(
        lambda reply, _: _name_in_block(reply),
        _name_in_block,
        block=_sciworld_block,
        differs=_differing_simplifications,
    ),
    "alfworld": Identity(_match(r"Your task is to: (.+?)\.?$")),
    "webshop": Identity(_match(r"Instruction:\s*\[SEP\]\s*(.*?)\s*\[SEP\]")),
    "sqlgym": Identity(_match(r"^(?:Question: *)?(.+\?)\s*$")),
    "searchqa": Identity(_match(r"Question: *(.+)$")),
}
_BY_TEXT = Identity(lambda _, text: text)


def identity_of(env_id: str) -> Identity:
    """How to tell an environment's tasks apart; by their whole text where we know no better."""
    return IDENTITIES.get(env_id, _BY_TEXT)


Reset = Callable[[int], Awaitable[Reply]]


class TaskIndex:
    """What one server has under which index, learnt by asking, for the server's life."""

    def __init__(self, dialect: Dialect, server: str) -> None:
        self._dialect = dialect
        self._server = server
        self._identity = identity_of(dialect.env_id)
        self._index_of: dict[str, int] = {}
        self._name_at: dict[int, str] = {}
        self._next = 0
        self._start_of: dict[str, int] = {}
        self._lock = asyncio.Lock()

    async def find(self, task: Task, reset: Reset) -> tuple[int, bool]:
        """The index to ask for, and whether that is remembered from an earlier scan."""
        given = task.data.get(INDEX)
        if isinstance(given, int):
            return given, False
        index = self._identity.index(task)
        if index is not None:
            return index, False
        # One search at a time: two would ask for the same indices.
        async with self._lock:
            if self._identity.block is not None:
                return await self._find_in_block(task, self._identity.block, reset)
            return await self._find_by_scan(task, reset)

    async def _find_in_block(
        self, task: Task, block: Callable[[Reply | Task], tuple[str, int]], reset: Reset
    ) -> tuple[int, bool]:
        """Walk from the last index to the first, with one question per block."""
        is_remembered = bool(self._start_of)
        last = self._dialect.num_tasks - 1
        while last >= 0 and not is_remembered:
            name, place = block(await reset(last))
            self._start_of[name] = last - place
            last -= place + 1
        name, place = block(task)
        if name not in self._start_of:
            raise self._unknown(task, name)
        return self._start_of[name] + place, is_remembered

    async def _find_by_scan(self, task: Task, reset: Reset) -> tuple[int, bool]:
        """Ask index by index, until the task is found."""
        if not self._identity.can_scan:
            raise EnvError(
                f"an AgentGym server cannot be asked for {task.id}: it knows tasks by index "
                "only; play its own tasks (--panel agentgym) or a practicum server",
                kind="wrong-task",
            )
        name = _normal(self._identity.asked(task))
        is_remembered = name in self._index_of
        while name not in self._index_of and self._next < self._dialect.num_tasks:
            reply = await reset(self._next)
            served = self._identity.served(reply, read_first(self._dialect, reply))
            self._index_of.setdefault(_normal(served), self._next)
            self._next += 1
        if name not in self._index_of:
            raise self._unknown(task, name)
        return self._index_of[name], is_remembered

    def _unknown(self, task: Task, name: str) -> EnvError:
        return EnvError(
            f"{self._server} has no task {name!r} among its {self._dialect.num_tasks}, asked "
            f"for {task.id}",
            kind="wrong-task",
        )

    def check(self, task: Task, index: int, reply: Reply, text: str) -> None:
        """Raise unless the server serves the task that was asked for."""
        served = self._identity.served(reply, text)
        if INDEX in task.data:
            # Such a task has no content of its own; it must only stay the same task.
            asked = self._name_at.setdefault(index, served)
        else:
            asked = self._identity.asked(task)
        difference = self._identity.differs(task, text) if INDEX not in task.data else None
        if _normal(served) != _normal(asked) or difference:
            raise EnvError(
                f"asked {self._server} for {task.id} ({_short(asked)}) and was served "
                f"{difference or _short(served)}",
                kind="wrong-task",
            )

    def forget(self) -> None:
        """Ask anew: a server that restarted may have another order."""
        self._index_of.clear()
        self._start_of.clear()
        self._next = 0


def _normal(name: str) -> str:
    return " ".join(name.casefold().split()).rstrip(".?! ")


def _short(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else text[:limit] + "…")

"""SQLGym: a schema, a question, queries to try and one to hand in.

`query` runs a statement and shows its first rows; `submit` ends the episode, and pays 1 if
its result is that of the reference query. A submission that SQLite turns down is refused
and can be mended. `create(single_turn=True)` gives AgentGym's rule instead: the action is
the SQL itself, the first one is final, and the episode is one turn long.

How results are compared is part of the task (see `matching`): as bags of rows, in order
where the question asks for an order, and as sets for BIRD.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from practicum.core.commands import Command
from practicum.core.env import Script, StepResult
from practicum.core.errors import ConfigError, EnvError, unknown_name
from practicum.core.message import Action, Observation
from practicum.core.task import Panel, Task
from practicum.envs.text.sqlgym import expert, tasks
from practicum.envs.text.sqlgym.databases import Database, Databases, GeneratedDatabases
from practicum.envs.text.sqlgym.pool import GuardPool, Request
from practicum.envs.text.sqlgym.sandbox import MAX_SHOWN_ROWS

_JUDGING = """\
The result must have the rows that answer the question and, in the order the question names \
them, the columns it asks for and no others. Column names do not matter. The order of rows \
matters only where the question asks for one. Do not round unless asked to.

The database is SQLite and can only be read: one SELECT statement at a time, which may span \
several lines. PRAGMA, ATTACH and the like are refused, and so is a query that takes too \
long."""

RULES = f"""\
You answer questions about a database by writing SQL. The first message describes the \
tables and asks a question.

- query SQL runs a query and shows at most {MAX_SHOWN_ROWS} rows of its result. Use it to see \
how values are written and to try out your answer.
- submit SQL hands in your final query and ends the task.

{_JUDGING}"""

SINGLE_TURN_RULES = f"""\
You answer a question about a database by writing one SQL query. The first message \
describes the tables and asks the question. You have one try: your first query is final.

{_JUDGING}"""

COMMANDS = (
    Command(
        "query", "query {sql}", "run a SELECT statement and see the first rows", is_multiline=True
    ),
    Command(
        "submit",
        "submit {sql}",
        "hand in the final SELECT statement; ends the task",
        is_multiline=True,
    ),
)
SINGLE_TURN_COMMANDS = (
    Command(
        "sql",
        "{sql}",
        "the SELECT statement that answers the question, as it is",
        is_multiline=True,
    ),
)

MAX_TURNS = 10
"""As in earlier multi-turn set-ups of SQLGym; the expert takes at most 4."""

OLDEST_SQLITE = (3, 31, 0)
"""The first with both windows and `PRAGMA trusted_schema`."""

_COMMAND = re.compile(r"\s*(query|submit)\b[ \t]*:?\s*(.*)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```(?:\w+[ \t]*\n|\n)?(.*?)(?:```\s*)?", re.DOTALL)

RIGHT = "Your query gives the right result. The task is solved."
WRONG = "Your query does not give the right result. The task is over."


class SqlEnv:
    """One episode: a question about one database. Holds no connection between turns."""

    def __init__(self, task: Task, database: Database, pool: GuardPool, single_turn: bool) -> None:
        self._task = task
        self._database = database
        self._pool = pool
        self._single_turn = single_turn
        self._is_over = False

    async def start(self) -> Observation:
        """Show the schema and the question."""
        return Observation(tasks.first_observation(self._task, self._database))

    async def step(self, action: Action) -> StepResult:
        """Run a query, or judge one."""
        if self._is_over:
            raise EnvError(f"the episode of {self._task.id} is over", kind="finished")
        if self._single_turn:
            return await self._submit(_unfence(action.text))
        match = _COMMAND.fullmatch(action.text)
        if match is None:
            text = "Start your action with query or submit, then write the SQL."
            return StepResult(Observation(text), is_refused=True)
        sql = _unfence(match[2])
        return await (self._query(sql) if match[1].lower() == "query" else self._submit(sql))

    async def _query(self, sql: str) -> StepResult:
        reply = await self._pool.ask(Request(self._database.source, sql))
        return StepResult(Observation(reply.text), is_refused=reply.outcome == "refused")

    async def _submit(self, sql: str) -> StepResult:
        data = self._task.data
        reply = await self._pool.ask(
            Request(self._database.source, sql, data["gold"], data["match"])
        )
        if reply.outcome == "refused":
            self._is_over = self._single_turn
            return StepResult(Observation(reply.text), is_done=self._single_turn, is_refused=True)
        self._is_over = True
        return StepResult(
            Observation(RIGHT if reply.is_match else WRONG),
            reward=1.0 if reply.is_match else 0.0,
            is_done=True,
            is_success=reply.is_match,
        )


def _unfence(text: str) -> str:
    """Take SQL out of a fenced block, if it is in one."""
    stripped = text.strip()
    fence = _FENCE.fullmatch(stripped) if stripped.startswith("```") else None
    return fence[1].strip() if fence else stripped


class SqlGym:
    """SQLGym on generated databases, or on those of a data set."""

    id = tasks.ENV_ID

    def __init__(
        self, databases: Databases, panels: Mapping[str, Panel] | None, single_turn: bool
    ) -> None:
        self._databases = databases
        self._panels = panels
        self._single_turn = single_turn
        self._pool = GuardPool()
        self.rules = SINGLE_TURN_RULES if single_turn else RULES
        self.commands: Sequence[Command] = SINGLE_TURN_COMMANDS if single_turn else COMMANDS
        self.max_turns = 1 if single_turn else MAX_TURNS
        self.scripts: Mapping[str, Script] = {
            "expert": expert.answer_expertly if single_turn else expert.play_expertly,
            "random": expert.answer_randomly if single_turn else expert.play_randomly,
        }

    def panel_names(self) -> Sequence[str]:
        """Names of the panels."""
        return tuple(self._panels) if self._panels is not None else tasks.PANELS.names()

    def panel(self, name: str) -> Panel:
        """Load a panel."""
        if self._panels is None:
            return tasks.PANELS.load(name)
        if name not in self._panels:
            raise unknown_name("panel", name, self._panels)
        return self._panels[name]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[SqlEnv]:
        """Open one episode; the guards it uses belong to the environment."""
        name = task.data["database"]
        database = await asyncio.to_thread(self._databases.find, name)
        if database.hash != task.data["hash"]:
            raise ConfigError(
                f"task {task.id} is about another version of the database {name!r} "
                f"({task.data['hash']}, and here it is {database.hash}): use the panel of this "
                "installation"
            )
        yield SqlEnv(task, database, self._pool, self._single_turn)

    async def aclose(self) -> None:
        """End the guard processes."""
        await self._pool.aclose()


def create(
    *,
    single_turn: bool = False,
    dataset: str | None = None,
    data_dir: str | Path | None = None,
    split: str | None = None,
) -> SqlGym:
    """Make the environment; called by the registry.

    With `dataset` (`bird` or `spider`) and `data_dir`, it asks about that data set; `split`
    loads one split only.
    """
    _check_sqlite()
    if dataset is None:
        if data_dir is not None or split is not None:
            raise ConfigError("data_dir and split need dataset: 'bird' or 'spider'")
        return SqlGym(GeneratedDatabases(), None, single_turn)
    if data_dir is None:
        raise ConfigError(f"dataset {dataset!r} needs data_dir, the folder it was unpacked into")
    from practicum.envs.text.sqlgym.external import load_data_set

    loaded = load_data_set(dataset, Path(data_dir).expanduser(), split)
    return SqlGym(loaded.databases, loaded.panels, single_turn)


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigError(
            f"Python's SQLite is {sqlite3.sqlite_version}, and SQLGym needs "
            f"{'.'.join(map(str, OLDEST_SQLITE))}: install a newer Python"
        )
    if not hasattr(sqlite3.Connection, "deserialize"):
        raise ConfigError(
            "Python's SQLite cannot load databases from memory (it was built with "
            "SQLITE_OMIT_DESERIALIZE): install another Python"
        )

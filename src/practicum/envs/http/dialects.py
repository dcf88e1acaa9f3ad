"""AgentGym's servers as data: one row each, and the few functions that read a row.

AgentGym grew three families of servers, with other names for the same things in each. What
differs is a column here; the client and our own server hold no case for any environment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from practicum.core.env import StepResult
from practicum.core.message import Observation
from practicum.envs.http.wire import bad_reply

ACTIONS_LINE = "\nAVAILABLE ACTIONS: "
"""How AgentGym's client shows a list of actions that came beside the text."""


class Pays(StrEnum):
    """What the numbers in a step's reply mean."""

    AT_END = "at-end"
    """The reward of the last turn is that of the episode; full is success."""
    AT_GOAL = "at-goal"
    """Any positive reward is success and the end, also where the server plays on."""
    SCORE = "score"
    """A running total of 0 to 100; full is success, a negative one is a total loss."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one AgentGym server is spoken to."""

    env_id: str
    num_tasks: int
    """Indices go from 0 to one less."""
    max_turns: int
    """AgentGym's evaluation horizon."""
    error_style: Literal["body", "status"]
    """`body`: `{"error": …}` at 200. `status`: 500, and the connection is dropped."""
    path: str = ""
    create_body: Mapping[str, Any] | None = None
    created_key: str | None = "id"
    """Where the new session's id is in the reply; None: the reply is the id."""
    starts_at_create: bool = False
    """A new session already plays a task, before any reset."""
    session_key: str = "id"
    index_key: str = "data_idx"
    reset_extra: Mapping[str, Any] = field(default_factory=dict)
    first_form: Literal["fields", "pair", "text"] = "fields"
    """The reply to a reset: named fields, `[text, null]`, or the text."""
    first_keys: tuple[str, ...] = ("observation",)
    """Fields of the first observation, shown one after the other on lines of their own."""
    text_key: str = "observation"
    done_keys: tuple[str, ...] = ("done",)
    score_key: str = "reward"
    pays: Pays = Pays.AT_END
    lists_actions: bool = False
    """`available_actions` comes beside the text and is shown under it."""
    ending: str = ""
    """Actions that end an episode here although the server would play on."""
    refusal: str = ""
    """Observations that say that nothing was done."""
    can_close: bool = False
    num_slots: int | None = None
    """A server that never has more sessions than this and then hands out used ones."""
    wraps: bool = False
    """An index past the end begins anew."""
    lists_sessions: bool = False
    """`/list_envs` names the sessions there are."""


def _tool(env_id: str, num_tasks: int, max_turns: int) -> Dialect:
    return Dialect(
        env_id,
        num_tasks,
        max_turns,
        "status",
        create_body={"id": 0},
        created_key=None,
        starts_at_create=True,
        session_key="env_idx",
        index_key="id",
        first_form="text",
        refusal=r"Format error",
        lists_sessions=True,
    )


_ROWS = (
    Dialect(
        "textcraft",
        num_tasks=544,
        max_turns=20,
        error_style="body",
        create_body={},
        starts_at_create=True,
        refusal=r"Could not |Wrong item format",
        can_close=True,
        wraps=True,
    ),
    Dialect(
        "babyai",
        num_tasks=1000,
        max_turns=20,
        error_style="body",
        pays=Pays.AT_GOAL,
        refusal=r"The action is not recognized|.*you can't ",
        can_close=True,
    ),
    Dialect(
        "sciworld",
        num_tasks=4639,
        max_turns=30,
        error_style="body",
        first_keys=("task_description", "observation"),
        score_key="score",
        pays=Pays.SCORE,
        refusal=r"No known action matches|Ambiguous request",
        can_close=True,
    ),
    Dialect(
        "alfworld",
        num_tasks=2620,
        max_turns=30,
        error_style="body",
        index_key="game",
        reset_extra={"world_type": "Text"},
        lists_actions=True,
        refusal=r"Nothing happens",
    ),
    Dialect(
        "webshop",
        num_tasks=6910,
        max_turns=10,
        error_style="status",
        created_key=None,
        session_key="env_idx",
        index_key="session_id",
        first_form="pair",
        text_key="state",
        num_slots=8000,
        lists_sessions=True,
    ),
    Dialect(
        "sqlgym",
        num_tasks=10962,
        max_turns=1,
        error_style="status",
        created_key=None,
        session_key="env_idx",
        index_key="item_id",
        first_form="pair",
        text_key="state",
        num_slots=8,
        lists_sessions=True,
    ),
    Dialect(
        "searchqa",
        num_tasks=51713,
        max_turns=10,
        error_style="status",
        create_body={"id": 0},
        created_key=None,
        starts_at_create=True,
        session_key="env_idx",
        index_key="id",
        first_form="text",
        ending=r"(?s).*<answer>.*</answer>",
        refusal=r"(?i)\s*(my previous action is invalid|invalid action)",
        can_close=True,
    ),
    Dialect("maze", 26, 15, "body", path="/maze", index_key="game"),
    Dialect("wordle", 980, 8, "body", path="/wordle", index_key="seed", refusal=r"\s*invalid word"),
    _tool("weather", 343, 10),
    _tool("movie", 238, 12),
    _tool("todo", 155, 15),
    _tool("academia", 20, 12),
    _tool("sheet", 20, 15),
    Dialect(
        "webarena",
        num_tasks=812,
        max_turns=25,
        error_style="status",
        created_key="env_idx",
        session_key="env_idx",
        index_key="idx",
        reset_extra={"seed": 0},
        done_keys=("terminated", "truncated"),
        can_close=True,
    ),
)

DIALECTS: Mapping[str, Dialect] = {row.env_id: row for row in _ROWS}


def dialect_of(env_id: str) -> Dialect:
    """The row of an environment; one that AgentGym does not have speaks like TextCraft."""
    known = DIALECTS.get(env_id)
    return known or Dialect(env_id, 0, 30, "body", create_body={}, can_close=True)


def read_created(dialect: Dialect, reply: Any) -> int:
    """Read the id of a new session. 0 is an id like any other."""
    key = dialect.created_key
    value = reply.get(key) if key is not None and isinstance(reply, Mapping) else reply
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_reply("the id of a new session", reply)
    return value


def read_first(dialect: Dialect, reply: Any) -> str:
    """Read the first observation from the reply to a reset."""
    if dialect.first_form == "text" and isinstance(reply, str):
        return reply
    if dialect.first_form == "pair" and isinstance(reply, list) and reply:
        if isinstance(reply[0], str):
            return reply[0]
    elif dialect.first_form == "fields" and isinstance(reply, Mapping):
        lines = [reply.get(key) for key in dialect.first_keys]
        if all(isinstance(line, str) for line in lines):
            return "\n".join(map(str, lines)) + _actions(dialect, reply)
    raise bad_reply("a first observation", reply)


def read_text(dialect: Dialect, reply: Any) -> str:
    """Read the observation from the reply to a step."""
    text = reply.get(dialect.text_key) if isinstance(reply, Mapping) else None
    if not isinstance(text, str):
        raise bad_reply("an observation", reply)
    return text + _actions(dialect, reply)


def read_step(dialect: Dialect, reply: Any, action: str, earned: float) -> StepResult:
    """Read the reply to a step; `earned` is what the turns before it summed up to."""
    text = read_text(dialect, reply)
    score = reply.get(dialect.score_key)
    done = [reply.get(key) for key in dialect.done_keys]
    if isinstance(score, bool) or not isinstance(score, int | float) or math.isnan(score):
        raise bad_reply("a reward", reply)
    if not all(isinstance(flag, bool) for flag in done):
        raise bad_reply("whether it is done", reply)
    ends_here = bool(dialect.ending) and re.match(dialect.ending, action) is not None
    reward, is_done, is_success = _verdict(dialect.pays, score, any(done) or ends_here, earned)
    is_refused = bool(dialect.refusal) and re.match(dialect.refusal, text) is not None
    return StepResult(Observation(text), reward, is_done, is_success, is_refused and not is_success)


def _verdict(pays: Pays, score: float, is_done: bool, earned: float) -> tuple[float, bool, bool]:
    """Bring a reply onto our scale: turn rewards that sum to 0..1, success only at the end."""
    if pays is Pays.AT_GOAL:
        reward = min(max(score, 0.0), 1.0)
        return reward, is_done or reward > 0, reward > 0
    if pays is Pays.SCORE:
        total = min(max(score / 100, 0.0), 1.0)
        return total - earned, is_done or score < 0 or total >= 1, total >= 1
    reward = min(max(float(score), 0.0), 1.0) if is_done else 0.0
    return reward, is_done, reward >= 1


def _actions(dialect: Dialect, reply: Mapping[str, Any]) -> str:
    listed = reply.get("available_actions") if dialect.lists_actions else None
    if not listed:
        return ""
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise bad_reply("a list of actions", listed)
    return ACTIONS_LINE + ",".join(listed)

"""What formats that answer with one JSON object have in common."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from practicum.agents.format import ActionFormat, Parsed
from practicum.core.commands import Call, Command, to_call, to_text
from practicum.core.env import Decision
from practicum.core.episode import FormatErrorKind
from practicum.core.message import Action


class JsonObjectFormat(ActionFormat):
    """One JSON object, fenced or bare, that names a function under `key`."""

    key: str
    shows_calls = True

    @abstractmethod
    def body_of(self, call: Call) -> dict[str, Any]:
        """The object without the thought."""

    @abstractmethod
    def call_of(self, body: dict[str, Any]) -> Call | str:
        """The call in an object, or what is wrong with it."""

    def write(self, decision: Decision, commands: Sequence[Command]) -> str:
        """Write the call as JSON."""
        thought = {"thought": decision.thought} if decision.thought else {}
        body = self.body_of(to_call(commands, decision.action.text))
        return json.dumps({**thought, **body}, ensure_ascii=False)

    def read(self, answer: str, commands: Sequence[Command]) -> Parsed:
        """Read the one object there is."""
        start = answer.find("{")
        if start < 0:
            return self.no_action()
        try:
            body, end = _DECODER.raw_decode(answer, start)
        except (ValueError, RecursionError) as error:
            return self.bad_syntax(f"Your JSON could not be read ({error}).")
        quoted = f'"{self.key}"'
        if quoted in answer[end:]:
            return self.several_actions(1 + answer[end:].count(quoted))
        thought = body.pop("thought", "")
        call = self.call_of(body) if isinstance(thought, str) else "thought is a string."
        if isinstance(call, str):
            return self.bad_syntax(call)
        try:
            text = to_text(commands, call)
        except ValueError as error:
            return self.error(FormatErrorKind.UNKNOWN_CALL, f"That does not exist: {error}.")
        return Decision(Action(text), thought) if text.strip() else self.no_action()


def _reject_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands in it twice")
    return dict(pairs)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_repeats, parse_constant=_reject_constant)
